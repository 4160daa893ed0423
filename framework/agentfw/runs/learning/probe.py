"""Checks which weights a policy serves, by comparing its logprobs of a few fixed tokens with the learner's.

A fault is named only where the data supports it. The served version is compared with the newest version, which it
should be, and with typical faults: the base model, the version before, or the update applied twice. If these can't be
told apart, nothing is claimed.

    >>> base, trained = [-2.0, -1.0, -3.0], [-1.5, -1.2, -2.0]
    >>> noise = arithmetic(sampled=[-2.001, -1.0, -3.001], base=base)
    >>> check([-1.501, -1.2, -2.0], trained, base, base, noise)
    True
    >>> check(base, trained, base, base, noise)
    Traceback (most recent call last):
    ...
    agentfw.errors.AgentfwError: the policy still serves its base model: the newest version is not in use

All values are logprobs of the same tokens after the same prompt. Numerical differences between sampler and learner
(`arithmetic`) are measured before anything is learned. Together with the distance between versions, they make the check
work for a small first step in fp32 as well as for a 4-bit model after a week of training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from ...errors import AgentfwError

__all__ = ["Probe", "arithmetic", "check"]

_ROUGH = 0.5
"""Maximum numerical difference between two programs, in nats. 4-bit against 16-bit weights come close to it."""
_FINE = 2.5e-5
"""Numerical difference in nats that is always tolerated: both sides compute in 32 bits."""
_SPREAD = 4.0
"""Tolerance factor between repeated measurements."""
_CLEARLY = 0.5
"""A version counts as served if it is nearer than this share of the distance to the others."""
_PROVEN = 0.25
"""Threshold below which the served version counts as the newest: a share of its distance to the other versions."""
_STRAY = 3.0
"""Number of standard errors from which a difference counts as more than noise."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The tokens that policy and learner are asked about."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]


def arithmetic(sampled: Sequence[float], base: Sequence[float]) -> float:
    """Typical difference in nats per token between policy and learner, for the base model, before any update."""
    noise = _far(_checked(sampled, base), numpy.asarray(base, dtype=float))
    if noise > _ROUGH:
        raise AgentfwError(
            f"policy and learner differ by {noise:.2g} nats per token before anything was learned: "
            "they use different models, or see different tokens",
            fix="check that policy.model and learner.model are the same folder, with the same precision",
        )
    return noise


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
    away = _far(now, new)
    limit = _ROUGH if noise is None else _SPREAD * max(noise, _FINE)
    fault = _mistaken(away, min(_CLEARLY * away, limit), now, old, before)
    if fault is None and away > limit:
        fault = _altered(away, now - new, new - old)
    if fault is not None:
        raise fault
    apart = [distance for distance in (_far(new, old), _far(new, before)) if distance > 0]
    return bool(apart) and away <= _PROVEN * min(apart)


def _mistaken(
    away: float, limit: float, now: numpy.ndarray, old: numpy.ndarray, before: numpy.ndarray
) -> AgentfwError | None:
    """The error for serving one version instead of another."""
    from_base, from_before = _far(now, old), _far(now, before)
    near, far = sorted((from_base, from_before))
    if away == 0 or near > limit:
        return None
    if near > _CLEARLY * far and _far(old, before) > 0:
        return AgentfwError(
            "the policy serves its base model or the previous version, not the newest one; "
            "on this probe the two can't be told apart",
            fix="check that its publish method loads the given adapter",
        )
    if from_base <= from_before:
        return AgentfwError(
            "the policy still serves its base model: the newest version is not in use",
            fix="check that its publish method loads the adapter, and that requests name it",
        )
    return AgentfwError(
        "the policy serves the previous version: its adapter is stale",
        fix="check that each version has a new name, and that requests name the newest",
    )


def _altered(away: float, excess: numpy.ndarray, update: numpy.ndarray) -> AgentfwError:
    """The error for serving an unknown version, by how it differs from the newest."""
    size = _far(update, numpy.zeros_like(update))
    # How much of the update is added again, and how certain that is. Anything else would match only by chance.
    share = float(excess @ update) / (len(update) * size**2) if size else 0.0
    sure = abs(share) * size * math.sqrt(len(update)) > _STRAY * _far(excess, share * update)
    by = f"by {away:.2g} nats per token, more than numerical noise"
    if sure and share >= _PROVEN:
        return AgentfwError(
            f"the policy applies the update more than once ({1 + share:.1f} times, according to the probe)",
            fix="load adapters onto the base model, not onto one with a merged adapter",
        )
    if away > 1.0 and away > 2 * size:
        return AgentfwError(
            f"policy and learner differ {by}, and far more than the training changed: "
            "the policy serves another model, or sees other tokens",
            fix="check that policy.model and learner.model are the same folder",
        )
    if sure and -1 < share < 0:
        return AgentfwError(
            f"the policy serves only a part of the update: about {-100 * share:.0f} % of it is missing",
            fix="check that it loads the adapter for every module, and look for unknown names in its log",
        )
    return AgentfwError(
        f"policy and learner differ {by}: the policy serves neither the newest version nor any other known one, "
        "perhaps a part of it",
        fix="check that it loads the adapter for every module, onto the model that it was trained on",
    )


def _checked(values: Sequence[float], others: Sequence[float]) -> numpy.ndarray:
    """The logprobs as an array, if they are valid."""
    if len(values) != len(others):
        raise AgentfwError(
            f"a probe has {len(values)} logprobs on one side and {len(others)} on the other",
            fix="return one value per token of the answer from the logprobs methods of policy and learner",
        )
    array = numpy.asarray(values, dtype=float)
    if not numpy.isfinite(array).all():
        raise AgentfwError("a logprob of the probe is not a number", fix="go back to an earlier checkpoint")
    return array


def _far(one: numpy.ndarray, other: numpy.ndarray) -> float:
    """The typical difference per token, in nats."""
    return float(numpy.sqrt(numpy.mean((one - other) ** 2))) if len(one) else 0.0
