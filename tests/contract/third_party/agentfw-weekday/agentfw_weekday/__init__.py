"""A tool that tells the weekday of a date, for the agentfw after next."""
