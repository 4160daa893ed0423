"""The StrategyHub as a memory and a tool: what an agent can do with it in the middle of an episode, and in a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from agentfw import Engagement, Episode, Intervention, Moment, PolicyAgent, Task
from agentfw.errors import UsageError
from agentfw.interfaces import EventDriven
from agentfw.memory import Query
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.policies.scripted import ScriptedPolicy
from agentfw_plugins.worlds.inbox.environment import Inbox
from agentfw_plugins.worlds.inbox.mails import InboxSettings

TASK = Task(0, 7, "ana")


def update(*strategies: str) -> Intervention:
    return Intervention("strategy_hub", {"action": "update", "strategies": list(strategies)})


def play(memory: StrategyHubMemory, *calls: Intervention) -> Episode:
    """An episode with one of these calls a turn."""
    left = list(calls)

    def script(moment: Moment) -> Iterable[Intervention]:
        return [left.pop(0)] if left else []

    agent = PolicyAgent(ScriptedPolicy(rule=script), memories=[memory])
    return asyncio.run(Engagement(Inbox(InboxSettings(rate=0)), agent, EventDriven(), time_per_token=0).run(TASK))


def test_an_agent_updates_and_lists_its_hub_and_reads_why_something_does_not_fit() -> None:
    memory = StrategyHubMemory(StrategyHubSettings(capacity=1, longest=340))
    memory.hub(TASK).update(["of this one, when it was interrupted"])

    listing = Intervention("strategy_hub", {"action": "list"})
    asyncio.run(memory.recall(Query("", replace(TASK, index=1), limit=1, round=4)))
    [tool] = memory.tools(replace(TASK, index=1))
    asyncio.run(tool.call({"action": "update", "strategies": ["of another episode"]}))
    episode = play(memory, listing, update("kept"), update("a", "b"), update("x" * 341))

    answers = [event.data["text"] for event in episode.events if (event.kind, event.name) == ("observation", "answer")]
    assert answers[:2] == ["(no strategies yet)", "kept"]
    assert "the maximum is 1" in answers[2]
    assert "the maximum is 340" in answers[3]
    assert memory.hub(TASK).list() == ("kept",)
    other = memory.hub(replace(TASK, index=1)).history()
    assert [(change.round, change.strategies) for change in other] == [(4, ("of another episode",))]
    shown = [message.content for message in episode.messages if message.role == "tool"]
    assert any("the maximum is 340" in text for text in shown)
    assert not any("kept" in message.content for message in episode.messages if message.role == "user")


def test_a_file_of_something_else_is_told(tmp_path: Path) -> None:
    (tmp_path / "hubs.db").write_text("no database of anybody's\n" * 100)
    with pytest.raises(UsageError, match=r"hubs\.db is not a file of strategy hubs"):
        StrategyHubMemory(StrategyHubSettings(path=str(tmp_path / "hubs.db"))).begin(TASK)


def test_the_strategies_are_shown_before_every_turn_when_asked() -> None:
    memory = StrategyHubMemory(StrategyHubSettings(show=True))
    episode = play(memory, update("urgent mails first"), Intervention("write"))
    assert any("urgent mails first" in message.content for message in episode.messages if message.role == "user")
