"""A gateway with each memory that ships: it takes part in the sessions of a user, in its own way."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from agentfw.runs import read_sessions
from agentfw_plugins.memories.registration import REGISTRATION

from .conftest import served
from .endless_upstream import until
from .test_sessions import ask, body


@pytest.mark.parametrize("name", [memory.name for memory in REGISTRATION.memories])
def test_each_memory_that_ships_acts_in_a_gateway(name: str, tmp_path: Path) -> None:
    if name == "skillgraph":
        pytest.importorskip("igraph")

    with served(tmp_path, policy="scripted", assignments=['policy.replies=["I see."]'], memories=[name]) as gateway:

        def is_heard() -> bool:
            heard = httpx.get(f"{gateway.url}/memory", params={"user": "ada"}, timeout=60)
            return not (heard.is_success and heard.json()["waiting"])

        for session, text in (("first", "I live in Rome."), ("second", "Where do I live?")):
            ask(gateway.session(session), body(text, user="ada"))
            until(is_heard)
        [second] = read_sessions(gateway.live.folder.path, "second")

    is_told = any("Rome" in message.content for message in second.messages if message.role == "system")
    is_offered_tools = any(second.actions.values())
    assert is_told or is_offered_tools
