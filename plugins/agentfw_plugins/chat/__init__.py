"""A conversation in the terminal that the agent learns from."""
