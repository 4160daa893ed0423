"""A real person's calendar: their .ics read, their conflicts asked about, their answers learned and marked.

The one rule: the file that was given is never changed, and nothing in it is lost: what is written is that file, byte
for byte, with marks on what was declined.

    agentfw run calendar --ics my.ics

The way through the files: lines (the file as lines) - zones - reading (an event) - recurrence (its dates) - people -
tagging (the same tags as in the benchmark) - conflicts - environment - answers (who is asked) - keeping (what is known
of the person, on disk) - marking (the new file) - terminal - session - command. See
docs/guides/own-calendar.md and docs/reference/ics-calendars.md.
"""
