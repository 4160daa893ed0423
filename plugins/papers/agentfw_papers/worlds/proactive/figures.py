"""The figures of a dialogue: what is measured at each turn at which the agent is asked, and the means over these turns.

A metric that is undefined at a turn is left out there, and left out of the outcome if it is undefined everywhere. The
rewards are always finite.

    >>> tally = Tally(silence=1.0, pt_of="ready")
    >>> ready = Opportunity("send-link", "ready_to_trigger")
    >>> figures = tally.add(Answer((ready,)), TurnOpportunities("d1", 3, (ready,)), Windows({"send-link": (3, 4)}))
    >>> figures["ac"], figures["pt"], tally.outcome()["balance"]
    (1.0, 1.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, harmonic_mean

from agentfw_papers.timing import (
    RATES,
    Answer,
    Catalog,
    Counted,
    Dependencies,
    Encode,
    Opportunity,
    TurnOpportunities,
    Windows,
    asked_missing,
    information_consistency,
    rewards,
    score_turn,
)


class Tally:
    """The figures of one dialogue, turn by turn."""

    def __init__(
        self,
        *,
        silence: float,
        pt_of: Counted,
        catalog: Catalog | None = None,
        dependencies: Dependencies | None = None,
        encode: Encode | None = None,
    ) -> None:
        """With a catalog, spellings of a value count as the same. With dependencies, AD is measured, and IC with an
        encoder of questions.
        """
        self._silence, self._pt_of, self._catalog = silence, pt_of, catalog
        self._dependencies, self._encode = dependencies, encode
        self._turns: list[dict[str, float]] = []
        self._before: Sequence[Opportunity] = ()

    def add(
        self, answer: Answer, reference: TurnOpportunities, windows: Windows, missing: Iterable[str] | None = None
    ) -> dict[str, float]:
        """Measure one turn. `missing` are the inputs that a question should ask for, if questions are measured."""
        predicted = answer.opportunities
        scores = score_turn(
            predicted,
            reference.opportunities,
            turn=reference.turn,
            windows=windows,
            canonical=self._catalog.canonical if self._catalog else None,
            pt_of=self._pt_of,
        )
        found: dict[str, float | None] = {name: getattr(scores, name) for name in RATES}
        found |= asdict(rewards(scores, silence=self._silence))
        found["format"] = float(not answer.failures)
        found |= {"ready": scores.ready, "silent": scores.silent, "missed": scores.missed, "expected": scores.expected}
        found |= {"unknown_names": len(answer.unknown_names), "left_out": answer.left_out}
        if missing is not None:
            found["asked_missing"] = asked_missing(answer.questions, list(missing))
        if self._encode:
            found["ic"] = information_consistency(reference.questions, answer.questions, self._encode)
        if self._dependencies:
            aligned = self._dependencies.alignment(_names(self._before), _names(predicted))
            found["ad"] = aligned
            found["ad_mean"] = None if aligned is None else aligned / len(self._before)
        self._before = predicted
        figures = {name: float(value) for name, value in found.items() if value is not None}
        self._turns.append(figures)
        return figures

    def outcome(self) -> dict[str, float]:
        """The mean of each figure over the turns at which it is defined, and what follows from these."""
        names = dict.fromkeys(name for figures in self._turns for name in figures)
        found = {name: fmean(figures[name] for figures in self._turns if name in figures) for name in names}
        if found.get("ac"):
            found["difference"] = (found["max_ac"] - found["ac"]) / found["ac"]
        return {**found, "balance": _balance(found)}


def _balance(means: Mapping[str, float]) -> float:
    """Harmonic mean of AC and PT. Without any prediction: 1 if nothing was expected, else 0."""
    if "ac" in means:
        return harmonic_mean([means["ac"], means["pt"]])
    return float(not means.get("missed"))


def _names(opportunities: Sequence[Opportunity]) -> list[str]:
    return [one.name for one in opportunities]
