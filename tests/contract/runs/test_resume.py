"""A run or a training that stopped goes on to the same end, once, by one process at a time, and within its budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

TILL = """
from agentfw import Component, Score, hookimpl
from agentfw.episode import Usage
from agentfw.policy import Price
from agentfw_laboratory.bandit import Biased, BiasedSettings
from agentfw_laboratory.rewards import Varied

class Metered(Biased):
    '''Each answer takes 100 tokens, costs half a unit, and is written down.'''

    price = Price(prompt=5000, cached=5000, sampled=5000)

    def __init__(self):
        super().__init__(BiasedSettings())

    async def generate(self, request):
        with open("answers.txt", "a") as file:
            file.write("answer\\n")
        found = await super().generate(request)
        found.usage = Usage(prompt=90, cached=0, sampled=10)
        return found

class Judge(Varied):
    '''Each score takes 1000 tokens of a judge.'''

    async def score(self, group):
        with open("judged.txt", "a") as file:
            file.write("judged\\n" * len(group))
        usage = Usage(prompt=500, cached=0, sampled=0, cost=0.5)
        return [Score(one.id, part, 0.5, usage=usage) for one in group for part in ("taste", "style")]

@hookimpl
def agentfw_policies():
    return [Component("metered", f"{__name__}:Metered", "")]

@hookimpl
def agentfw_reward_models():
    return [Component("judge", f"{__name__}:Judge", "")]
"""

SMALL = ("--set", "concurrency=1", "--set", "environment.rounds=1")
RUN = ("run", "bandit", "--policy", "metered", "--episodes", "6", *SMALL)
TRAIN = (
    *("train", "bandit", "--policy", "metered", "--optimizer", "centred", "--learner", "bias", "--updates", "3"),
    *(*SMALL, "--set", "tasks=2", "--set", "samples=3", "--set", "evaluation.tasks=2", "--set", "evaluation.every=1"),
)


@pytest.fixture
def till(agentfw: Agentfw, install: Callable[..., None]) -> Agentfw:
    install("agentfw-till", "[agentfw]\ntill = agentfw_till\n", TILL)
    return agentfw


def spent(file: str = "answers.txt") -> int:
    return len(Path(file).read_text().splitlines())


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


@pytest.mark.parametrize(("limit", "most", "more"), [("tokens", "200", "400"), ("money", "1", "2")])
def test_a_run_stops_at_limits_and_ends_as_an_undisturbed_one(till: Agentfw, limit: str, most: str, more: str) -> None:
    till(*RUN, "--runs", "undisturbed")
    Path("answers.txt").unlink()
    changes = ((), ("--set", f"budget.{limit}={more}"), (), ("--set", f"budget.{limit}=null"))

    first = till(*RUN, "--set", f"budget.{limit}={most}")
    run = only_run()
    steps = [(till("runs", "resume", run.name, *change).code, spent()) for change in changes]
    before = {path.name: path.read_bytes() for path in run.glob("*.json*")}
    again = till("runs", "resume", run.name)

    assert first.code == 1
    assert f"budget.{limit} is spent" in first.err
    assert f"agentfw runs resume {run.name} --set budget.{limit}=" in first.err
    assert steps == [(1, 2), (1, 4), (1, 4), (0, 6)], "a raised limit holds, and no answer is paid for twice"
    assert left_by(run) == left_by(only_run("undisturbed"))
    assert (again.code, spent()) == (0, 6)
    assert {path.name: path.read_bytes() for path in run.glob("*.json*")} == before, "what is done is not done again"


def test_judges_spend_of_the_same_budget(till: Agentfw) -> None:
    answer = till(*RUN, "--reward", "judge", "--set", "budget.tokens=2000")
    asked, judged = spent(), spent("judged.txt")
    resumed = till("runs", "resume", only_run().name)

    assert (answer.code, resumed.code) == (1, 1)
    assert 2 <= judged == asked <= 3, "two judgements reach the limit; a third answer may have been on its way"
    assert (spent(), spent("judged.txt")) == (asked, judged)


def test_a_training_that_stopped_in_two_updates_ends_as_an_undisturbed_one(till: Agentfw) -> None:
    """The weights, the optimizer's and the learner's states, each version and each figure."""
    till(*TRAIN, "--runs", "undisturbed")
    Path("answers.txt").unlink()

    # It stops in the middle of a group: two of its episodes are played, and not scored.
    first, asked = till(*TRAIN, "--set", "budget.tokens=700"), spent()
    run = only_run()
    again, asked_again = till("runs", "resume", run.name), spent()
    changes = [("--set", f"budget.tokens={most}") for most in ("2300", "null")]
    steps = [(till("runs", "resume", run.name, *change).code, spent()) for change in changes]

    assert (first.code, asked) == (1, 7)
    assert (again.code, asked_again) == (1, 7)
    assert "700 of 700" in again.err
    # Four evaluations of two tasks, and three updates with two groups of three.
    assert steps == [(1, 23), (0, 4 * 2 + 3 * 6)], "evaluations count, and nothing is asked twice"
    whole = left_by(run)
    assert [line["update"] for line in whole["updates.jsonl"]] == [1, 2, 3]
    assert whole == left_by(only_run("undisturbed"))


def test_a_run_that_is_executed_cannot_be_executed_beside_it(till: Agentfw, install: Callable[..., None]) -> None:
    code = """
from pathlib import Path

from agentfw import hookimpl
from agentfw.errors import AgentfwError
from agentfw.runs import RunFolder


@hookimpl
def agentfw_episode_done(run, episode):
    try:
        RunFolder.open(run.folder.path).lock()
    except AgentfwError as error:
        Path("beside.txt").write_text(error.message)
"""
    install("agentfw-beside", "[agentfw]\nbeside = agentfw_beside\n", code)

    assert till(*RUN).code == 0

    assert "in use" in Path("beside.txt").read_text()
    assert [line["episode"] for line in lines(only_run() / "metrics.jsonl")] == [f"0000{n}-0" for n in range(6)]
