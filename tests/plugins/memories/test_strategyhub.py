"""The StrategyHub as a memory and a tool: what an agent can do with it in the middle of an episode, and in a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agentfw import Engagement, Episode, Intervention, Moment, PolicyAgent, Task
from agentfw.interfaces import EventDriven
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
    memory = StrategyHubMemory(StrategyHubSettings(capacity=1))

    listing = Intervention("strategy_hub", {"action": "list"})
    episode = play(memory, listing, update("kept"), update("a", "b"), update("x" * 351))

    answers = [event.data["text"] for event in episode.events if (event.kind, event.name) == ("observation", "answer")]
    assert answers[:2] == ["(no strategies yet)", "kept"]
    assert "the maximum is 1" in answers[2]
    assert "the maximum is 350" in answers[3]
    assert memory.hub(TASK).list() == ("kept",)
    shown = [message.content for message in episode.messages if message.role == "tool"]
    assert any("the maximum is 350" in text for text in shown)


def test_the_strategies_are_shown_before_every_turn_when_asked() -> None:
    memory = StrategyHubMemory(StrategyHubSettings(show=True))
    episode = play(memory, update("urgent mails first"), Intervention("write"))
    assert any("urgent mails first" in message.content for message in episode.messages if message.role == "user")
