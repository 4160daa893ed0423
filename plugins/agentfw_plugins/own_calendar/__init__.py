"""A person's own calendar: reads an .ics file, asks about conflicts, learns from the answers and marks declines.

The given file is never changed. The new file is the old one, byte for byte, with marks on what was declined.

    agentfw run calendar --ics my.ics

The way through the files: sources - ics_lines (the file as lines) - zones - ics_events - occurrences -
calendar_reading - people - words (four languages) - tagging (the same tags as in the benchmark) - conflicts -
environment - answers (who is asked) - reasons - person_file (what is known of the person, on disk) - ics_marking (the
new file) - proposals (other times, from free_times, days_off and busy_times) - terminal - session - ics_command. See
docs/guides/own-calendar.md and docs/reference/ics-calendars.md.
"""
