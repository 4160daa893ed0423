"""A run or a training that stopped goes on to the same end, once, and by one process at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

METERED = """
from agentfw import Component, hookimpl
from agentfw.episode import Usage
from agentfw_laboratory.bandit import Biased, BiasedSettings


class Metered(Biased):
    '''Each answer takes 100 tokens.'''

    def __init__(self):
        super().__init__(BiasedSettings())

    async def generate(self, request):
        with open("answers.txt", "a") as file:
            file.write("answer\\n")
        found = await super().generate(request)
        found.usage = Usage(prompt=90, cached=0, sampled=10)
        return found


@hookimpl
def agentfw_policies():
    return [Component("metered", f"{__name__}:Metered", "")]
"""
RUN = ("run", "bandit", "--policy", "metered", "--episodes", "4", "--set", "concurrency=1")
TRAIN = ("train", "bandit", "--policy", "metered", "--optimizer", "centred", "--learner", "bias", "--updates", "3")
SMALL = ("tasks=2", "samples=3", "evaluation.tasks=2", "evaluation.every=1", "concurrency=1", "environment.rounds=1")
SMALL_TRAIN = (*TRAIN, *(word for each in SMALL for word in ("--set", each)))


@pytest.fixture
def metered(agentfw: Agentfw, install: Callable[..., None]) -> Agentfw:
    install("agentfw-metered", "[agentfw]\nmetered = agentfw_metered\n", METERED)
    return agentfw


def only_run(folder: str = "runs") -> Path:
    (found,) = Path(folder).iterdir()
    return found


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def timeless(value: Any) -> Any:
    """A record without what depends on the machine."""
    if isinstance(value, dict):
        return {
            name: timeless(inner)
            for name, inner in value.items()
            if name not in ("seconds", "speed", "run", "id", "files", "sha256")
            and not name.endswith(("seconds", "memory"))
        }
    return [timeless(one) for one in value] if isinstance(value, list) else value


def left_by(run: Path) -> dict[str, Any]:
    """All episodes, scores, figures and weights of a run, by their places in its folder.

    In which order two groups of a training are scored isn't promised.
    """
    names = ("episodes.jsonl", "metrics.jsonl", "updates.jsonl", "adapter.json")
    found: dict[str, Any] = {}
    for path in sorted(run.rglob("*")):
        if path.name in names:
            found[str(path.relative_to(run))] = sorted(map(timeless, lines(path)), key=repr)
    found["figures"] = timeless(json.loads((run / "summary.json").read_text("utf-8")))
    return found


def test_a_run_that_is_done_is_not_done_again(metered: Agentfw) -> None:
    metered(*RUN)
    run = only_run()
    before = {path.name: path.read_bytes() for path in run.glob("*.json*")}
    asked = Path("answers.txt").read_text()

    again = metered("runs", "resume", run.name)

    assert again.code == 0
    assert Path("answers.txt").read_text() == asked, "nothing is asked a second time"
    assert {path.name: path.read_bytes() for path in run.glob("*.json*")} == before


def test_a_run_that_stopped_twice_ends_as_an_undisturbed_one(metered: Agentfw) -> None:
    metered(*RUN, "--runs", "undisturbed")
    metered(*RUN, "--set", "budget.tokens=300")
    run = only_run()

    second = metered("runs", "resume", run.name, "--set", "budget.tokens=900")
    last = metered("runs", "resume", run.name, "--set", "budget.tokens=null")

    assert (second.code, last.code) == (1, 0)
    assert left_by(run) == left_by(only_run("undisturbed"))


def test_a_training_that_stopped_in_two_updates_ends_as_an_undisturbed_one(metered: Agentfw) -> None:
    """The weights, the optimizer's and the learner's states, each version and each figure."""
    metered(*SMALL_TRAIN, "--runs", "undisturbed")
    first = metered(*SMALL_TRAIN, "--set", "budget.tokens=900")
    run = only_run()

    second = metered("runs", "resume", run.name, "--set", "budget.tokens=2300")
    last = metered("runs", "resume", run.name, "--set", "budget.tokens=null")

    assert (first.code, second.code, last.code) == (1, 1, 0)
    whole, expected = left_by(run), left_by(only_run("undisturbed"))
    assert [line["update"] for line in whole["updates.jsonl"]] == [1, 2, 3]
    assert whole == expected


@pytest.mark.slow
def test_a_run_that_is_executed_cannot_be_resumed_beside_it(metered: Agentfw, install: Callable[..., None]) -> None:
    """A hook resumes the run while it is executed: what a second terminal would do."""
    code = """
import os
import subprocess
import sys

from agentfw import hookimpl


@hookimpl
def agentfw_episode_done(run, episode):
    if episode.id == "00001-0":
        words = ["runs", "resume", run.folder.id]
        everything = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "agentfw", *words]
        beside = subprocess.run(command, capture_output=True, text=True, env=everything)
        with open("beside.txt", "w") as file:
            file.write(f"{beside.returncode} {beside.stderr}")
"""
    install("agentfw-beside", "[agentfw]\nbeside = agentfw_beside\n", code)

    answer = metered(*RUN)

    assert answer.code == 0, answer.err
    told = Path("beside.txt").read_text()
    assert told[0] in "12"
    assert "in use" in told
    assert [line["episode"] for line in lines(only_run() / "metrics.jsonl")] == [f"0000{n}-0" for n in range(4)]
