"""A model that decides what to remember of what users say, on a real server whose answers are scripted."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from chat_server import Reply, completion, refusal, serving

from agentfw.memory import Saying
from agentfw_plugins.memories.skillgraph import SkillGraphMemory, SkillGraphSettings

pytest.importorskip("igraph")


def memory(folder: Path, address: str, **settings: object) -> SkillGraphMemory:
    given = {"embedder": "hash", "writer_url": address, "writer_model": "served", **settings}
    made = SkillGraphMemory(SkillGraphSettings.model_validate(given))
    made.open(folder)
    return made


def hear(of: SkillGraphMemory, text: str, number: int = 1, user: str = "ana") -> None:
    asyncio.run(of.hear(Saying(f"{user}/{number}", user, text, "c1", 1_700_000_000.0 + number)))


def kept(of: SkillGraphMemory, user: str = "ana") -> list[str]:
    return [one.text for one in asyncio.run(of.remembered(user))]


def answer(*evidence: object) -> Reply:
    decisions = [{"action": "ADD", "text": f"noted: {one}", "evidence": one} for one in evidence]
    return completion(json.dumps({"messages": [decisions]}))


def test_a_model_decides_what_is_kept_and_its_cost_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-key")
    with serving(answer("I am in Berlin", "I own a yacht")) as (address, server):
        mine = memory(tmp_path, address)
        hear(mine, "So I am in Berlin these days, what a change!\n> I live in Rome.")
        assert kept(mine) == ["noted: I am in Berlin"]  # nobody spoke of a yacht
        (body,) = server.bodies
        assert body["response_format"]["type"] == "json_schema"
        assert "Rome" not in json.dumps(body)
        with caplog.at_level(logging.INFO):
            asyncio.run(mine.close())
    assert "the memory's writer took 14 tokens" in caplog.text
    assert "the-key" not in caplog.text


@pytest.mark.parametrize(
    ("reply", "settings"),
    [
        (completion("certainly! here you are"), {}),
        (completion(json.dumps(["I am in Berlin"])), {}),
        (answer({"fact": "Berlin"}), {}),
        (refusal(500, "overloaded"), {}),
        (Reply({"nothing": True}), {}),
        (Reply({}, wait=0.5), {"writer_timeout": 0.1}),
        # Something arrives all the time, and yet no answer.
        (Reply(b"\n" * 200, pause=0.05), {"writer_timeout": 0.5}),
        (completion("x" * 1_100_000), {}),
    ],
)
def test_where_the_model_fails_what_was_said_is_kept_and_a_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reply: Reply, settings: dict[str, object]
) -> None:
    with serving(reply) as (address, _):
        mine = memory(tmp_path, address, **settings)
        hear(mine, "I live in Berlin.")
        assert kept(mine) == ["I live in Berlin."]
    assert "was kept as it was said" in caplog.text


def test_beyond_its_tokens_no_model_is_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(answer()) as (address, server):
        mine = memory(tmp_path, address, writer_tokens=20)
        for number, place in enumerate(("Rome", "Oslo", "Bern")):
            hear(mine, f"I live in {place}.", number)
        assert len(server.bodies) == 2
        assert kept(mine) == ["I live in Bern."]  # the model kept nothing of the others
    assert "28 tokens are used, of 20 allowed" in caplog.text
    assert [body["max_tokens"] for body in server.bodies] == [20, 6]
