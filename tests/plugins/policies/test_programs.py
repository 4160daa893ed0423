"""The policies that are programs: what `scripted` follows, and what `random` draws."""

from __future__ import annotations

import asyncio

import pytest

from agentfw import Engagement, Episode, PolicyAgent, Task
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven
from agentfw_plugins.policies.scripted import RandomPolicy, ScriptedPolicy, ScriptedSettings
from agentfw_plugins.worlds.inbox.environment import Inbox


def play(seed: int) -> Episode:
    agent = PolicyAgent(RandomPolicy())
    return asyncio.run(Engagement(Inbox(), agent, EventDriven(), max_turns=200).run(Task(0, seed)))


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
    first, again, other = (play(seed) for seed in (7, 7, 8))
    assert first.to_record() == again.to_record()
    assert first.to_record() != other.to_record()
    assert not any(turn.failures for turn in first.turns)
    # What is refused is refused for what it means (a mail that isn't there), never for its form.
    refused = [event.data["reason"] for event in first.events if event.kind == "refused"]
    assert not any("can't be called like this" in reason for reason in refused)
