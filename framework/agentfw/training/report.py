"""A training as a page and a picture.

The one rule: what the policy is worth is told by held-out episodes with their interval; what rollouts earned on the way
stands below, as what it is.

    page, picture = training_page(folder, folder.metrics())
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..report import Bar, Canvas, Page, Series, bar_chart, line_chart
from ..report.html import Cell
from ..runs.comparison import change
from ..runs.folder import RunFolder
from ..runs.report import PHONE, made_of, range_words, short, told_whole, word_for_word
from ..runs.summary import in_order, intervals, leading
from .figures import flat
from .folder import TrainingFolder

__all__ = ["training_page"]

_CHARTS = (
    ("Reward of the rollouts by update", "reward", {"reward": "reward"}),
    ("Distance to the untrained policy", "KL", {"learner/kl": "KL"}),
    ("Entropy by update", "entropy", {"learner/entropy": "entropy"}),
    (
        "Sampler against trainer by update",
        "mean difference of logprobs",
        {"learner/mismatch": "rollouts", "served/probe_mismatch": "probe"},
    ),
    ("Groups by update", "groups", {"groups": "played", "groups_learned": "learned from"}),
)
"""Of each chart the title, what its figures are, and where each of them is; one without figures isn't drawn."""
_PHASES = {"play": "playing", "learn": "learning", "publish": "publishing", "evaluate": "evaluating"}


def training_page(folder: RunFolder, records: Sequence[Mapping[str, Any]]) -> tuple[Page, Canvas]:
    """The page, and the curve of the headline, which is the picture."""
    assert isinstance(folder, TrainingFolder)
    spec: Mapping[str, Any] = folder.about["spec"]
    lines = folder.updates()
    count = f"{len(lines):,}" if len(lines) == folder.total else f"{len(lines):,} of {folder.total:,}"
    title = f"{spec['environment']['name']}, {spec['policy']['name']} by {spec['optimizer']['name']}"
    page = Page(title, subtitle=f"{folder.id}, {count} {'update' if folder.total == 1 else 'updates'}")
    picture = _curve(folder)
    _highlights(page, folder, lines)
    page.figure(picture, narrow=_curve(folder, width=PHONE))
    _figures(page, folder)
    if lines:
        _updates(page, lines)
    word_for_word(page, records, told_whole(folder, records))
    made_of(page, folder)
    if lines:
        _table(page, lines)
    return page, picture


def _curve(folder: TrainingFolder, *, width: float = 880) -> Canvas:
    """The headline on held-out episodes, after each evaluation."""
    found = {number: intervals(records) for number, records in folder.stages().items()}
    name = leading(set.intersection(*(set(figures) for figures in found.values())), folder.headline)
    values = [figures[name] for figures in found.values()]
    series = Series(
        name,
        [value.estimate for value in values],
        x=list(found),
        low=[value.low for value in values],
        high=[value.high for value in values],
    )
    title = f"{name[:1].upper()}{name[1:]} by update"
    below = f"{name}, mean and 95% interval of {values[0].count} held-out episodes"
    return line_chart([series], title=title, x_label="updates", y_label=below, width=width)


def _highlights(page: Page, folder: TrainingFolder, lines: Sequence[Mapping[str, Any]]) -> None:
    stages = [intervals(records) for records in folder.stages().values()]
    name = leading(set(stages[0]) & set(stages[-1]), folder.headline)
    cards = [(f"{name} before", f"{stages[0][name].estimate:.3f}", range_words(stages[0][name]))]
    if len(stages) > 1:
        cards.append((f"{name} now", f"{stages[-1][name].estimate:.3f}", range_words(stages[-1][name])))
        difference = change(folder)
        if difference is not None:
            chance = str(difference).rpartition(", ")[2]
            note = f"{range_words(difference.difference)}, {chance}"
            cards.append(("change", f"{difference.difference.estimate:+.3f}", note))
    tokens = sum(int(line["rollouts"]["tokens"]) for line in lines)
    seconds = sum(sum(line["seconds"].values()) for line in lines)
    cards.append(("tokens to learn from", f"{tokens:,}", f"{len(lines)} updates, {_duration(seconds)}"))
    page.highlights(cards)


def _figures(page: Page, folder: TrainingFolder) -> None:
    """The last evaluation beside the first."""
    stages = {number: intervals(records) for number, records in folder.stages().items()}
    first, last = min(stages), max(stages)
    lower = f" The lower the {folder.headline}, the better." if folder.about.get("lower_is_better") else ""
    page.section("Figures", f"The mean over held-out episodes with its bootstrapped 95% interval.{lower}")
    columns = ["figure"]
    for number in dict.fromkeys((first, last)):
        columns += [f"after {number}", "from", "to"]
    rows = []
    for name in in_order(stages[last], folder.headline):
        row: list[Any] = [name]
        for number in dict.fromkeys((first, last)):
            found = stages[number].get(name)
            row += [None] * 3 if found is None else [short(each) for each in (found.estimate, found.low, found.high)]
        rows.append(row)
    page.table(columns, rows)


def _updates(page: Page, lines: Sequence[Mapping[str, Any]]) -> None:
    """How it went, update by update; these are figures of a policy in the making."""
    page.section("On the way", "Figures of the episodes that were learned from, and of the learner.")
    rows = [flat(line) for line in lines]
    updates = [float(line["update"]) for line in lines]
    for title, label, names in _CHARTS:
        series = [
            Series(words, [row.get(name, math.nan) for row in rows], x=updates)
            for name, words in names.items()
            if any(name in row for row in rows)
        ]
        if series and len(lines) > 1:
            charts = [
                line_chart(series, title=title, x_label="update", y_label=label, width=width, height=260)
                for width in (880, PHONE)
            ]
            page.figure(charts[0], narrow=charts[1])
    seconds = {name: sum(row.get(f"seconds/{name}", 0.0) for row in rows) for name in _PHASES}
    bars = [Bar(_PHASES[name], value) for name, value in seconds.items()]
    charts = [bar_chart(bars, title="Seconds by phase, in all", width=width) for width in (880, PHONE)]
    page.figure(charts[0], narrow=charts[1])


def _table(page: Page, lines: Sequence[Mapping[str, Any]]) -> None:
    page.section("Updates", "updates.jsonl has all figures of each.")
    names = {
        "reward": "reward",
        "turns": "turns",
        "tokens": "tokens",
        "groups_learned": "groups learned",
        "learner/kl": "KL",
        "learner/entropy": "entropy",
        "served/probe_mismatch": "mismatch",
        "seconds/play": "s playing",
        "seconds/learn": "s learning",
    }
    rows = [flat(line) for line in lines]
    known = {name: words for name, words in names.items() if any(name in row for row in rows)}
    page.table(
        ["update", "version", *known.values()],
        [
            [int(line["update"]), str(line["version"]), *(_cell(row.get(name, math.nan)) for name in known)]
            for line, row in zip(lines, rows, strict=True)
        ],
    )


def _cell(value: float) -> Cell:
    return value if isinstance(value, int) else short(value)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
