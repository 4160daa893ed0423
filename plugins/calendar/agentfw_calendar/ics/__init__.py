"""Calendars as they are kept: files line by line, events and their dates, published addresses, CalDAV servers."""
