"""Runs through the command; the plugin agentfw-laboratory is installed."""

from command_line import agentfw, install, quick

__all__ = ["agentfw", "install", "quick"]
