"""Postcards for agentfw: a memory that writes them, and a command that shows them."""
