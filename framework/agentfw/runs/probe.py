"""Finds out which weights a policy serves, from the logprobs of policy and learner for a few fixed tokens.

The served logprobs are compared with those of the newest version, and with those of likely faults: the base model, the
version before, the update applied twice. A fault is named only where the figures tell it from the others.

    >>> base, trained = [-2.0, -1.0, -3.0], [-1.5, -1.2, -2.0]
    >>> noise = arithmetic(sampled=[-2.001, -1.0, -3.001], base=base)
    >>> check([-1.501, -1.2, -2.0], trained, base, base, noise)
    True
    >>> check(base, trained, base, base, noise)
    Traceback (most recent call last):
    ...
    agentfw.errors.AgentfwError: the policy still serves its base model: the newest version is not in use

All are logprobs of the same tokens after the same prompt. What sampler and learner differ by before anything is
learned is arithmetic (`arithmetic`); with it, and with how far apart the versions are, it works for a first careful
step in fp32 as for a model in four bits after a week.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from ..errors import AgentfwError

__all__ = ["Probe", "arithmetic", "check"]

_ROUGH = 0.5
"""Nats by which the arithmetic of two programs may differ: four bits here and sixteen there come near it."""
_FINE = 2.5e-5
"""And by which it always may: both compute in 32 bits."""
_SPREAD = 4.0
"""How many times what was measured once it may be another time."""
_CLEARLY = 0.5
"""Nearer than half as far: noise leads away from everything alike."""
_PROVEN = 0.25
"""No further from the newest version than a quarter of what sets it apart from the others."""
_STRAY = 3.0
"""By how many standard errors a difference must point somewhere to be more than noise."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What policy and learner are asked about."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]


def arithmetic(sampled: Sequence[float], base: Sequence[float]) -> float:
    """By how many nats a token policy and learner differ over the base model, where nothing was learned yet."""
    noise = _far(_checked(sampled, base), numpy.asarray(base, dtype=float))
    if noise > _ROUGH:
        raise AgentfwError(
            f"policy and learner differ by {noise:.2g} nats a token before anything was learned: "
            "they have different models, or read different tokens",
            fix="are policy.model and learner.model one and the same folder, and their precisions alike?",
        )
    return noise


def check(
    served: Sequence[float],
    trained: Sequence[float],
    base: Sequence[float],
    previous: Sequence[float],
    noise: float | None = None,
) -> bool:
    """An error that names the fault if something else is served than was trained.

    `trained` is what the newest version thinks, `previous` the one before it, and `base` the model without adapter;
    `noise` is what `arithmetic` said, where it could. True if it is proven that the newest is served; False if nothing
    speaks against it, but the versions are too close to each other on this probe to tell.
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
    """The fault that one version is served for another."""
    from_base, from_before = _far(now, old), _far(now, before)
    near, far = sorted((from_base, from_before))
    if away == 0 or near > limit:
        return None
    if near > _CLEARLY * far and _far(old, before) > 0:
        return AgentfwError(
            "the policy serves its base model or the version before, and not the newest one; "
            "on this probe the two can't be told apart",
            fix="does its publish method load the adapter that it is given?",
        )
    if from_base <= from_before:
        return AgentfwError(
            "the policy still serves its base model: the newest version is not in use",
            fix="does its publish method load the adapter, and do requests name it?",
        )
    return AgentfwError(
        "the policy serves the version before: its adapter is stale",
        fix="does a new version go under a new name, and do requests name the newest?",
    )


def _altered(away: float, excess: numpy.ndarray, update: numpy.ndarray) -> AgentfwError:
    """What is served is no version that there is: how does it differ from the newest?"""
    size = _far(update, numpy.zeros_like(update))
    # How much of the update comes on top, and how sure that is: anything else would point this way by chance only.
    share = float(excess @ update) / (len(update) * size**2) if size else 0.0
    sure = abs(share) * size * math.sqrt(len(update)) > _STRAY * _far(excess, share * update)
    by = f"by {away:.2g} nats a token, more than their arithmetic does"
    if sure and share >= _PROVEN:
        return AgentfwError(
            f"the policy serves the update more than once ({1 + share:.1f} times, the probe says)",
            fix="load adapters onto the base model, and not onto one that an adapter was merged into",
        )
    if away > 1.0 and away > 2 * size:
        return AgentfwError(
            f"policy and learner differ {by}, and far more than training changed: "
            "the policy serves another model, or reads other tokens",
            fix="are policy.model and learner.model one and the same folder?",
        )
    if sure and -1 < share < 0:
        return AgentfwError(
            f"the policy serves a part of the update only: some {-100 * share:.0f} % of what it changes is missing",
            fix="does it load the adapter for every module? what does its log say of names that it doesn't know?",
        )
    return AgentfwError(
        f"policy and learner differ {by}: the policy serves neither the newest version nor any other that is known, "
        "perhaps a part of it",
        fix="does it load the adapter for every module, and onto the model that it was trained on?",
    )


def _checked(values: Sequence[float], others: Sequence[float]) -> numpy.ndarray:
    """The logprobs as an array, if that is what they are."""
    if len(values) != len(others):
        raise AgentfwError(
            f"of one probe there are {len(values)} logprobs here and {len(others)} there",
            fix="the logprobs methods of policy and learner give one value for each token of the answer",
        )
    array = numpy.asarray(values, dtype=float)
    if not numpy.isfinite(array).all():
        raise AgentfwError("a logprob of the probe is not a number", fix="go back to an earlier checkpoint")
    return array


def _far(one: numpy.ndarray, other: numpy.ndarray) -> float:
    """The typical distance of a token, in nats."""
    return float(numpy.sqrt(numpy.mean((one - other) ** 2))) if len(one) else 0.0
