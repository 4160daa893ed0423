"""The metrics of one turn: consistency, timing, and the paper's further rates (section 3.2, appendix C).

A metric is None where it is undefined: nearly all of them without a prediction, FTR without a ready prediction.

Points that the paper leaves open are decided here. The numerator of PT counts ready predictions only, as appendix K.3
describes it and as all printed results require; equation 5 as printed counts pending ones too (`pt_of="all"`). "Not in
R" in equation 6 means that the action is never ready in this dialogue. The denominator of FTR is the number of ready
predictions, as printed; `ftr_of="all"` divides by all predictions. Equations 6 and 16 share the name FTR; here they are
`ftr` and `false_triggered`.

    >>> windows = Windows({"send-link": (4, 5)})
    >>> early = [Opportunity("send-link", "ready_to_trigger"), Opportunity("make-password", "triggered")]
    >>> scores = score_turn(early, [], turn=2, windows=windows)
    >>> scores.pt, scores.ftr, scores.rar, scores.ac
    (0.5, 0.5, 1.0, 0.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from agentfw_papers.timing.actions import Opportunity, Windows, check_turn
from agentfw_papers.timing.matching import Canonical, agreements
from agentfw_rewardmodels import BadInputError

Counted = Literal["ready", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnScores:
    """The metrics of one turn. The rates are None where they are undefined."""

    predicted: int
    """Number of predictions."""
    ready: int
    """Number of ready predictions."""
    expected: int
    """Number of reference actions."""

    ac: float | None = None
    """Action consistency: mean agreement of the predictions with the reference (equation 1)."""
    max_ac: float | None = None
    """Agreement of the best prediction (equation 2)."""
    pt: float | None = None
    """Proactive timing: share of predictions that are ready and no later than the reference's window (equation 5)."""
    ftr: float | None = None
    """Fault trigger rate: share of ready predictions whose action is never ready in this dialogue (equation 6)."""
    rar: float | None = None
    """Ready action rate: share of predictions that are ready (equation 7)."""
    late: float | None = None
    """Share of predictions that are ready after the last turn of the window. PT + late + unfounded = RAR."""
    unfounded: float | None = None
    """Share of predictions that are ready although the action is never ready in this dialogue."""
    atr: float | None = None
    """Actual trigger rate: share of predictions that are triggered and in this turn's reference (equation 15)."""
    false_triggered: float | None = None
    """Share of predictions that are triggered and not in this turn's reference (equation 16)."""
    frr: float | None = None
    """False ready rate: share of predictions that are ready and not in this turn's reference (equation 17)."""
    ic: float | None = None
    """Information consistency: similarity of predicted to reference questions (equation 12)."""
    ad: float | None = None
    """Action dependency alignment with the previous prediction (equation 13)."""
    ad_mean: float | None = None
    """AD divided by the number of previous predictions, so that it is at most 1."""

    @property
    def silent(self) -> bool:
        """Whether nothing was predicted."""
        return self.predicted == 0

    @property
    def missed(self) -> bool:
        """Whether nothing was predicted although the reference expects an action."""
        return self.silent and self.expected > 0


RATES = tuple(field.name for field in fields(TurnScores) if field.name not in ("predicted", "ready", "expected"))
"""The names of all metrics that are averaged over turns."""


def score_turn(
    predicted: Sequence[Opportunity],
    reference: Sequence[Opportunity],
    *,
    turn: int,
    windows: Windows,
    canonical: Canonical | None = None,
    pt_of: Counted = "ready",
    ftr_of: Counted = "ready",
) -> TurnScores:
    """All metrics of one turn that need nothing but predictions and references."""
    check_turn(turn)
    ready = [one for one in predicted if one.ready]
    counts = {"predicted": len(predicted), "ready": len(ready), "expected": len(reference)}
    if not predicted:
        return TurnScores(**counts)
    total = len(predicted)
    values = agreements(predicted, reference, canonical=canonical)
    names = {one.name for one in reference}
    triggered = [one.name in names for one in predicted if one.status == "triggered"]
    in_time = sum((windows.last(one.name) or 0) >= turn for one in (ready if pt_of == "ready" else predicted))
    unfounded = sum(one.name not in windows for one in ready)
    late = sum(one.name in windows and windows[one.name][-1] < turn for one in ready)
    faults = unfounded / len(ready) if ready else None
    return TurnScores(
        **counts,
        ac=sum(values) / total,
        max_ac=max(values),
        pt=in_time / total,
        ftr=faults if ftr_of == "ready" else unfounded / total,
        rar=len(ready) / total,
        late=late / total,
        unfounded=unfounded / total,
        atr=sum(triggered) / total,
        false_triggered=(len(triggered) - sum(triggered)) / total,
        frr=sum(one.name not in names for one in ready) / total,
    )


@dataclass(frozen=True, slots=True)
class Rewards:
    """A turn's metrics as rewards: always finite, so that a silent turn can be compared with others."""

    rac: float
    max_rac: float
    ptr: float
    ftr_cost: float


def rewards(scores: TurnScores, *, silence: float = 1.0) -> Rewards:
    """Rewards of a turn. `silence` is the agreement of a silent turn at which the reference is silent as well.

    The paper doesn't define the metrics without predictions. Silence where an action is expected agrees by 0, as do
    predictions where nothing is expected. Without a ready prediction there is nothing to gain or lose by timing.
    """
    if not (math.isfinite(silence) and silence >= 0):
        raise BadInputError(f"silence is {silence}", fix="use a finite number of zero or more")
    if scores.silent:
        value = 0.0 if scores.expected else silence
        return Rewards(value, value, 0.0, 0.0)
    return Rewards(scores.ac or 0.0, scores.max_ac or 0.0, scores.pt or 0.0, scores.ftr or 0.0)
