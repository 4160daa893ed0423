"""Checks each turn of a training, so that unusable turns are an error at once.

Otherwise a fault would be found only after all rollouts of an update.
"""

from __future__ import annotations

from ..episode import Episode, Turn
from ..errors import PluginError, UsageError
from .observer import Observer
from .spec import RunSpec

__all__ = ["TurnChecks", "check_sampling"]


class TurnChecks(Observer):
    """Checks the turns of the trained policy, and counts the tokens that it generates.

    Turns must come from the newest `version`, if there is one. With `needs_tokens`, they must have token ids that were
    sampled from a distribution that the learner can compute.
    """

    def __init__(self, spec: RunSpec, version: str = "", *, needs_tokens: bool = False) -> None:
        self.spec, self.version, self.needs_tokens = spec, version, needs_tokens
        self.tokens = 0

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.tokens += turn.count
        name = self.spec.policy.name
        if self.needs_tokens and (turn.text or turn.calls) and not turn.token_ids:
            raise UsageError(
                f'the policy "{name}" returns no token ids (turn {turn.index} of episode {episode.id}), but '
                "the optimizer learns from exact tokens",
                fix="train one that does, such as transformers or vllm; or learn from its text: --optimizer imitation",
            )
        if self.needs_tokens and turn.token_ids:
            check_sampling(turn.temperature, turn.top_p, f'turn {turn.index} of episode {episode.id} by "{name}"')
        if self.version and turn.token_ids and turn.version != self.version:
            raise PluginError(
                f'the policy "{name}" answered turn {turn.index} of episode {episode.id} with '
                f"{turn.version or 'no version at all'} after {self.version} was published",
                fix="fix the policy, or restart its server: rollouts must come from the newest version",
            )


def check_sampling(temperature: float | None, top_p: float | None, what: str) -> None:
    """Raise if the learner can't compute the probabilities of tokens that are sampled like this."""
    if temperature == 0:
        raise UsageError(
            f"{what} is sampled at temperature 0, where nothing is left to chance that could be learned from",
            fix="--set sampling.temperature=1",
        )
    if top_p is not None and top_p < 1:
        raise UsageError(
            f"{what} is sampled with top_p {top_p:g}, and the learner can't know which tokens that leaves out",
            fix="--set sampling.top_p=1",
        )
