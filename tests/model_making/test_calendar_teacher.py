"""The teacher: what it writes can be read back, and what it knows of the user it has from the conversation alone."""

import asyncio
from collections.abc import Sequence

import pytest
from calendar_teacher import TeacherPolicy

from agentfw import Engagement, PolicyAgent, Task
from agentfw.episode import Episode
from agentfw.interfaces import EventDriven
from agentfw.memory import Memory
from agentfw.report.statistics import bootstrap
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings


def keep(rounds: int, memories: Sequence[Memory], index: int = 0, split: str = "validation") -> Episode:
    environment = CalendarConflicts(CalendarSettings(rounds=rounds))
    user = environment.settings.dataset().users(split)[index]
    agent = PolicyAgent(TeacherPolicy(), memories=memories, window=2, recall=10)
    task = Task(index, seed=index, user=user, split=split)
    return asyncio.run(Engagement(environment, agent, EventDriven()).run(task))


def hub() -> StrategyHubMemory:
    return StrategyHubMemory(StrategyHubSettings(show=True))


def test_every_answer_is_understood_and_every_update_is_taken() -> None:
    episode = keep(30, [hub()])

    assert [turn.failures for turn in episode.turns] == [()] * 30
    assert episode.series("format") == [1.0] * 30
    assert not [event for event in episode.events if event.name == "refused"]


@pytest.mark.nightly
def test_with_its_hub_it_learns_its_user_and_without_it_does_not() -> None:
    with_hub = [sum(keep(60, [hub()], index).series("error")) for index in range(8)]
    without = [sum(keep(60, [], index).series("error")) for index in range(8)]

    assert bootstrap([more - less for more, less in zip(without, with_hub, strict=True)]).low > 5
