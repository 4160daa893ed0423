"""A person's own calendar: reads an .ics file, asks about conflicts, learns from the answers and marks declines.

The given file is never changed. The new file is the old one, byte for byte, with marks on what was declined.

    agentfw calendar decide my.ics

The way through the files:

- `ics`: what is read and written: sources and caldav_source, ics_lines (a file as lines), ics_events, occurrences,
  ics_marking (the marks in a file)
- `language`: words (read in six languages), texts (what a person reads), wording (attributes in words, and back)
- `deciding`, what is known of an event: people, household (whose it is), tagging; what clashes: trips, conflicts,
  precedents (does a decision still hold?); who is asked, and what: answers, environment; what is learned: preferences,
  knowledge (in sentences), person_file (on disk); what is proposed: free_times, proposals
- marking (set, and taken back), and session, which has all of these; above it terminal, session_command,
  calendar_command and page

See docs/own-calendar.md and docs/ics-calendars.md.
"""
