"""A reward model for agents that don't run in circles."""
