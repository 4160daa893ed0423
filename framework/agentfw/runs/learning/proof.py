"""Verifies which weights a policy serves: after each publication, policy and learner are given the same probes.

An update is not complete until the policy serves the version that was learned. A policy that keeps serving its base
model, or an old adapter, would otherwise train for days without an error.

    proof = Proof(policy, learner_answers)
    await proof.begin(folder.evaluation(0))
    figures = await proof.prove()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from ...learner import Scores
from ...policy import Policy
from ..records.play_records import Records
from .probe import ROUGH, Probe, arithmetic, check, size, tolerance

_LONGEST = 64
"""Maximum number of tokens of an answer that are compared."""
_MOST = 16
"""Maximum number of answers that are compared."""
_ENOUGH = 512
"""Number of compared tokens from which no further answer is added."""
_COMPUTED = 4096
"""Maximum number of tokens that are computed, prompts included, unless the first answer alone has more."""


Learner = Callable[[Sequence[Probe], bool], Awaitable[Scores]]
"""Asks the learner about probes, with the newest version or with the base model."""


class Proof:
    """Some probes, and the answers of policy and learner so far."""

    def __init__(self, policy: Policy, learner: Learner, most: float = ROUGH) -> None:
        self.policy, self.learner, self.most = policy, learner, most
        self.probes: Sequence[Probe] = ()
        self._base = self._trained = Scores(())
        """The learner's answers: without the adapter, and with the newest one."""
        self._noise: float | None = None
        """Difference between policy and learner before anything was learned. None if unknown."""

    async def begin(self, records: Records) -> None:
        """Choose answers of the first evaluation. Every execution of the training finds them there."""
        if self.probes:
            return
        turns = [turn for episode in records.episodes() for turn in episode.turns if turn.token_ids]
        self.probes = _chosen({Probe(turn.prompt_ids, turn.token_ids[:_LONGEST]) for turn in turns})
        if not self.probes:
            return
        self._base = await self.learner(self.probes, True)
        self._trained = await self.learner(self.probes, False)
        # Asked again, because an answer's logprobs depend on its temperature, which the learner doesn't know here.
        found = [served for served in await self._served() if served]
        if found and self._base.logprobs:
            base = self._base
            self._noise = max(arithmetic(served, base.logprobs, base.rounding, self.most) for served in found)

    async def prove(self) -> dict[str, float]:
        """Compare the logprobs of policy and learner. Raises an error that names the fault."""
        if not self.probes:
            return {}
        before, self._trained = self._trained, await self.learner(self.probes, False)
        found, trained = await self._served(), self._trained.logprobs
        if not all(found) or not trained:
            return {}
        noise = None if self._noise is None else self._noise * self._growth()
        proven = [check(served, trained, self._base.logprobs, before.logprobs, noise) for served in found]
        gaps = [[abs(one - other) for one, other in zip(served, trained, strict=True)] for served in found]
        return {
            "proven": float(all(proven)),
            "probe_mismatch": max(sum(each) / len(each) for each in gaps),
            "probe_mismatch_most": max(map(max, gaps)),
        }

    @property
    def tolerance(self) -> float:
        """How far sampler and trainer may be apart, in nats per token."""
        return tolerance(self._base.rounding, self.most)

    def _growth(self) -> float:
        """How much more rounding does to the newest version than to the base: adapters add sums, and confidence."""
        base = size(self._base.rounding)
        return max(1.0, size(self._trained.rounding) / base) if base else 1.0

    async def _served(self) -> list[Sequence[float]]:
        """The logprobs of the probes from each replica of the policy. Empty if one is unknown."""
        return list(await asyncio.gather(*map(self._told, self.policy.replicas())))

    async def _told(self, policy: Policy) -> Sequence[float]:
        told = await policy.score([(probe.prompt_ids, probe.token_ids) for probe in self.probes])
        return [value for values in told for value in values] if all(told) else ()


def _chosen(probes: Iterable[Probe]) -> list[Probe]:
    """The longest of them, as many as are useful."""
    chosen: list[Probe] = []
    compared = computed = 0
    for probe in sorted(probes, key=lambda each: (-len(each.token_ids), each.prompt_ids, each.token_ids)):
        compared, computed = compared + len(probe.token_ids), computed + len(probe.prompt_ids) + len(probe.token_ids)
        if chosen and computed > _COMPUTED:
            break
        chosen.append(probe)
        if compared >= _ENOUGH or len(chosen) == _MOST:
            break
    return chosen
