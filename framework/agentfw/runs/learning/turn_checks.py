"""Checks each turn of a training, so that unusable turns are an error at once.

Otherwise a fault would be found only after all rollouts of an update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...episode import Episode, Turn
from ...errors import PluginError, UsageError
from ..observers.observer import Observer
from ..spec.run_spec import RunSpec

__all__ = ["TurnChecks", "check_sampling"]


class TurnChecks(Observer):
    """Checks the turns of the trained policy, and counts the tokens that it generates.

    Turns must come from one of the `versions` that may answer now. If one of these has no name, any turn may be its.
    With `needs_tokens`, turns must have token ids that were sampled from a distribution that the learner can compute.
    """

    def __init__(self, spec: RunSpec, versions: Callable[[], Sequence[str]], *, needs_tokens: bool = False) -> None:
        self.spec, self.versions, self.needs_tokens = spec, versions, needs_tokens
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
        if self.needs_tokens and self.spec.staleness and turn.token_ids and not turn.logprobs:
            raise UsageError(
                f'the policy "{name}" returns no logprobs (turn {turn.index} of episode {episode.id}), and samples of '
                "older versions can't be corrected for without",
                fix="--set staleness=0, or train a policy that returns them",
            )
        versions = self.versions()
        if turn.token_ids and all(versions) and turn.version not in versions:
            raise PluginError(
                f'the policy "{name}" answered turn {turn.index} of episode {episode.id} with '
                f"{turn.version or 'no version at all'} after {versions[0]} was published",
                fix="fix the policy, or restart its server: it must serve the newest version",
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
