"""Proactive scheduling: an agent follows a conversation of two people and is ready with the right action in time."""
