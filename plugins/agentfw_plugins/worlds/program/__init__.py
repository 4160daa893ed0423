"""Somebody else's program as the agent: it asks the policy over HTTP, and what it achieves is the reward."""
