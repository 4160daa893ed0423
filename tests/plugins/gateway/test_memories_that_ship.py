"""`agentfw serve` with each memory that ships: it takes part in the sessions of a user, in its own way."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from agentfw.runs import read_sessions
from agentfw_plugins.memories.registration import REGISTRATION

from . import killing

PATIENCE = 120.0


@pytest.mark.parametrize("name", [memory.name for memory in REGISTRATION.memories])
def test_each_memory_that_ships_acts_in_a_gateway(name: str, tmp_path: Path) -> None:
    if name == "skillgraph":
        pytest.importorskip("igraph")
    replies = 'policy.replies=["I see."]'
    process, url, run = killing.start(tmp_path, "--policy", "scripted", "--set", replies, "--memory", name)

    with httpx.Client(base_url=url, timeout=60) as client:
        for session, text in (("first", "I live in Rome."), ("second", "Where do I live?")):
            body = {"model": "agentfw", "user": "ada", "messages": [{"role": "user", "content": text}]}
            client.post(f"/s/{session}/v1/chat/completions", json=body).raise_for_status()
            end = time.monotonic() + PATIENCE
            while (heard := client.get("/memory", params={"user": "ada"})).is_success and heard.json()["waiting"]:
                assert time.monotonic() < end
                time.sleep(0.05)
    process.terminate()
    process.communicate(timeout=300)

    second = next(episode for episode in read_sessions(run) if episode.task.query == "second")
    is_told = any("Rome" in message.content for message in second.messages if message.role == "system")
    is_offered_tools = any(second.actions.values())
    assert is_told or is_offered_tools
