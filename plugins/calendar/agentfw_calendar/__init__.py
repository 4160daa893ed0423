"""A person's own calendar: reads an .ics file, asks about conflicts, learns from the answers and marks declines.

The given file is never changed. The new file is the old one, byte for byte, with marks on what was declined.

    agentfw calendar decide my.ics

The way through the files:

- what is read: sources and caldav_source, ics_lines (a file as lines), ics_events, occurrences, calendar_reading
- what is known of an event: people, words (read in six languages), tagging (the same tags as in the benchmark)
- what is decided: conflicts, precedents (does a decision still hold?), answers (who is asked), environment
- what is learned: wording (attributes in words, and back), knowledge (in sentences), person_file (on disk)
- what is written: ics_marking (the marks in a file), marking (set, and taken back)
- what is proposed: free_times, proposals (other times, with a message to the organiser)
- session, which has all of these; above it terminal, session_command, calendar_command and page

What a person reads is in texts. See docs/own-calendar.md and docs/ics-calendars.md.
"""
