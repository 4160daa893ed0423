"""What a run may spend: a limit holds over all executions of a run, for answers and for judges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

TILL = """
import json
from pathlib import Path

from agentfw import Component, Score, Settings, hookimpl
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
        return [
            Score(one.id, "judge", 1.0, usage=Usage(prompt=1000, cached=0, sampled=0, cost=1.0)) for one in group
        ]


@hookimpl
def agentfw_policies():
    return [Component("metered", f"{__name__}:Metered", "")]


@hookimpl
def agentfw_reward_models():
    return [Component("judge", f"{__name__}:Judge", "")]
"""

RUN = ("run", "bandit", "--policy", "metered", "--episodes", "6", "--set", "concurrency=1", "--set")
ONE_ROUND = "environment.rounds=1"


def spent(file: str = "answers.txt") -> int:
    path = Path(file)
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def till(agentfw: Agentfw, install: Callable[..., None]) -> Agentfw:
    install("agentfw-till", "[agentfw]\ntill = agentfw_till\n", TILL)
    return agentfw


def only_run() -> str:
    (folder,) = Path("runs").iterdir()
    return folder.name


@pytest.mark.parametrize(("limit", "most", "more"), [("tokens", "300", "600"), ("money", "1.5", "3")])
def test_what_was_spent_before_a_resume_counts(till: Agentfw, limit: str, most: str, more: str) -> None:
    first = till(*RUN, ONE_ROUND, "--set", f"budget.{limit}={most}")
    run, asked = only_run(), spent()
    again = till("runs", "resume", run)
    raised = till("runs", "resume", run, "--set", f"budget.{limit}={more}")

    assert (first.code, asked) == (1, 3)
    assert f"budget.{limit} is spent" in first.err
    assert f"agentfw runs resume {run} --set budget.{limit}=" in first.err
    assert (again.code, raised.code) == (1, 0)
    assert spent() == 6, "six answers were paid for, each of them once"


def test_a_limit_that_was_raised_is_remembered(till: Agentfw) -> None:
    till(*RUN, ONE_ROUND, "--set", "budget.tokens=200")
    run = only_run()

    raised = till("runs", "resume", run, "--set", "budget.tokens=400")
    again = till("runs", "resume", run)

    assert (raised.code, again.code) == (1, 1)
    assert "400 of 400" in again.err
    assert spent() == 4


def test_judges_spend_of_the_same_budget(till: Agentfw) -> None:
    answer = till(*RUN, ONE_ROUND, "--reward", "judge", "--set", "budget.tokens=2000")
    asked, judged = spent(), spent("judged.txt")
    resumed = till("runs", "resume", only_run())

    assert (answer.code, resumed.code) == (1, 1)
    assert 2 <= judged == asked <= 3, "two judgements reach the limit; a third answer may have been on its way"
    assert (spent(), spent("judged.txt")) == (asked, judged)


def test_a_training_counts_its_evaluations_and_its_rollouts(till: Agentfw) -> None:
    words = ("train", "bandit", "--policy", "metered", "--optimizer", "centred", "--learner", "bias")
    small = ("tasks=2", "samples=2", "evaluation.tasks=2", "evaluation.every=1", "updates=2", "concurrency=1")
    chosen = [word for each in (*small, ONE_ROUND, "budget.tokens=700") for word in ("--set", each)]

    first = till(*words, *chosen)
    run, asked = only_run(), spent()
    again = till("runs", "resume", run)
    whole = till("runs", "resume", run, "--set", "budget.tokens=null")

    assert (first.code, asked) == (1, 7)
    assert "700 of 700" in again.err
    assert (again.code, whole.code) == (1, 0)
    assert spent() == 3 * 2 + 2 * 4, "three evaluations and two updates, and nothing was asked twice"
