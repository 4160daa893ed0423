"""The policies that are programs: what `scripted` follows, and what `random` draws."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from agentfw import Engagement, Environment, Episode, Intervention, Moment, Policy, PolicyAgent, Task, World
from agentfw.environment import action
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven, StepLoop
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


def test_what_is_not_understood_is_told_to_the_agent_which_may_do_better() -> None:
    replies = ('{"name": "cuont", "arguments": {}}', '{"name": "count", "arguments": {"by": 3}}')
    episode = play(ScriptedPolicy(ScriptedSettings(replies=replies)))
    assert episode.finish == "finished"
    assert [len(turn.failures) for turn in episode.turns] == [1, 0]
    last = [episode.messages[index] for index in episode.turns[1].shown]
    assert any(
        'not understood: there is no action "cuont"; did you mean "count"?' in message.content for message in last
    )


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


def test_the_step_loop_loses_mails_that_an_event_driven_assistant_handles() -> None:
    def mails(interface: EventDriven | StepLoop) -> list[float]:
        return [
            asyncio.run(Engagement(Inbox(), PolicyAgent(ScriptedPolicy()), interface).run(Task(0, seed))).outcome[
                "mails"
            ]
            for seed in range(12)
        ]

    better = sum(a > b for a, b in zip(mails(EventDriven()), mails(StepLoop()), strict=True))
    assert better >= 11  # by chance fewer than 4 times in 1000
