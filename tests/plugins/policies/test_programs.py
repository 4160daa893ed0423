"""The policies that are programs: what `scripted` follows, and what `random` draws."""

from __future__ import annotations

import asyncio

import pytest

from agentfw import Engagement, Episode, Message, PolicyAgent, Request, Task
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven
from agentfw_plugins.policies.scripted import RandomPolicy, ScriptedPolicy, ScriptedSettings
from agentfw_plugins.worlds.inbox.environment import Inbox


def play(seed: int, sample: int = 0, policy: RandomPolicy | None = None) -> Episode:
    agent = PolicyAgent(policy or RandomPolicy())
    return asyncio.run(Engagement(Inbox(), agent, EventDriven(), max_turns=200).run(Task(0, seed, sample=sample)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ScriptedSettings(rule="a:b", replies=("x",)), "both set"),
        (ScriptedSettings(rule="json:no_such_name"), "can't be imported"),
        (ScriptedSettings(rule="json"), "isn't of the form"),
        (ScriptedSettings(rule="json:__name__"), "not a function"),
    ],
)
def test_a_script_that_cannot_be_followed_is_refused_before_anything_runs(
    settings: ScriptedSettings, words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        ScriptedPolicy(settings)


def test_random_draws_only_what_the_world_accepts_and_one_seed_gives_one_episode() -> None:
    policy = RandomPolicy()
    first, again, repeated = play(7), play(7, 0, policy), play(7, 0, policy)
    assert first.to_record() == again.to_record() == repeated.to_record()
    drawn = {str([turn.calls for turn in play(*of).turns]) for of in ((7, 0), (7, 1), (8, 0))}
    assert len(drawn) == 3, "another seed and another sample are drawn anew"
    assert not any(turn.failures for turn in first.turns)
    # What is refused is refused for what it means (a mail that isn't there), never for its form.
    refused = [event.data["reason"] for event in first.events if event.kind == "refused"]
    assert not any("can't be called like this" in reason for reason in refused)


def test_each_task_is_answered_from_the_beginning_of_the_script_whoever_plays_at_once() -> None:
    policy = ScriptedPolicy(ScriptedSettings(replies=("one", "two")))
    asked = [Request([Message("user", "hi")], task=Task(index, 7)) for index in (0, 1, 0, 1, 0)]

    async def answers() -> list[str]:
        return [(await policy.generate(request)).text for request in asked]

    assert asyncio.run(answers()) == ["one", "one", "two", "two", "one"]
