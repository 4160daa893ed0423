"""The optimizer interface: turns scores into advantages and names the loss.

An optimizer is arithmetic on scores. It sees neither tokens nor weights. Whatever it keeps between batches, such as
the histories of users, can be saved and restored, so that a resumed training continues as if it had never stopped.

    class Centred(Optimizer):
        def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
            ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .episode import Episode
from .errors import not_implemented
from .scores import Score

__all__ = ["Advantage", "Loss", "Optimizer", "Scored"]


@dataclass(frozen=True, slots=True)
class Scored:
    """An episode with its scores and its total reward."""

    episode: Episode
    scores: tuple[Score, ...]
    """Each is multiplied by its component's weight for its round and the current training progress. An optimizer only
    has to sum those of a round, a turn, a track or a component."""
    reward: float
    """The sum of the weighted scores. Without reward models there are no scores, and it is the world's own utility."""
    unrated: bool = False
    """Whether the run has reward models, and none of them has scored it. Its reward of 0 then says nothing."""


@dataclass(frozen=True, slots=True)
class Advantage:
    """How much better than expected one turn was. It applies to every token of the turn."""

    episode: str
    turn: int
    value: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Which loss to use with the advantages. Most algorithms share one loss and differ only in its settings.

    `clipped` is the policy gradient -min(w r A, w clip(r) A) over tokens, where r is the ratio to the policy that
    sampled. Another loss is a class that the optimizer brings along, see `agentfw_plugins.learners.losses`.
    """

    name: str = "clipped"
    """`clipped`, or the path of a class, `package.module:Class`. A learner rejects what it doesn't know."""
    sampled: bool = True
    """Whether the loss is about the distribution that the turns were sampled from: it then weighs by the sampler's
    logprobs, at its temperature. One that learns from answers whoever gave them takes them at temperature 1."""
    teacher: bool = False
    """Whether the loss needs the logprobs that the training's teacher gives to the tokens. It then plays nothing."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """What else a loss of that class is set to."""
    clip_low: float = 0.2
    """Lower clipping range of the importance ratio: r is clipped at 1 - clip_low."""
    clip_high: float = 0.2
    """Upper clipping range of the importance ratio: r is clipped at 1 + clip_high."""
    ratio: Literal["token", "sequence", "episode"] = "token"
    """Ratio of each token, or the geometric mean over the tokens of a turn (GSPO) or of an episode's turns."""
    ratio_cap: float | None = None
    """Upper limit of the ratio, also for negative advantages, where clipping doesn't apply."""
    aggregation: Literal["token_mean", "sequence_mean", "episode_mean", "token_sum"] = "token_mean"
    """Mean over all tokens of the batch; over turns, of each turn's token mean; over episodes, of each episode's token
    mean; or over episodes, of each episode's token sum divided by `length`."""
    length: int | None = None
    """With `token_sum`, the constant that an episode's sum is divided by. It doesn't favour any length."""
    kl: float = 0.0
    """Weight of the KL penalty towards the policy without adapter. It is a separate term, not part of an advantage."""
    importance_cap: float | None = None
    """Upper limit of the importance weight (trainer's over sampler's probability) that corrects for the sampler. If it
    is None, a training sets it to 2 where the sampler recorded logprobs."""
    importance_level: Literal["token", "sequence"] = "token"
    """Importance weight of each token, or of all sampled tokens of a turn together."""
    importance_mask: float | None = None
    """A turn takes no part if the geometric mean of its importance ratios is above this, or below its inverse. If it
    is None, a training sets it to 1.5 from the second update on, where the sampler recorded logprobs."""


class Optimizer:
    """Base class of optimizers. Only `advantages` must be implemented."""

    baseline_has_own_sample: bool = False
    """True where a sample is meant to be compared with a mean that it is part of, as in Dr. GRPO. Otherwise
    `agentfw plugins check` makes sure that it isn't."""
    compares_same_requests: bool = False
    """True where a turn teaches only beside another answer to the same request, as in DPO. Otherwise `agentfw plugins
    check` makes sure that no turn of an episode is left out."""

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        """One advantage for each turn to learn from. A group holds the samples of one task."""
        raise not_implemented(self, "advantages")

    def missing(self, groups: Sequence[Sequence[Scored]], wanted: int) -> int:
        """Number of further groups to play before learning from this batch. `wanted` is the planned number of groups.

        A training plays them and asks again until the answer is 0. The answer must depend only on the arguments and the
        settings, so that a resumed training plays the same groups, and must reach 0 after finitely many groups.
        """
        return 0

    def loss(self) -> Loss:
        return Loss()

    def metrics(self) -> Mapping[str, float]:
        """Metrics of the last batch by name, such as the number of groups that were skipped."""
        return {}

    def note(self) -> str:
        """A sentence that a reader of the last batch's metrics needs. Empty as a rule.

        A training that has one at every update shows the newest with its results.
        """
        return ""

    def state(self) -> dict[str, Any]:
        """State to keep between batches, as JSON values."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""

    def forget(self, user: str) -> bool:
        """Remove a user from the state. Return whether it knew the user."""
        return False
