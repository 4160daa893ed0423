"""A person's own calendar: reads an .ics file, asks about conflicts, learns from the answers and marks declines.

The given file is never changed. The new file is the old one, byte for byte, with marks on what was declined.

    agentfw run calendar --ics my.ics

The way through the files: lines (the file as lines) - zones - reading (an event) - recurrence (its dates) - people -
tagging (the same tags as in the benchmark) - conflicts - environment - answers (who is asked) - keeping (what is known
of the person, on disk) - marking (the new file) - terminal - session - command. See
docs/guides/own-calendar.md and docs/reference/ics-calendars.md.
"""
