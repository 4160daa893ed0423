"""Rewards, optimizers and learners: good ones, and some that break a promise each."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import pstdev, stdev
from typing import Any

from agentfw.episode import Episode
from agentfw.errors import SettingsError
from agentfw.learner import Batch, Learner, Update
from agentfw.optimizer import Advantage, Optimizer, Scored
from agentfw.scores import RewardModel, Score

# -- rewards -----------------------------------------------------------------------------------------------------------


class Turns(RewardModel):
    def score_of(self, episode: Episode) -> Score:
        return Score(episode.id, "turns", float(len(episode.turns)))

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [self.score_of(episode) for episode in group]


class NoNumber(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), value=float("nan"))


class Elsewhere(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), episode="00099-0")


class OffTrack(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), track="private")  # type: ignore[arg-type]


class Moody(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), value=random.random())


class Comparing(Turns):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [replace(self.score_of(group[0]), value=stdev(len(episode.turns) for episode in group))]


class FirstTurn(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), value=float(episode.turns[0].count))


class Tidying(Turns):
    def score_of(self, episode: Episode) -> Score:
        episode.events.clear()
        return super().score_of(episode)


class EmptyAnswers(Turns):
    """The share of an answer that is no space."""

    def score_of(self, episode: Episode) -> Score:
        shares = [len(turn.text.strip()) / len(turn.text) for turn in episode.turns]
        return replace(super().score_of(episode), value=sum(shares))


class Announcing(Turns):
    components = ("politeness",)


class FirstIsBest(Turns):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [replace(self.score_of(episode), value=float(place)) for place, episode in enumerate(group)]


# -- optimizers --------------------------------------------------------------------------------------------------------


class Centred(Optimizer):
    def __init__(self) -> None:
        self.seen = 0

    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return reward - (sum(rewards) - reward) / max(1, len(rewards) - 1)

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


class Dividing(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return super().value(reward, rewards) / pstdev(rewards)


class Sampling(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return super().value(reward, rewards) / (stdev(rewards) + 1e-6)


class Drifting(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return super().value(reward, rewards) / self.seen


class Amnesic(Drifting):
    def restore(self, state: Mapping[str, Any]) -> None:
        pass


class SecretState(Centred):
    def state(self) -> dict[str, Any]:
        return {"seen": {self.seen}}


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


class Noisy(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return random.random()


class Insatiable(Centred):
    """Never has enough."""

    def missing(self, groups: Sequence[Sequence[Scored]], wanted: int) -> int:
        return wanted


class Fractional(Centred):
    """Wants half a group."""

    def missing(self, groups: Sequence[Sequence[Scored]], wanted: int) -> int:
        return 0.5  # type: ignore[return-value]


class Indifferent(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return 0.0


class Reversed(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return -super().value(reward, rewards)


class OwnSample(Centred):
    """Means to leave the sample out, and doesn't."""

    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return reward - sum(rewards) / len(rewards)


class FirstAsBaseline(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return reward - rewards[0]


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


class ClaimsToForget(RemembersUsers):
    def forget(self, user: str) -> bool:
        return user in self.users


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


class LivePath(Writer):
    def state(self) -> dict[str, Any]:
        return {"folder": Path("somewhere")}


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


class Uphill(Unigram):
    """Takes its step in the wrong direction."""

    rate = -0.1


class ForgetsItsWeights(Unigram):
    def restore(self, state: Mapping[str, Any]) -> None:
        self.updates = state["updates"]
