"""The command, called in this process."""

from command_line import agentfw, chat

__all__ = ["agentfw", "chat"]
