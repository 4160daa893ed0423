"""A person's own calendar: reads an .ics file, asks about conflicts, learns from the answers and marks declines.

The given file is never changed. The new file is the old one, byte for byte, with marks on what was declined.

    agentfw calendar decide my.ics

The way through the files: sources, caldav_source and discovery - ics_lines (the file as lines) - zones - ics_events -
occurrences - calendar_reading - people - words (read in six languages) - tagging (the same tags as in the benchmark) -
conflicts (with days_off) - precedents (does a decision still hold?) - environment - answers (who is asked) - reasons -
person_file (what is known of the person, on disk) and knowledge (in sentences) - marking, ics_marking and written (what
is written, and what was) - undoing - proposals (other times, from free_times and busy_times) and drafts - session.
Above them: terminal, telling, ics_command and calendar_command; planner and page. What a person reads is in texts, and
wording puts attributes into words. See docs/own-calendar.md and docs/ics-calendars.md.
"""
