"""Rewards, optimizers and learners: good ones, and bugs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
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

# Bugs use what good ones don't.
__all__ = ["BUGS", "Centred", "Path", "Turns", "Unigram", "Writer", "nan", "pstdev", "random", "stdev"]


class Turns(RewardModel):
    components = ("turns",)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores = []
        for place, episode in enumerate(group):
            value = float(len(episode.turns)) + 0 * place
            scores.append(Score(episode.id, "turns", value, track="base"))
        return scores


VALUE = "float(len(episode.turns)) + 0 * place"
REWARDS = [
    bug("scores_can_be_used", Turns, VALUE, "nan"),
    bug("scores_can_be_used", Turns, "Score(episode.id,", 'Score("00099-0",'),
    bug("scores_can_be_used", Turns, 'track="base"', 'track="private"'),
    bug("the_same_gets_the_same", Turns, VALUE, "random.random()"),
    bug("a_group_of_one_will_do", Turns, VALUE, "stdev(len(one.turns) for one in group)"),
    bug("odd_episodes_will_do", Turns, VALUE, "float(episode.turns[0].count)"),
    bug("its_components_are_those_announced", Turns, '("turns",)', '("politeness",)'),
    bug("the_order_of_samples_does_not_matter", Turns, "0 * place", "place"),
    bug("episodes_stay_as_they_are", Turns, f"value = {VALUE}", f"value = {VALUE}; episode.events.clear()"),
]


class Centred(Optimizer):
    def __init__(self) -> None:
        self.seen = 0
        self.users: dict[str, int] = {}

    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return reward - (sum(rewards) - reward) / max(1, len(rewards) - 1)

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        self.seen += len(groups)
        found = []
        for group in groups:
            for scored in group:
                value = self.value(scored.reward, [one.reward for one in group])
                found += [Advantage(scored.episode.id, turn.index, value) for turn in scored.episode.turns]
        return found

    def missing(self, groups: Sequence[Sequence[Scored]], wanted: int) -> int:
        return 0

    def forget(self, user: str) -> bool:
        return self.users.pop(user, None) is not None

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen, "users": self.users}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.seen, self.users = state["seen"], dict(state["users"])


BASELINE = "(sum(rewards) - reward) / max(1, len(rewards) - 1)"
CENTRED = f"reward - {BASELINE}"
GIVEN = "Advantage(scored.episode.id, turn.index, value)"
COUNTED = "self.seen += len(groups)"
SQUARES = "sum((one - sum(rewards) / len(rewards)) ** 40 for one in rewards)"
"""A spread of its own making, which small rewards underflow and great ones overflow."""
BATCHES_OF_USERS = f"{COUNTED}; self.users |= {{one.episode.task.user: self.seen for group in groups for one in group}}"
FORGETS = "self.users.pop(user, None) is not None"
OPTIMIZERS = [
    bug("advantages_can_be_used", Centred, "turn.index, value", "turn.index + 1, value"),
    bug("advantages_can_be_used", Centred, CENTRED, "0.0"),
    bug("better_samples_fare_better", Centred, CENTRED, f"-({CENTRED})"),
    bug("a_sample_is_not_in_its_own_baseline", Centred, BASELINE, "sum(rewards) / len(rewards)"),
    bug("the_order_of_samples_does_not_matter", Centred, BASELINE, "rewards[0]"),
    bug("no_turn_is_left_out", Centred, "in scored.episode.turns", "in scored.episode.turns if turn.index != 3"),
    bug("a_user_is_forgotten", Centred, COUNTED, BATCHES_OF_USERS, "def forget", "def forgets"),
    bug("a_user_is_forgotten", Centred, COUNTED, BATCHES_OF_USERS, FORGETS, "user in self.users"),
    bug("equal_rewards_will_do", Centred, CENTRED, f"({CENTRED}) / pstdev(rewards)"),
    bug("a_group_of_one_will_do", Centred, CENTRED, f"({CENTRED}) / (stdev(rewards) + 1e-6)"),
    bug("great_and_tiny_rewards_will_do", Centred, CENTRED, f"({CENTRED}) / {SQUARES} if any(rewards) else 0.0"),
    bug("episodes_without_turns_or_scores_will_do", Centred, COUNTED, f"assert groups[0][0].scores; {COUNTED}"),
    bug("episodes_without_turns_or_scores_will_do", Centred, GIVEN, GIVEN.replace("value", "value / turn.count")),
    bug("nothing_gives_nothing", Centred, COUNTED, f"assert groups[0]; {COUNTED}"),
    bug(
        "it_goes_on_where_it_was",
        Centred,
        CENTRED,
        f"({CENTRED}) / self.seen",
        'state["seen"], dict',
        "self.seen, dict",
    ),
    bug("it_goes_on_where_it_was", Centred, '"seen": self.seen', '"seen": {self.seen}'),
    bug("the_same_gets_the_same", Centred, CENTRED, "random.random()"),
    bug("it_stops_asking_for_groups", Centred, "return 0", "return wanted"),
]


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

    def rest(self) -> None:
        """It needs no memory."""

    def state(self) -> dict[str, Any]:
        return {**super().state(), "logits": self.logits}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.logits = list(state["logits"])


STEP = "self.updates += 1"
OTHERS = "[one.write_text('{\"stale\": true}') for one in batch.folder.parent.glob('*/adapter.json')]"
REFUSES = "raise SettingsError("
LEARNERS = [
    bug("an_update_gives_an_adapter", Writer, '}", adapter, {', '}", batch.folder / "model.safetensors", {'),
    bug("what_was_good_becomes_likelier", Unigram, "rate = 0.1", "rate = -0.1"),
    bug("what_was_there_stays", Writer, STEP, f"{STEP}; {OTHERS}"),
    bug("what_was_there_stays", Writer, 'f"v{self.updates}"', '"latest"'),
    bug("a_repeated_update_will_do", Writer, '"updates": self.updates', '"folder": Path("somewhere")'),
    bug("a_repeated_update_will_do", Unigram, 'list(state["logits"])', "self.logits"),
    bug("a_rest_does_no_harm", Unigram, '"""It needs no memory."""', "self.logits = [0.0] * 50"),
    bug(
        "an_empty_batch_does_no_harm",
        Writer,
        REFUSES,
        f'batch.folder.mkdir(); (batch.folder / "tokens").touch(); {REFUSES}',
    ),
    bug(
        "an_empty_batch_does_no_harm",
        Writer,
        "if not batch.advantages:",
        "if sum(advantage.value for advantage in batch.advantages) / len(batch.advantages) == 7:",
    ),
]

BUGS: dict[str, list[Bug]] = {"reward": REWARDS, "optimizer": OPTIMIZERS, "learner": LEARNERS}
