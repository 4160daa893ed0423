"""Postcards for agentfw: a memory that writes them and a tool that knows what they cost."""
