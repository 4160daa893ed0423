"""Verifies which weights a policy serves, by comparing its logprobs of a few fixed tokens with the learner's.

An update is not complete until the policy serves the version that was learned. A policy that keeps serving its base
model, or an old adapter, would otherwise train for days without an error. A fault is named only where the data supports
it: if the newest version and typical faults (the base model, the version before) can't be told apart, nothing is
claimed.

    >>> base, trained = [-2.0, -1.0, -3.0], [-1.5, -1.2, -2.0]
    >>> noise = arithmetic(sampled=[-2.001, -1.0, -3.001], base=base, rounding=[0.001, 0.0, -0.002])
    >>> check([-1.501, -1.2, -2.0], trained, base, base, noise)
    True
    >>> check(base, trained, base, base, noise)
    Traceback (most recent call last):
    ...
    agentfw.errors.AgentfwError: the policy still serves its base model: the newest version is not in use

In 16 bits, measuring the noise between sampler and learner once isn't enough: two programs often agree to the last bit
on dozens of tokens, until one sum is rounded differently, and everything that follows differs. So the noise has a lower
limit: what rounding errors change in the learner's own logprobs.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy

from ..errors import AgentfwError
from ..learner import Scores
from ..policy import Policy
from .records.play_records import Records

SLIGHT = 0.1
"""Maximum difference between sampler and trainer, in nats per token, where the loss needs the probabilities with which
tokens were sampled. 16 against 32 bits are below a third of it, 4 against 16 bits above."""
ROUGH = 0.5  # the same where it doesn't: only another model, or other tokens, are further away
_FINE = 2.5e-5  # numerical difference in nats that is always tolerated: both sides compute in 32 bits
_SAME = 1e-6  # difference in nats that tells nothing apart: tokens all but certain hardly change with the weights
_ROUNDED = 0.1
"""Minimum noise as a share of what rounding changes: an error in each input of the model does more than typical noise.
Right bf16 trainings had a share from nearly 0 (equal to the last bit) to 2, with a median of 0.3. With n
uncertain tokens it is at least 1/n: what was measured with a few may be small by chance."""
_EXPLAINED = 3.0  # how many times as far as rounding moves the learner's logprobs sampler and trainer may be apart
_SPREAD = 2.0  # tolerance factor between repeated measurements of many tokens. 1.6 was the maximum of right trainings
_FEW = 5.0  # how much more is tolerated for few tokens that tell something: 1 + this / sqrt(tokens) times as much
_CLEARLY, _MANY = 0.5, 64  # a version counts as served if it is nearer than this share of the distance to the others
_RATHER = 0.7  # the same with that many tokens: chance doesn't bring a wrong version so much nearer than the right one
_LUCKY = 12.0  # with n tokens, only a difference of an nth of this many times the noise names another version
_PROVEN = 0.25  # below this share of its distance to the other versions, the served one counts as the newest


class Probe(NamedTuple):
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]


def arithmetic(
    sampled: Sequence[float], base: Sequence[float], rounding: Sequence[float] = (), most: float = ROUGH
) -> float:
    """Typical difference in nats per token between policy and learner, for the base model, before any update.

    `rounding` is what rounding errors change in the learner's logprobs, if known. More than `most` is an error, unless
    rounding explains it.
    """
    noise = size(_checked(sampled, base) - numpy.asarray(base, dtype=float))
    if noise > tolerance(rounding, most):
        raise AgentfwError(
            f"policy and learner differ by {noise:.2g} nats per token before anything was learned: "
            "they have different precisions or models, or see different tokens",
            fix="let the policy serve what is trained: set policy.model to learner.model, and policy.precision to the "
            "learner's. To train on a different sampler on purpose, corrected by importance weights, set "
            "optimizer.importance_cap=2",
        )
    known = max(_ROUNDED, 1 / _telling(numpy.asarray(base, dtype=float)))
    return max(noise, known * size(rounding), _FINE)


def tolerance(rounding: Sequence[float], most: float) -> float:
    """How far sampler and trainer may be apart, in nats per token."""
    return max(most, _EXPLAINED * size(rounding))


def check(
    served: Sequence[float],
    trained: Sequence[float],
    base: Sequence[float],
    previous: Sequence[float],
    noise: float | None = None,
) -> bool:
    """Raise an error that names the fault if the policy doesn't serve what was trained.

    `trained` are the logprobs of the newest version, `previous` those of the version before it, and `base` those of the
    model without adapter. `noise` is the result of `arithmetic`, if known. Returns True if the newest version is
    certainly served, and False if nothing speaks against it, but the versions are too similar on this probe to tell.
    """
    now = _checked(served, trained)
    new, old, before = (_checked(values, trained) for values in (trained, base, previous))
    away, from_base, from_before = size(now - new), size(now - old), size(now - before)
    count = _telling(new)
    limit = ROUGH if noise is None else _SPREAD * (1 + _FEW / math.sqrt(count)) * max(noise, _FINE)
    near, far = sorted((from_base, from_before))
    clearly = _CLEARLY if count < _MANY else _RATHER
    lucky = away * count <= _LUCKY * (noise or 0.0)
    if not lucky and away > _SAME and near <= min(clearly * away, limit):
        if near > _CLEARLY * far and size(old - before) > 0:
            raise AgentfwError(
                "the policy serves its base model or the previous version, not the newest one; "
                "on this probe the two can't be told apart",
                fix="check that its publish method loads the given adapter",
            )
        if from_base <= from_before:
            text = "the policy still serves its base model: the newest version is not in use"
            raise AgentfwError(text, fix="check that its publish method loads the adapter, and that requests name it")
        text = "the policy serves the previous version: its adapter is stale"
        raise AgentfwError(text, fix="check that each version has a new name, and that requests name the newest")
    if away > limit:
        raise AgentfwError(
            f"policy and learner differ by {away:.2g} nats per token, more than numerical noise: the policy serves "
            "neither the newest version nor any other known one, perhaps a part of it, or applies it twice",
            fix="check that it loads the adapter for every module, onto the model that it was trained on and not onto "
            "one with a merged adapter, and that policy.model and learner.model are the same folder",
        )
    apart = [distance for distance in (size(new - old), size(new - before)) if distance > 0]
    return bool(apart) and away <= _PROVEN * min(apart)


def _telling(logprobs: numpy.ndarray) -> float:
    """How many tokens tell something: what is all but certain changes neither with weights nor by rounding."""
    doubt = (1 - numpy.exp(numpy.minimum(logprobs, 0.0))) ** 2
    return float(doubt.sum() ** 2 / (doubt**2).sum()) if doubt.any() else 1.0


def _checked(values: Sequence[float], others: Sequence[float]) -> numpy.ndarray:
    if len(values) != len(others):
        raise AgentfwError(
            f"a probe has {len(values)} logprobs on one side and {len(others)} on the other",
            fix="return one value per token of the answer from the logprobs methods of policy and learner",
        )
    array = numpy.asarray(values, dtype=float)
    if not numpy.isfinite(array).all():
        raise AgentfwError("a logprob of the probe is not a number", fix="go back to an earlier checkpoint")
    return array


def size(values: Sequence[float] | numpy.ndarray) -> float:
    """The typical size of values: their root mean square."""
    return float(numpy.sqrt(numpy.mean(numpy.square(values)))) if len(values) else 0.0


_LONGEST = 64  # maximum number of tokens of an answer that are compared
_BEFORE = 16
"""Number of tokens before an answer that are computed with it. Weights show in any tokens, so neither side reads long
prompts again after each update. Whether the two agree on these shows in what was sampled."""
_MOST = 16  # maximum number of answers that are compared
_ENOUGH = 96  # number of compared tokens from which no further answer is added: half as many again as make one sure
_COMPUTED = 256  # maximum number of tokens that are computed, unless the first answer alone has more
Learner = Callable[[Sequence[Probe], bool, bool], Awaitable[Scores]]
"""Asks the learner about probes: with the base model or the newest version, and with what rounding changes or not."""


class Proof:
    """Some probes, and the answers of policy and learner so far."""

    def __init__(self, policy: Policy, learner: Learner, most: float = ROUGH) -> None:
        self.policy, self.learner, self.most = policy, learner, most
        self.probes: Sequence[Probe] = ()
        self._base = self._trained = Scores(())  # the learner's answers: without the adapter, and with the newest one
        self._noise: float | None = None  # between policy and learner before anything was learned. None if unknown

    async def begin(self, records: Records) -> None:
        """Choose answers of the first evaluation. Every execution of the training finds them there."""
        if self.probes:
            return
        turns = [turn for episode in records.episodes() for turn in episode.turns if turn.token_ids]
        probes = {Probe(turn.prompt_ids[-_BEFORE:], turn.token_ids[:_LONGEST]) for turn in turns}
        # The longest cost least for each token that is compared.
        chosen: list[Probe] = []
        compared = computed = 0
        for probe in sorted(probes, key=lambda each: (-len(each.token_ids), each.prompt_ids, each.token_ids)):
            compared += len(probe.token_ids)
            computed += len(probe.token_ids) + len(probe.prompt_ids)
            if chosen and computed > _COMPUTED:
                break
            chosen.append(probe)
            if compared >= _ENOUGH or len(chosen) == _MOST:
                break
        self.probes = chosen
        if not chosen:
            return
        self._base = await self.learner(self.probes, True, True)
        self._trained = await self.learner(self.probes, False, False)
        # Asked again, because an answer's logprobs depend on its temperature, which the learner doesn't know here.
        found = [served for served in await self._served() if served]
        if found and self._base.logprobs:
            base = self._base
            self._noise = max(arithmetic(served, base.logprobs, base.rounding, self.most) for served in found)

    async def prove(self) -> dict[str, float]:
        if not self.probes:
            return {}
        before, self._trained = self._trained, await self.learner(self.probes, False, False)
        found, trained = await self._served(), self._trained.logprobs
        if not all(found) or not trained:
            return {}
        try:
            proven = [check(served, trained, self._base.logprobs, before.logprobs, self._noise) for served in found]
        except AgentfwError:
            # Rounding may do more in the newest version than in the base. To know that takes several more passes of
            # the learner, so it is measured only where the base's noise is too small to explain a difference.
            noise, rounding = self._noise, size(self._base.rounding)
            if noise is not None and rounding:
                noise *= max(1.0, size((await self.learner(self.probes, False, True)).rounding) / rounding)
            proven = [check(served, trained, self._base.logprobs, before.logprobs, noise) for served in found]
        gaps = [[abs(one - other) for one, other in zip(served, trained, strict=True)] for served in found]
        return {
            "proven": float(all(proven)),
            "probe_mismatch": max(sum(each) / len(each) for each in gaps),
            "probe_mismatch_most": max(map(max, gaps)),
        }

    @property
    def tolerance(self) -> float:
        return tolerance(self._base.rounding, self.most)

    async def _served(self) -> list[Sequence[float]]:
        """The logprobs of the probes from each replica of the policy. Empty if one is unknown."""
        told = await asyncio.gather(*(policy.score(self.probes) for policy in self.policy.replicas()))
        return [[*chain(*some)] if all(some) else () for some in told]
