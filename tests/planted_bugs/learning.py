"""Rewards, optimizers and learners: good ones, and bugs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log, nan
from pathlib import Path
from statistics import pstdev, stdev
from typing import Any

from agentfw.episode import Episode
from agentfw.errors import SettingsError
from agentfw.learner import Batch, Learner, Update
from agentfw.optimizer import Advantage, Optimizer, Scored
from agentfw.scores import RewardModel, Score

from .planting import Bug, bug

# -- rewards -----------------------------------------------------------------------------------------------------------


class Turns(RewardModel):
    def score_of(self, episode: Episode) -> Score:
        return Score(episode.id, "turns", self.value(episode))

    def value(self, episode: Episode) -> float:
        return float(len(episode.turns))

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [self.score_of(episode) for episode in group]


class Elsewhere(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), episode="00099-0")


class OffTrack(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), track="private")  # type: ignore[arg-type]


class Comparing(Turns):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [replace(self.score_of(group[0]), value=stdev(len(episode.turns) for episode in group))]


class Tidying(Turns):
    def value(self, episode: Episode) -> float:
        episode.events.clear()
        return super().value(episode)


class EmptyAnswers(Turns):
    """The share of an answer that is no space."""

    def value(self, episode: Episode) -> float:
        return sum(len(turn.text.strip()) / len(turn.text) for turn in episode.turns)


class FirstIsBest(Turns):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [replace(self.score_of(episode), value=float(place)) for place, episode in enumerate(group)]


REWARDS = [
    bug("scores_can_be_used", Turns, value=lambda self, episode: nan),
    bug("scores_can_be_used", Elsewhere),
    bug("scores_can_be_used", OffTrack),
    bug("the_same_gets_the_same", Turns, value=lambda self, episode: random.random()),
    bug("a_group_of_one_will_do", Comparing),
    bug("odd_episodes_will_do", Turns, value=lambda self, episode: float(episode.turns[0].count)),
    bug("odd_episodes_will_do", EmptyAnswers),
    bug("its_components_are_those_announced", Turns, components=("politeness",)),
    bug("the_order_of_samples_does_not_matter", FirstIsBest),
    bug("episodes_stay_as_they_are", Tidying),
]

# -- optimizers --------------------------------------------------------------------------------------------------------


def centred(reward: float, rewards: Sequence[float]) -> float:
    return reward - (sum(rewards) - reward) / max(1, len(rewards) - 1)


class Centred(Optimizer):
    def __init__(self) -> None:
        self.seen = 0

    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return centred(reward, rewards)

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        self.seen += len(groups)
        return [
            Advantage(scored.episode.id, turn.index, self.value(scored.reward, [one.reward for one in group]))
            for group in groups
            for scored in group
            for turn in scored.episode.turns
        ]

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.seen = state["seen"]


class Beyond(Centred):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        return [replace(advantage, turn=advantage.turn + 1) for advantage in super().advantages(groups)]


class Doubled(Centred):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        return [*super().advantages(groups), *super().advantages(groups)]


class FirstOnly(Centred):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        assert groups[0][0].scores
        return super().advantages(groups)


class Squaring(Centred):
    """A spread of its own making, which small rewards underflow and great ones overflow."""

    def value(self, reward: float, rewards: Sequence[float]) -> float:
        mean = sum(rewards) / len(rewards)
        squares = sum((one - mean) ** 40 for one in rewards)
        return (reward - mean) / squares if any(one != mean for one in rewards) else 0.0


class LastTurnLost(Centred):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        return [one for one in super().advantages(groups) if one.turn != 3]


class PerToken(Centred):
    """Divides by the length of an answer."""

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        episodes = {one.episode.id: one.episode for group in groups for one in group}
        return [
            replace(one, value=one.value / episodes[one.episode].turns[one.turn].count)
            for one in super().advantages(groups)
        ]


class RemembersUsers(Centred):
    """Counts the batches of each user, for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.users: dict[str, int] = {}

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        for user in {one.episode.task.user for group in groups for one in group}:
            self.users[user] = self.users.get(user, 0) + 1
        return super().advantages(groups)

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen, "users": dict(self.users)}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.users = dict(state["users"])


OPTIMIZERS = [
    bug("advantages_can_be_used", Beyond),
    bug("advantages_can_be_used", Doubled),
    bug("advantages_can_be_used", Centred, value=lambda self, reward, rewards: 0.0),
    bug("better_samples_fare_better", Centred, value=lambda self, reward, rewards: -centred(reward, rewards)),
    bug(
        "a_sample_is_not_in_its_own_baseline",
        Centred,
        value=lambda self, reward, rewards: reward - sum(rewards) / len(rewards),
    ),
    bug("the_order_of_samples_does_not_matter", Centred, value=lambda self, reward, rewards: reward - rewards[0]),
    bug("no_turn_is_left_out", LastTurnLost),
    bug("a_user_is_forgotten", RemembersUsers),
    bug("a_user_is_forgotten", RemembersUsers, forget=lambda self, user: user in self.users),
    bug(
        "equal_rewards_will_do", Centred, value=lambda self, reward, rewards: centred(reward, rewards) / pstdev(rewards)
    ),
    bug(
        "a_group_of_one_will_do",
        Centred,
        value=lambda self, reward, rewards: centred(reward, rewards) / (stdev(rewards) + 1e-6),
    ),
    bug("great_and_tiny_rewards_will_do", Squaring),
    bug("episodes_without_turns_or_scores_will_do", FirstOnly),
    bug("episodes_without_turns_or_scores_will_do", PerToken),
    bug("nothing_gives_nothing", FirstOnly),
    bug(
        "it_goes_on_where_it_was",
        Centred,
        value=lambda self, reward, rewards: centred(reward, rewards) / self.seen,
        restore=lambda self, state: None,
    ),
    bug("it_goes_on_where_it_was", Centred, state=lambda self: {"seen": {self.seen}}),
    bug("the_same_gets_the_same", Centred, value=lambda self, reward, rewards: random.random()),
    bug("it_stops_asking_for_groups", Centred, missing=lambda self, groups, wanted: wanted),
    bug("it_stops_asking_for_groups", Centred, missing=lambda self, groups, wanted: 0.5),
]

# -- learners ----------------------------------------------------------------------------------------------------------


class Writer(Learner):
    def __init__(self) -> None:
        self.updates = 0

    def update(self, batch: Batch) -> Update:
        if not batch.advantages:
            raise SettingsError("nothing to learn from", fix="score the episodes first")
        self.updates += 1
        batch.folder.mkdir()
        adapter = batch.folder / "adapter.json"
        adapter.write_text("{}", "utf-8")
        return Update(f"v{self.updates}", adapter, {"turns": float(len(batch.advantages))})

    def state(self) -> dict[str, Any]:
        return {"updates": self.updates}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.updates = state["updates"]


class Forgetful(Writer):
    """Gives its memory back, and what it has learned with it."""

    def rest(self) -> None:
        self.updates = 0

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        return [-1.0 / (1 + self.updates) for _ in token_ids]


class Stray(Writer):
    def update(self, batch: Batch) -> Update:
        (batch.folder.parent / f"log-{self.updates}.txt").write_text("done", "utf-8")
        return super().update(batch)


class Overwriting(Writer):
    def update(self, batch: Batch) -> Update:
        for adapter in batch.folder.parent.glob("*/adapter.json"):
            adapter.write_text('{"stale": true}', "utf-8")
        return super().update(batch)


class OneVersion(Writer):
    def update(self, batch: Batch) -> Update:
        return replace(super().update(batch), version="latest")


class Promising(Writer):
    def update(self, batch: Batch) -> Update:
        return replace(super().update(batch), adapter=batch.folder / "model.safetensors")


class HalfWritten(Writer):
    def update(self, batch: Batch) -> Update:
        if not batch.advantages:
            batch.folder.mkdir()
            (batch.folder / "tokens.bin").write_bytes(b"")
        return super().update(batch)


class Averaging(Writer):
    def update(self, batch: Batch) -> Update:
        mean = sum(advantage.value for advantage in batch.advantages) / len(batch.advantages)
        return replace(super().update(batch), metrics={"advantage": mean})


class Unigram(Writer):
    """Moves the logit of each token by the advantages of the turns that have it."""

    rate = 0.1

    def __init__(self) -> None:
        super().__init__()
        self.logits = [0.0] * 50

    def update(self, batch: Batch) -> Update:
        update = super().update(batch)
        values = {(one.episode, one.turn): one.value for one in batch.advantages}
        steps = [0.0] * len(self.logits)
        total = sum(map(exp, self.logits))
        for episode in batch.episodes:
            for turn in episode.turns:
                value = values.get((episode.id, turn.index), 0.0)
                for sampled in turn.token_ids:
                    for token, logit in enumerate(self.logits):
                        steps[token] += value * ((token == sampled) - exp(logit) / total)
        self.logits = [logit + self.rate * step for logit, step in zip(self.logits, steps, strict=True)]
        return update

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        total = log(sum(map(exp, self.logits)))
        return [self.logits[token] - total for token in token_ids]

    def state(self) -> dict[str, Any]:
        return {**super().state(), "logits": self.logits}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.logits = list(state["logits"])


LEARNERS = [
    bug("an_update_gives_an_adapter", Promising),
    bug("what_was_good_becomes_likelier", Unigram, rate=-0.1),
    bug("what_was_there_stays", Stray),
    bug("what_was_there_stays", Overwriting),
    bug("what_was_there_stays", OneVersion),
    bug("a_repeated_update_will_do", Writer, state=lambda self: {"folder": Path("x")}),
    bug("a_repeated_update_will_do", Unigram, restore=Writer.restore),
    bug("a_rest_does_no_harm", Forgetful),
    bug("an_empty_batch_does_no_harm", HalfWritten),
    bug("an_empty_batch_does_no_harm", Averaging),
]

BUGS: dict[str, list[Bug]] = {"reward": REWARDS, "optimizer": OPTIMIZERS, "learner": LEARNERS}
