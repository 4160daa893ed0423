"""What the policy answered in episodes that an interruption has cut short is not asked again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw import Component, Environment, Generation, Host, Policy, Request, Run, World, action, hookimpl
from agentfw.episode import Task, Usage
from agentfw.runs import Observer, RunFolder, parse_spec
from agentfw.testing import fresh_host

ROUNDS, EPISODES = 6, 3


class Counting(Environment):
    """Say the next number."""

    headline = "said"

    def begin(self, world: World, task: Task) -> None:
        self.world, self.number = world, 0
        self._ask()

    def _ask(self) -> None:
        self.number += 1
        self.world.round(self.number, of=ROUNDS)
        self.world.observe("ask", {"number": self.number})

    @action
    def say(self, number: int) -> None:
        """Say a number."""
        self.world.measure("said", float(number))
        if self.number == ROUNDS:
            self.world.finish(said=float(number))
        else:
            self.world.after(1, self._ask)


class Answering(Policy):
    """Says a number, and counts how often it was asked. A test may stop it."""

    asked: list[tuple[str, str]] = []  # noqa: RUF012 - the only one there is
    stop_at = 0

    async def generate(self, request: Request) -> Generation:
        await asyncio.sleep(0)
        if self.stop_at and len(self.asked) >= self.stop_at:
            await asyncio.Event().wait()
        self.asked.append((request.task.id, request.messages[-1].content))
        text = json.dumps({"name": "say", "arguments": {"number": len(request.messages)}})
        ids = tuple(range(len(request.messages)))
        usage = Usage(prompt=len(ids), cached=0, sampled=2)
        return Generation(text, prompt_ids=ids, token_ids=(7, 8), logprobs=(-0.5, -0.25), version="one", usage=usage)


class Plugin:
    @hookimpl
    def agentfw_environments(self) -> list[Component]:
        return [Component("counting", f"{__name__}:Counting", "Say the next number")]

    @hookimpl
    def agentfw_policies(self) -> list[Component]:
        return [Component("answering", f"{__name__}:Answering", "Says a number")]


@pytest.fixture
def host() -> Iterator[Host]:
    Answering.asked, Answering.stop_at = [], 0
    yield fresh_host(Plugin())
    Answering.stop_at = 0


def started(host: Host, runs: Path) -> Run:
    values = {"environment": "counting", "policy": "answering", "episodes": EPISODES, "concurrency": 2}
    return Run.create(parse_spec(values), host, runs)


async def interrupted(run: Run, after: int) -> None:
    """Cancel a run when its policy has given so many answers."""
    Answering.stop_at = after
    running = asyncio.create_task(run.execute())
    while len(Answering.asked) < after:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.wait([running])
    Answering.stop_at = 0


def answers_on_disk(folder: RunFolder) -> int:
    """Those of episodes that ended, and those that are kept of others. One that just ended may still have both."""
    ended = {episode.id for episode in folder.episodes()}
    files = [file for file in (folder.path / "answers").glob("*.jsonl") if file.stem not in ended]
    return ROUNDS * len(ended) + sum(file.read_bytes().count(b"\n") for file in files)


def records(folder: RunFolder) -> list[dict[str, Any]]:
    return sorted((episode.to_record() for episode in folder.episodes()), key=lambda one: one["task"]["index"])


def test_no_round_is_played_twice(host: Host, tmp_path: Path) -> None:
    whole = started(host, tmp_path / "whole")
    asyncio.run(whole.execute())
    expected = sorted(Answering.asked)
    Answering.asked.clear()

    run = started(host, tmp_path / "cut")
    kept: list[int] = []
    for after in (1, 4, 5, 11, 16):
        asyncio.run(interrupted(Run.open(run.folder, host) if kept else run, after))
        kept.append(answers_on_disk(run.folder))
    asyncio.run(Run.open(run.folder, host).execute())

    assert kept == [1, 4, 5, 11, 16]
    assert sorted(Answering.asked) == expected
    assert records(run.folder) == records(whole.folder)
    assert not (run.folder.path / "answers").exists()


def test_half_a_line_costs_one_answer(host: Host, tmp_path: Path) -> None:
    run = started(host, tmp_path)
    asyncio.run(interrupted(run, 5))
    file = sorted((run.folder.path / "answers").glob("*.jsonl"))[0]
    file.write_bytes(file.read_bytes()[:-10])

    asyncio.run(Run.open(run.folder, host).execute())

    assert len(Answering.asked) == EPISODES * ROUNDS + 1
    assert not (run.folder.path / "answers").exists()


def test_what_is_asked_in_another_way_is_asked(host: Host, tmp_path: Path) -> None:
    run = started(host, tmp_path)
    asyncio.run(interrupted(run, 4))
    for file in (run.folder.path / "answers").glob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            line["asked"] = "something else"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    asyncio.run(Run.open(run.folder, host).execute())

    assert len(Answering.asked) == EPISODES * ROUNDS + 4


def test_what_was_paid_for_counts_towards_the_budget(host: Host, tmp_path: Path) -> None:
    class Spent(Observer):
        told: Usage = Usage(0, 0, 0)

        def spent(self, policy: Usage, judges: Usage) -> None:
            self.told = policy

    run, spent = started(host, tmp_path), Spent()
    asyncio.run(interrupted(run, 5))

    asyncio.run(Run.open(run.folder, host).execute(spent))

    assert spent.told.sampled == 2 * EPISODES * ROUNDS
