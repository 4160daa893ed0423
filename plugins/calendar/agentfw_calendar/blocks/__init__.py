"""Flexible blocks: time for oneself that is placed around appointments, and moves when something comes up."""
