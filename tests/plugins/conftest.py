"""What tests of the plugins that ship have in common."""

from __future__ import annotations

import pytest
from command_line import agentfw, chat

from agentfw import Host
from agentfw.testing import fresh_host

__all__ = ["agentfw", "chat", "host"]


@pytest.fixture(scope="module")
def host() -> Host:
    """A host of what ships, with notes of a module's own."""
    return fresh_host(builtins=True, strict=False)
