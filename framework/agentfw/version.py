"""The version of agentfw."""

__version__ = "0.2.0"
