"""Hooks that a run or a gateway can name: ask a person before a tool is called, limit what is spent, redact records."""
