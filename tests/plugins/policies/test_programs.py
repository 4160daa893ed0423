"""The policies that are programs: what `scripted` follows, and what `random` draws."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from agentfw import Engagement, Environment, Episode, Intervention, Moment, Policy, PolicyAgent, Task, World
from agentfw.environment import action
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven
from agentfw_plugins.policies.scripted import RandomPolicy, ScriptedPolicy, ScriptedSettings
from agentfw_plugins.worlds.inbox.environment import Inbox


class Counter(Environment):
    """Count to a number."""

    def begin(self, world: World, task: Task) -> None:
        self.world, self.counted = world, 0
        world.observe("start")

    @action
    def count(self, by: int = 1) -> None:
        """Count on."""
        self.counted += by
        self.world.observe("counted", {"to": self.counted})
        if self.counted >= 3:
            self.world.finish(counted=float(self.counted))


def play(policy: Policy, environment: Environment | None = None, seed: int = 7, turns: int = 50) -> Episode:
    agent = PolicyAgent(policy)
    return asyncio.run(Engagement(environment or Counter(), agent, EventDriven(), max_turns=turns).run(Task(0, seed)))


def always_count(moment: Moment) -> Iterable[Intervention]:
    """A rule for a test below, found by its path."""
    return [Intervention("count", {"by": 3})]


def test_a_script_of_replies_is_read_like_a_models_words() -> None:
    replies = ('I count. <tool_call>{"name": "count", "arguments": {"by": 2}}</tool_call>', '<count by="1"/>')
    episode = play(ScriptedPolicy(ScriptedSettings(replies=replies)))
    assert episode.outcome == {"counted": 3.0}
    assert [turn.text for turn in episode.turns] == list(replies)


def test_a_rule_is_found_by_its_path() -> None:
    rule = f"{__name__}:always_count"
    assert play(ScriptedPolicy(ScriptedSettings(rule=rule))).outcome == {"counted": 3.0}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ScriptedSettings(rule="a:b", replies=("x",)), "both set"),
        (ScriptedSettings(rule="no_such_module:rule"), "can't be imported"),
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
    first, again, other = (play(RandomPolicy(), Inbox(), seed, turns=200) for seed in (7, 7, 8))
    assert first.to_record() == again.to_record()
    assert first.to_record() != other.to_record()
    assert not any(turn.failures for turn in first.turns)
    # What is refused is refused for what it means (a mail that isn't there), never for its form.
    refused = [event.data["reason"] for event in first.events if event.kind == "refused"]
    assert not any("can't be called like this" in reason for reason in refused)
