"""Verifies which weights a policy serves: after each publication, policy and learner are given the same probe.

An update is not complete until the policy serves the version that was learned. A policy that keeps serving its base
model, or an old adapter, would otherwise train for days without an error.

    proof = Proof(policy, learner_logprobs)
    await proof.begin(folder.evaluation(0))
    figures = await proof.prove()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ...policy import Policy
from ..records.play_records import Records
from .probe import Probe, arithmetic, check

__all__ = ["Proof"]

_LONGEST = 64
"""Maximum number of tokens that are compared."""

Logprobs = Callable[[Sequence[int], Sequence[int], bool], Awaitable[Sequence[float]]]
"""The learner's logprobs of an answer after a prompt, with the newest version or with the base model."""


class Proof:
    """A probe, and the answers of policy and learner so far."""

    def __init__(self, policy: Policy, learner: Logprobs) -> None:
        self.policy, self.learner = policy, learner
        self.probe: Probe | None = None
        self._base: Sequence[float] = ()
        self._trained: Sequence[float] = ()
        """The learner's logprobs of the probe: without the adapter, and with the newest one."""
        self._noise: float | None = None
        """Difference between policy and learner before anything was learned. None if unknown."""

    async def begin(self, records: Records) -> None:
        """Choose the longest answer of the first evaluation. Every execution of the training finds it there."""
        if self.probe is not None:
            return
        turns = [turn for episode in records.episodes() for turn in episode.turns if turn.token_ids]
        if not turns:
            return
        longest = max(turns, key=lambda turn: (min(_LONGEST, len(turn.token_ids)), turn.prompt_ids, turn.token_ids))
        self.probe = Probe(longest.prompt_ids, longest.token_ids[:_LONGEST])
        self._base = await self.learner(self.probe.prompt_ids, self.probe.token_ids, True)
        self._trained = await self.learner(self.probe.prompt_ids, self.probe.token_ids, False)
        # Asked again, because the answer's logprobs depend on its temperature, which the learner doesn't know here.
        found = [served for served in await self._served(self.probe) if served]
        if found and self._base:
            self._noise = max(arithmetic(served, self._base) for served in found)

    async def prove(self) -> dict[str, float]:
        """Compare the logprobs of policy and learner. Raises an error that names the fault."""
        if self.probe is None:
            return {}
        before, self._trained = self._trained, await self.learner(self.probe.prompt_ids, self.probe.token_ids, False)
        found = await self._served(self.probe)
        if not all(found) or not self._trained:
            return {}
        proven = [check(served, self._trained, self._base, before, self._noise) for served in found]
        gaps = [[abs(one - other) for one, other in zip(served, self._trained, strict=True)] for served in found]
        return {
            "proven": float(all(proven)),
            "probe_mismatch": max(sum(each) / len(each) for each in gaps),
            "probe_mismatch_most": max(map(max, gaps)),
        }

    async def _served(self, probe: Probe) -> list[Sequence[float]]:
        """The logprobs of the probe from each replica of the policy."""
        asked = (one.logprobs(probe.prompt_ids, probe.token_ids) for one in self.policy.replicas())
        return list(await asyncio.gather(*asked))
