"""A component that hangs, fails at times or answers wrongly is named, with the call that it was in; others go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Guarded = Callable[..., Any]

HANGING = {
    "policy": "generate",
    "memory": "recall",
    "reward": "score",
    "tool": "open",
}


def only_run() -> Path:
    (folder,) = Path("runs").iterdir()
    return folder


def lines(name: str) -> list[Any]:
    path = only_run() / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def blamed(answer: Any, call: str = "") -> None:
    """It is named with its distribution, as the plugin's fault and not as a bug of the framework."""
    told = " ".join(answer.err.split())
    assert answer.code in (1, 3), told
    assert "agentfw-odd" in told
    assert '"odd"' in told
    assert call in told
    assert "bug in agentfw" not in told
    assert "Traceback" not in told


@pytest.mark.parametrize(("kind", "method"), HANGING.items())
def test_who_waits_for_ever_is_named_after_the_deadline(guarded: Guarded, kind: str, method: str) -> None:
    body = f"    async def {method}(self, *given, **more):\n        await asyncio.Event().wait()\n"

    answer = guarded(kind, body, "deadline=0.2", "max_failed=0", "retries=0")

    blamed(answer, f"{method}()")
    assert "0.2 s" in answer.err


@pytest.mark.parametrize("kind", ["policy", "memory", "reward"])
def test_who_fails_in_one_episode_costs_that_episode(guarded: Guarded, kind: str) -> None:
    """The others are played, scored and kept; the one that is left out is told with who failed in it."""
    bodies = {
        "policy": (
            "    async def generate(self, request):\n"
            "        if request.task.index == 1:\n"
            "            raise ValueError('spilt')\n"
            "        return await super().generate(request)\n"
        ),
        "memory": (
            "    async def recall(self, query):\n"
            "        if query.task.index == 1:\n"
            "            raise ValueError('spilt')\n"
            "        return []\n"
        ),
        "reward": (
            "    async def score(self, group):\n"
            "        if group[0].task.index == 1:\n"
            "            raise ValueError('spilt')\n"
            "        return await super().score(group)\n"
        ),
    }

    answer = guarded(kind, bodies[kind], "max_failed=0.5", "retries=0", episodes=4)

    assert answer.code == 0, answer.err
    assert [line["episode"] for line in lines("metrics.jsonl")] == ["00000-0", "00002-0", "00003-0"]
    (failed,) = lines("failed.jsonl")
    assert failed["episode"] == "00001-0"
    assert failed["stage"] == ("score" if kind == "reward" else "play")
    assert "agentfw-odd" in failed["reason"]
    assert "spilt" in failed["reason"]


def test_what_a_component_does_to_its_copy_changes_no_record(guarded: Guarded) -> None:
    """A reward model empties the episodes that it is given, and answers all the same."""
    body = (
        "    async def score(self, group):\n"
        "        found = await super().score(group)\n"
        "        for episode in group:\n"
        "            episode.turns.clear()\n"
        "            episode.messages.clear()\n"
        "            episode.events.clear()\n"
        "        return found\n"
    )

    answer = guarded("reward", body)

    assert answer.code == 0, answer.err
    for episode in lines("episodes.jsonl"):
        assert episode["turns"]
        assert episode["messages"]
        assert episode["events"]
    assert all(line["turns"] for line in lines("metrics.jsonl"))
