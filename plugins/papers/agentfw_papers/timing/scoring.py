"""Scores predictions for whole dialogues: the metrics of every turn, and their means with intervals.

A metric is averaged over the turns of a dialogue at which it is defined, then over dialogues. Intervals come from a
bootstrap over dialogues, since the turns of one dialogue are not independent. The paper doesn't say at which turns it
scores. Here these are all turns that have a prediction, also an empty one; `Report.where_expected` has the same figures
for those turns at which the reference expects an action.

    >>> ready = Opportunity("send-link", "ready_to_trigger")
    >>> annotation = Annotation("d1", 9, (TurnOpportunities("d1", 4, (ready,)),))
    >>> report = score([TurnOpportunities("d1", 3, (ready,)), TurnOpportunities("d1", 4)], [annotation])
    >>> print(report["pt"], report["silent"], report["missed"], report["difference"])
    1.000 0.500 0.500 undefined
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentfw_papers.timing.actions import Opportunity, TurnOpportunities
from agentfw_papers.timing.catalog import Catalog, Dependencies
from agentfw_papers.timing.dialogues import Annotation
from agentfw_papers.timing.metrics import RATES, Counted, TurnScores, score_turn
from agentfw_papers.timing.questions import Encode, information_consistency
from agentfw_papers.timing.ranking import Figures, difference
from agentfw_rewardmodels import BadInputError

SAMPLES, LEVEL = 1000, 0.95
_SHARES = (*RATES, "silent", "missed")
_BLOCK = 2_000_000
"""Resampled values held in memory at a time."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean over dialogues with its 95% interval. NaN where it is undefined, as are the bounds for one dialogue."""

    mean: float
    low: float
    high: float
    dialogues: int
    """Dialogues with at least one turn at which the metric is defined."""

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "undefined"
        return f"{self.mean:.3f}" + ("" if math.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]")


@dataclass(frozen=True, slots=True)
class ReadyActions:
    """How many ready actions are predicted at a turn."""

    mean: float
    deviation: float
    quartiles: tuple[float, float, float]
    maximum: int


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one system on a set of dialogues."""

    figures: Mapping[str, Estimate]
    """All metrics, the consistency difference, and the shares of silent and missed turns."""
    ready: ReadyActions
    turns: Mapping[tuple[str, int], TurnScores]
    """The metrics of each turn, by dialogue and turn number."""

    def __getitem__(self, metric: str) -> Estimate:
        return self.figures[metric]

    def where_expected(self) -> Report | None:
        """The same report for the turns at which the reference expects an action. None if there are none."""
        turns = {key: scores for key, scores in self.turns.items() if scores.expected}
        return summarise(turns) if turns else None

    def for_ranking(self) -> Figures:
        """The means that the system is ranked by."""
        ac, max_ac, relative, pt, ftr, rar = (
            self.figures[name].mean for name in ("ac", "max_ac", "difference", "pt", "ftr", "rar")
        )
        return Figures(ac=ac, max_ac=max_ac, difference=relative, pt=pt, ftr=ftr, rar=rar)


def score(
    predictions: Iterable[TurnOpportunities],
    annotations: Iterable[Annotation],
    *,
    catalog: Catalog | None = None,
    encode: Encode | None = None,
    pt_of: Counted = "ready",
    ftr_of: Counted = "ready",
) -> Report:
    """Score predictions against the references of the same dialogues.

    With a catalog, spellings of a value count as the same, and AD is computed from its workflows. With an encoder, IC
    is computed for turns that have questions.
    """
    references: dict[str, Annotation] = {}
    for annotation in annotations:
        if annotation.dialogue in references:
            raise BadInputError(
                f'there are two annotations of dialogue "{annotation.dialogue}"', fix="leave out one of them"
            )
        references[annotation.dialogue] = annotation
    by_dialogue: dict[str, dict[int, TurnOpportunities]] = {}
    for prediction in predictions:
        _check(prediction, references, by_dialogue.setdefault(prediction.dialogue, {}))
        by_dialogue[prediction.dialogue][prediction.turn] = prediction
    dependencies = Dependencies.of(catalog) if catalog and catalog.workflows else None
    turns = {}
    for dialogue, predicted in by_dialogue.items():
        annotation, before = references[dialogue], list[Opportunity]()
        for turn in sorted(predicted):
            expected, opportunities = annotation.at(turn), predicted[turn].opportunities
            scores = score_turn(
                opportunities,
                expected.opportunities,
                turn=turn,
                windows=annotation.windows,
                canonical=catalog.canonical if catalog else None,
                pt_of=pt_of,
                ftr_of=ftr_of,
            )
            if encode:
                similarity = information_consistency(expected.questions, predicted[turn].questions, encode)
                scores = replace(scores, ic=similarity)
            if dependencies:
                alignment = dependencies.alignment([one.name for one in before], [one.name for one in opportunities])
                mean = alignment / len(before) if alignment is not None else None
                scores = replace(scores, ad=alignment, ad_mean=mean)
            turns[dialogue, turn] = scores
            before = list(opportunities)
    return summarise(turns)


def summarise(turns: Mapping[tuple[str, int], TurnScores], *, seed: int = 0) -> Report:
    """Average the metrics of turns, given by dialogue and turn number, over turns and then over dialogues."""
    if not turns:
        raise BadInputError("there are no predictions to score", fix="give a prediction for at least one turn")
    dialogues: dict[str, list[TurnScores]] = {}
    for (dialogue, _), scores in turns.items():
        dialogues.setdefault(dialogue, []).append(scores)
    rows = [[_mean([getattr(one, name) for one in scores]) for name in _SHARES] for scores in dialogues.values()]
    return Report(_estimates(_SHARES, rows, seed), _ready([one.ready for one in turns.values()]), turns)


@dataclass(frozen=True, slots=True)
class SeedFigure:
    """A metric over several runs of one system."""

    mean: float
    deviation: float
    """Standard deviation; 0 for a single run."""

    def __str__(self) -> str:
        return f"{self.mean:.3f}±{self.deviation:.3f}"


def over_seeds(reports: Sequence[Report]) -> dict[str, SeedFigure]:
    """Mean and standard deviation of each metric over runs. The difference follows from those of AC and Max AC."""
    figures = {}
    for name in _SHARES:
        values = [report[name].mean for report in reports if not math.isnan(report[name].mean)]
        if values:
            figures[name] = SeedFigure(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)
    if "ac" in figures:
        ac, max_ac = figures["ac"], figures["max_ac"]
        if relative := difference(ac.mean, max_ac.mean, ac.deviation, max_ac.deviation):
            figures["difference"] = SeedFigure(*relative)
    return figures


def _check(
    prediction: TurnOpportunities, references: Mapping[str, Annotation], others: Mapping[int, TurnOpportunities]
) -> None:
    dialogue, turn = prediction.dialogue, prediction.turn
    if dialogue not in references:
        raise BadInputError(
            f'there is a prediction for dialogue "{dialogue}", but no annotation of it',
            fix="annotate the dialogue, with an empty list of turns if nothing is expected in it",
        )
    if turn > (length := references[dialogue].length):
        raise BadInputError(
            f'there is a prediction at turn {turn} of dialogue "{dialogue}", which has {length} turns',
            fix="count turns as the annotation does, including entries of actions",
        )
    if turn in others:
        raise BadInputError(
            f'there are two predictions at turn {turn} of dialogue "{dialogue}"',
            fix="put all predictions of a turn into one list",
        )


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan


def _ready(counts: Sequence[int]) -> ReadyActions:
    import numpy as np

    first, median, third = (float(value) for value in np.quantile(counts, [0.25, 0.5, 0.75]))
    deviation = statistics.stdev(counts) if len(counts) > 1 else 0.0
    return ReadyActions(statistics.fmean(counts), deviation, (first, median, third), max(counts))


def _estimates(names: Sequence[str], rows: Sequence[Sequence[float]], seed: int) -> dict[str, Estimate]:
    """The mean of every column, and the difference, with intervals from resampled rows. NaN is left out."""
    import numpy as np

    values = np.asarray(rows, dtype=np.float64)
    known = ~np.isnan(values)
    values = np.where(known, values, 0.0)
    count, ac, max_ac = len(rows), names.index("ac"), names.index("max_ac")

    def means(weights: Any) -> Any:
        """One row of means for each row of weights."""
        with np.errstate(invalid="ignore", divide="ignore"):
            columns = (weights @ values) / (weights @ known)
            relative = (columns[:, max_ac] - columns[:, ac]) / columns[:, ac]
        return np.column_stack([columns, np.where(columns[:, ac] > 0, relative, np.nan)])

    generator = np.random.default_rng(seed)
    sizes = np.diff([*range(0, SAMPLES, max(1, _BLOCK // count)), SAMPLES])
    shares = np.full(count, 1 / count)
    resampled = np.concatenate([means(generator.multinomial(count, shares, size)) for size in sizes])
    observed = means(np.ones((1, count)))[0]
    estimates = {}
    for column, name in enumerate([*names, "difference"]):
        dialogues = int(known[:, ac if name == "difference" else column].sum())
        usable = resampled[~np.isnan(resampled[:, column]), column]
        low, high = (math.nan, math.nan)
        if dialogues > 1 and len(usable):
            low, high = (float(bound) for bound in np.quantile(usable, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
        estimates[name] = Estimate(float(observed[column]), low, high, dialogues)
    return estimates
