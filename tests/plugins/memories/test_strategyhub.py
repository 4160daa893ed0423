"""The StrategyHub as a memory and a tool: what an agent can do with it in the middle of an episode."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from agentfw import Engagement, Episode, Intervention, Moment, PolicyAgent, Task
from agentfw.interfaces import EventDriven
from agentfw_memory import StrategyHubs
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.policies.scripted import ScriptedPolicy
from agentfw_plugins.worlds.inbox.environment import Inbox
from agentfw_plugins.worlds.inbox.mails import InboxSettings


def _update(*strategies: str) -> Intervention:
    return Intervention("strategy_hub", {"action": "update", "strategies": list(strategies)})


class _Script:
    """Says one thing a turn, then nothing."""

    def __init__(self, *calls: Intervention) -> None:
        self.calls = list(calls)

    def __call__(self, moment: Moment) -> Iterable[Intervention]:
        return [self.calls.pop(0)] if self.calls else []


def _play(memory: StrategyHubMemory, *calls: Intervention, task: Task | None = None) -> Episode:
    agent = PolicyAgent(ScriptedPolicy(rule=_Script(*calls)), memories=[memory])
    environment = Inbox(InboxSettings(rate=0))
    return asyncio.run(Engagement(environment, agent, EventDriven(), time_per_token=0).run(task or Task(0, 7, "ana")))


def _answers(episode: Episode) -> list[str]:
    return [event.data["text"] for event in episode.events if event.kind == "observation" and event.name == "answer"]


def test_the_agent_lists_and_updates_its_hub() -> None:
    listing = Intervention("strategy_hub", {"action": "list"})
    episode = _play(StrategyHubMemory(), listing, _update("urgent mails first", "no lunch calls"), listing)
    assert _answers(episode) == [
        "(no strategies yet)",
        "urgent mails first\nno lunch calls",
        "urgent mails first\nno lunch calls",
    ]


def test_what_does_not_fit_is_refused_in_words_that_the_agent_reads() -> None:
    memory = StrategyHubMemory(StrategyHubSettings(capacity=1))
    task = Task(0, 7, "ana")
    episode = _play(memory, _update("kept"), _update("a", "b"), _update("x" * 351), task=task)
    first, second, third = _answers(episode)
    assert first == "kept"
    assert "the maximum is 1" in second
    assert "the maximum is 350" in third
    assert memory.hub(task).list() == ("kept",)
    shown = [message.content for message in episode.messages if message.role == "tool"]
    assert any("the maximum is 350" in text for text in shown)


def test_the_strategies_are_shown_before_every_turn_when_asked() -> None:
    memory = StrategyHubMemory(StrategyHubSettings(show=True))
    episode = _play(memory, _update("urgent mails first"), Intervention("write"))
    assert any("urgent mails first" in message.content for message in episode.messages if message.role == "user")


def test_the_hubs_of_a_run_are_in_its_folder(tmp_path: Path) -> None:
    memory = StrategyHubMemory()
    memory.open(tmp_path)
    _play(memory, _update("urgent mails first"))
    asyncio.run(memory.close())
    with StrategyHubs.open(tmp_path / "strategies.db") as hubs:
        assert hubs.hub("ana", "00000-0").list() == ("urgent mails first",)
