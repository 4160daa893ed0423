"""What all optimizers that compare samples have in common: how scores are attributed, compared and turned into a loss.

An algorithm is its advantages and the values of its loss, so every optimizer has the same loss settings with defaults
of its own. A batch is checked before anything that the optimizer remembers changes.

**Attribution.** No score is counted twice. A score of a round or a turn belongs there. A score of the whole episode was
given when it was over, so it belongs to the end. An episode without scores has its reward as the only score.

    >>> from agentfw.episode import Task
    >>> episode = Episode(Task(0, 7), rounds=2, turns=[Turn(0, 0, 1, round=1), Turn(1, 2, 3, round=2)])
    >>> said = (Score("00000-0", "right", 1.0, round=1), Score("00000-0", "format", 0.5, turn=1))
    >>> scored = Scored(episode, said, 1.5)
    >>> by_round(scored), by_turn(scored)
    ([0.0, 1.0, 0.5], [1.0, 0.5])

**Comparison.** No result depends on the order of the values. Values that are equal up to rounding, or a single value,
have nothing that sets them apart: their centred and normalised values are exact zeros. A standard deviation to divide
by has a floor (`unit`): differences far below it count as noise and don't become as large as real ones.

    >>> [round(value, 4) for value in normalised([1.0, 0.0, 0.0, 1.0])]
    [0.866, -0.866, -0.866, 0.866]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field, model_validator

from agentfw import Episode, Optimizer, Score, Settings, Turn
from agentfw.errors import PluginError
from agentfw.optimizer import Advantage, Loss, Scored
from agentfw.scores import LARGEST, Track

ClipLow = Annotated[float, Field(ge=0, description="Lower clipping range of the importance ratio.")]
ClipHigh = Annotated[float, Field(ge=0, description="Upper clipping range of the importance ratio.")]
Ratio = Annotated[
    Literal["token", "sequence", "episode"],
    Field(
        description="Importance ratio of each token, or the geometric mean over the tokens of a turn, or over those of "
        "all turns of an episode."
    ),
]
RatioCap = Annotated[
    float | None, Field(gt=0, description="Maximum importance ratio, also where the advantage is negative.")
]
Aggregation = Annotated[
    Literal["token_mean", "sequence_mean", "episode_mean", "token_sum"],
    Field(
        description="How tokens are averaged: over all tokens of the batch, over turns, over episodes, "
        "or as a sum per episode that is divided by `length`."
    ),
]
Length = Annotated[
    int | None, Field(ge=1, description="Constant that token_sum divides by, such as the maximum tokens of an episode.")
]
Kl = Annotated[float, Field(ge=0, description="Weight of the KL penalty towards the reference policy.")]


class LossSettings(Settings):
    """The loss that the advantages are for."""

    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    ratio: Ratio = "token"
    ratio_cap: RatioCap = None
    aggregation: Aggregation = "sequence_mean"
    length: Length = None
    kl: Kl = 0.0
    importance_cap: float | None = Field(
        None,
        gt=0,
        description="Maximum importance weight that corrects for a sampler that differs from the trainer. "
        "If set, a large difference is no error. Default: 2 if the policy gives logprobs.",
    )
    importance_level: Literal["token", "sequence"] = Field(
        "token", description="Importance weight of each token, or of a turn's tokens together."
    )
    importance_mask: float | None = Field(
        None,
        gt=1,
        description="Leave out turns whose mean importance ratio (geometric) is above this, or below its inverse. "
        "Default: 1.5 from the second update on, if the policy gives logprobs.",
    )

    @model_validator(mode="after")
    def _sums_need_a_length(self) -> LossSettings:
        if self.aggregation == "token_sum" and self.length is None:
            raise ValueError("aggregation token_sum needs length, such as the maximum tokens of an episode")
        return self

    def loss(self) -> Loss:
        return Loss(**{name: getattr(self, name) for name in LossSettings.model_fields})


class TrackedSettings(LossSettings):
    """The loss of advantages that are the sum of those on both tracks."""

    base_weight: float = Field(0.5, ge=0, description="Weight of the base advantage.")
    personal_weight: float = Field(0.5, ge=0, description="Weight of the personal advantage.")
    aggregation: Aggregation = "episode_mean"
    kl: Kl = 0.01

    @property
    def weights(self) -> dict[Track, float]:
        return {"base": self.base_weight, "personal": self.personal_weight}


Own = TypeVar("Own", bound=Settings)
Chosen = TypeVar("Chosen", bound=LossSettings)


class BatchOptimizer(Optimizer, Generic[Own]):
    """Has settings, and figures of its last batch. Subclasses implement one of the comparisons."""

    def __init__(self, settings: Own) -> None:
        self.settings = settings
        self.figures: dict[str, float] = {}

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        """The advantages of checked groups. May add to the figures.

        A turn without an advantage is left out of the loss. One with an advantage of zero counts in the loss's mean,
        and is computed only where a KL penalty acts on it.
        """
        return [advantage for group in groups for advantage in self.compare_group(group)]

    def compare_group(self, group: Sequence[Scored]) -> list[Advantage]:
        raise NotImplementedError

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        check(groups)
        self.figures = {}
        return self.compare(groups)

    def metrics(self) -> Mapping[str, float]:
        return dict(self.figures)


class Relative(BatchOptimizer[Chosen]):
    """An optimizer that compares samples with each other. Those that nobody has rated take no part."""

    baseline_has_own_sample = True

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        groups = rated(groups)
        found = super().advantages(groups)
        several = [[scored.reward for scored in group] for group in groups if len(group) > 1]
        self.figures |= {
            "groups": float(len(groups)),
            "groups_of_one": float(len(groups) - len(several)),
            "groups_alike": float(sum(map(alike, several))),
            "advantage_size": mean([abs(advantage.value) for advantage in found]) if found else 0.0,
        }
        return found

    def loss(self) -> Loss:
        return self.settings.loss()


def check(groups: Sequence[Sequence[Scored]]) -> None:
    """Refuse rewards that can't be computed with. That the turns of scores exist, the boundary has checked."""
    for group in groups:
        for scored in group:
            values = [("the reward", scored.reward)]
            values += [(f'component "{score.component}"', score.value) for score in scored.scores]
            for what, value in values:
                if not abs(value) <= LARGEST:
                    raise PluginError(
                        f"{what} of episode {scored.episode.id} is {value}, which nothing can be learned from",
                        fix="fix the reward model or the environment that gave it; nothing was changed",
                    )


def rated(groups: Sequence[Sequence[Scored]]) -> list[list[Scored]]:
    """What can be compared: nothing said is no reward of 0."""
    told = [[scored for scored in group if not scored.unrated] for group in groups]
    return [group for group in told if group]


def spoken(episode: Episode) -> list[Turn]:
    """The turns that have an answer. The others have no tokens to learn from."""
    return [turn for turn in episode.turns if turn.count or turn.token_ids or turn.text]


def throughout(groups: Sequence[Sequence[Scored]], values: Iterable[Sequence[float]]) -> list[Advantage]:
    """One advantage for each whole episode, carried by every turn. `values` are those of the samples of each group."""
    return [
        Advantage(scored.episode.id, turn.index, value)
        for group, some in zip(groups, values, strict=True)
        for scored, value in zip(group, some, strict=True)
        for turn in spoken(scored.episode)
    ]


def scores_of(scored: Scored) -> Sequence[Score]:
    return scored.scores or (Score(scored.episode.id, "reward", scored.reward),)


def on_track(samples: Sequence[Scored], track: Track) -> tuple[list[int], list[float]]:
    """The places of the samples with scores on a track, and their rewards there."""
    said = [[score.value for score in scores_of(one) if score.track == track] for one in samples]
    places = [place for place, values in enumerate(said) if values]
    return places, [math.fsum(said[place]) for place in places]


def by_component(scored: Scored) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for score in scores_of(scored):
        found.setdefault(score.component, []).append(score.value)
    return {component: math.fsum(values) for component, values in found.items()}


def by_round(scored: Scored) -> list[float]:
    """The reward of each round that the episode reached. The time before the first round is round 0."""
    turns, scores = scored.episode.turns, scores_of(scored)
    about = [
        turns[score.turn].round if score.round is None and score.turn is not None else score.round for score in scores
    ]
    last = max([0, *(turn.round for turn in turns), *(number for number in about if number is not None)])
    values: list[list[float]] = [[] for _ in range(last + 1)]
    for score, number in zip(scores, about, strict=True):
        values[last if number is None else number].append(score.value)
    return [math.fsum(some) for some in values]


def by_turn(scored: Scored) -> list[float]:
    """The reward of each turn, in order.

    A round's score belongs to the last turn of that round, or of the latest earlier round that has a turn.
    """
    turns = scored.episode.turns
    values: list[list[float]] = [[] for _ in turns]
    lasts = {turn.round: turn.index for turn in turns}
    for score in scores_of(scored) if turns else ():
        place: int | None = len(turns) - 1
        if score.turn is not None:
            place = score.turn
        elif score.round is not None and (place := lasts.get(score.round)) is None:
            place = max((last for number, last in lasts.items() if number < score.round), default=None)
        if place is not None:
            values[place].append(score.value)
    return [math.fsum(some) for some in values]


FLOOR = 1e-3  # standard deviation below which differences of rewards are taken for noise
ROUNDING = 1e-12  # relative difference below which values count as equal


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """The unbiased standard deviation (by n - 1), as in implementations of GRPO; 0 for equal values or a single one."""
    if len(values) < 2:
        return 0.0
    return math.sqrt(math.fsum(value * value for value in centred(values)) / (len(values) - 1))


def alike(values: Sequence[float]) -> bool:
    """Whether the values differ by no more than rounding does."""
    return max(values) - min(values) <= ROUNDING * max(map(abs, values))


def centred(values: Sequence[float]) -> list[float]:
    """Each value minus the mean."""
    if not values or alike(values):
        return [0.0] * len(values)
    middle = mean(values)
    return [value - middle for value in values]


def unit(deviation: float, floor: float = FLOOR) -> float:
    """What to divide by: a standard deviation, or the floor where that is far smaller."""
    return math.hypot(deviation, floor)


def normalised(values: Sequence[float], floor: float = FLOOR) -> list[float]:
    """Each value minus the mean, in units of the standard deviation."""
    one = unit(spread(values), floor)
    return [value / one for value in centred(values)]


def returns_to_go(rewards: Sequence[float], gamma: float) -> list[float]:
    """G_t = r_t + gamma G_(t+1), for each reward of one rollout."""
    found = list(rewards)
    for place in range(len(found) - 2, -1, -1):
        found[place] += gamma * found[place + 1]
    return found
