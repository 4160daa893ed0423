"""Proving which weights a policy serves: after each publication it is asked about a fixed probe, as is the learner.

The one rule: no update counts before what was learned is what answers. A policy that goes on with its base model, or
with yesterday's adapter, trains for days without an error.

    proof = Proof(parts, spec)
    await proof.begin(folder.evaluation(0))
    figures = await proof.prove()
"""

from __future__ import annotations

from collections.abc import Sequence

from ..runs.assembly import blamed
from ..runs.records import Records
from .parts import Parts, blamed_learner
from .probe import Probe, arithmetic, check
from .spec import TrainSpec

__all__ = ["Proof"]

_LONGEST = 64
"""Tokens of an answer that are compared at most."""


class Proof:
    """A probe, and what was thought of it so far."""

    def __init__(self, parts: Parts, spec: TrainSpec) -> None:
        self.parts, self.spec = parts, spec
        self.probe: Probe | None = None
        self._base: Sequence[float] = ()
        self._trained: Sequence[float] = ()
        """What the learner thinks of the probe: without adapter, and with the newest one."""
        self._noise: float | None = None
        """What policy and learner differed by before anything was learned; None where they didn't say."""

    async def begin(self, records: Records) -> None:
        """Take the longest answer of the first evaluation, which every execution of the training finds there."""
        if self.probe is not None:
            return
        turns = [turn for episode in records.episodes() for turn in episode.turns if turn.token_ids]
        if not turns:
            return
        longest = max(turns, key=lambda turn: (min(_LONGEST, len(turn.token_ids)), turn.prompt_ids, turn.token_ids))
        self.probe = Probe(longest.prompt_ids, longest.token_ids[:_LONGEST])
        self._base, self._trained = self._learner(base=True), self._learner()
        # Asked again: the answer's own logprobs are those of its temperature, and a learner knows none.
        with blamed(f'the policy "{self.spec.policy.name}", asked about the probe,'):
            served = await self.parts.policy.logprobs(self.probe.prompt_ids, self.probe.token_ids)
        if served and self._base:
            self._noise = arithmetic(served, self._base)

    async def prove(self) -> dict[str, float]:
        """Compare what the policy and the learner think of the probe; an error names what is wrong."""
        if self.probe is None:
            return {}
        before, self._trained = self._trained, self._learner()
        with blamed(f'the policy "{self.spec.policy.name}", asked about the probe,'):
            served = await self.parts.policy.logprobs(self.probe.prompt_ids, self.probe.token_ids)
        if not served or not self._trained:
            return {}
        proven = check(served, self._trained, self._base, before, self._noise)
        gaps = [abs(one - other) for one, other in zip(served, self._trained, strict=True)]
        return {"proven": float(proven), "probe_mismatch": sum(gaps) / len(gaps), "probe_mismatch_most": max(gaps)}

    def _learner(self, *, base: bool = False) -> Sequence[float]:
        assert self.probe is not None
        with blamed_learner(self.spec, "asked about the probe"):
            return self.parts.learner.logprobs(self.probe.prompt_ids, self.probe.token_ids, base=base)
