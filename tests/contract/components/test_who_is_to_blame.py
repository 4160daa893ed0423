"""A component that hangs, fails at times or answers wrongly is named, with the call that it was in; others go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Guarded = Callable[..., Any]

HANGING = {"policy": "generate", "memory": "recall", "reward": "score", "tool": "open"}


def lines(name: str) -> list[Any]:
    (path,) = Path("runs").glob(f"*/{name}")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("kind", "method"), HANGING.items())
def test_who_waits_for_ever_is_named_after_the_deadline(guarded: Guarded, kind: str, method: str) -> None:
    body = f"    async def {method}(self, *given, **more):\n        await asyncio.Event().wait()\n"

    answer = guarded(kind, body, "deadline=0.2", "max_failed=0", "retries=0")

    told = " ".join(answer.err.split())
    assert answer.code in (1, 3), told
    for words in ("agentfw-odd", '"odd"', f"{method}()", "0.2 s"):
        assert words in told
    for words in ("bug in agentfw", "Traceback"):
        assert words not in told


@pytest.mark.parametrize("kind", ["policy", "memory", "reward"])
def test_who_fails_in_one_episode_costs_that_episode(guarded: Guarded, kind: str) -> None:
    """The others are played, scored and kept; the one that is left out is told with who failed in it."""
    task = {"policy": "given.task", "memory": "given.task", "reward": "given[0].task"}[kind]
    body = (
        f"    async def {HANGING[kind]}(self, given):\n"
        f"        if {task}.index == 1:\n"
        "            raise ValueError('spilt')\n"
        f"        return await super().{HANGING[kind]}(given)\n"
    )

    answer = guarded(kind, body, "max_failed=0.5", "retries=0", episodes=4)

    assert answer.code == 0, answer.err
    assert [line["episode"] for line in lines("metrics.jsonl")] == ["00000-0", "00002-0", "00003-0"]
    (failed,) = lines("failed.jsonl")
    assert failed["episode"] == "00001-0"
    assert failed["stage"] == ("score" if kind == "reward" else "play")
    assert "agentfw-odd" in failed["reason"]
    assert "spilt" in failed["reason"]
