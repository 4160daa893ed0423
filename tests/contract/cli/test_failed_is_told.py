"""A session that nobody could answer has failed, and says so first; one that nobody has rated has no reward, not 0."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw import Generation, Message, Policy, Request
from agentfw.errors import AgentfwError, EndpointError
from agentfw.runs import LiveRun, RunFolder, parse_spec
from agentfw.testing import fresh_host

SPEC = {
    "environment": "sessions",
    "policy": {"name": "scripted", "settings": {"replies": ["yes"]}},
    "rewards": ["feedback"],
}


class Away(Policy):
    async def generate(self, request: Request) -> Generation:
        raise EndpointError("the model's server can't be reached")


def record(sessions: Sequence[str], seed: int = 1) -> str:
    """Record sessions below ./runs: those that are `away` fail, those that are `good` are rated."""

    async def lead() -> str:
        host = fresh_host(builtins=True)
        async with LiveRun.create(parse_spec({**SPEC, "seed": seed}), host, Path("runs").absolute()) as live:
            for number, kind in enumerate(sessions):
                session = live.begin(f"{kind} {number}", user="ada")
                try:
                    await session.answer([Message("user", "hello")], policy=Away() if kind == "away" else None)
                except AgentfwError:
                    pass
                if kind == "good":
                    session.feedback(1.0)
                await live.keep(session)
                await live.conclude(session)
            return live.folder.id

    return asyncio.run(lead())


@pytest.fixture
def mixed(agentfw: Agentfw) -> str:
    return record(["away", "plain", "away", "good"])


@pytest.mark.slow
def test_the_failed_ones_come_first_and_a_comparison_counts_them(mixed: str, agentfw: Agentfw) -> None:
    other = record(["good", "good", "plain", "good"], seed=2)

    listed, shown, compared = agentfw("runs", "list"), agentfw("runs", "show", mixed), agentfw("compare", mixed, other)

    assert re.search(rf"{mixed} +scripted +done, 2 failed, 2 sessions ended +reward 1\.000", listed.out)
    assert shown.out.splitlines()[:2] == [
        f"{mixed}   done, 2 failed, 2 sessions ended",
        "failed and left out, 2 episodes: the model's server can't be reached",
    ]
    assert agentfw("report", mixed).code == 0
    page = (Path("runs") / mixed / "report.html").read_text()
    assert page.index(">failed<") < page.index(">reward<")
    assert "unrated, 1 turn" in page
    assert compared.code == 0
    assert f"of {mixed}, 2 episodes failed, and are in no figure here" in compared.err


def test_what_nobody_rated_or_answered_looks_neither_bad_nor_fine(agentfw: Agentfw) -> None:
    unrated, lost = record(["plain", "plain"]), record(["away"], seed=2)

    listed, report = agentfw("runs", "list").out, agentfw("report", lost)

    assert "reward 0" not in listed
    assert not re.search(r"^(reward|utility) +[\d-]", agentfw("runs", "show", unrated).out, re.M)
    assert agentfw("report", unrated).code == 0
    page = (Path("runs") / unrated / "report.html").read_text()
    assert "reward 0.000" not in page
    assert "Turns by episode" in page
    assert "done, 1 failed, 0 sessions ended" in listed
    assert agentfw("runs", "show", lost).code == 0
    assert (report.code, "can't be reached" in report.err) == (2, True)


def test_what_failed_stays_failed_when_the_run_goes_on(mixed: str, agentfw: Agentfw) -> None:
    async def again() -> None:
        async with LiveRun.open(RunFolder.open(Path("runs", mixed)), fresh_host(builtins=True)) as live:
            assert not live.sessions
            assert len(live.ended) == 4

    asyncio.run(again())

    assert "2 failed, 2 sessions ended" in agentfw("runs", "list").out


def test_a_run_that_failed_says_so(agentfw: Agentfw) -> None:
    closed = ("--set", "policy.base_url=http://127.0.0.1:9/v1", "--set", "policy.model=x", "--set", "retries=0")

    answer = agentfw("run", "inbox", "--policy", "openai", *closed, "--episodes", "1")

    assert answer.code == 1
    assert "1 of 1" not in answer.err
    assert "interrupted, 1 failed, 0 of 1 episode" in agentfw("runs", "list").out
