"""Calendars to read, written on the spot."""

from calendar_files import ics_file

__all__ = ["ics_file"]
