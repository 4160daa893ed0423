"""A run as a page and a picture: report.html, self-contained, and curve.png.

The one rule: everything in it comes from the run folder, so it can be made anew at any time, also of a run that is
still going on.

    write_report(find_run(Path("runs"), "last"))
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..episode import Episode
from ..errors import UnknownNameError, UsageError
from ..report import Canvas, Lane, Mark, Number, Page, Series, Span, lanes_chart, line_chart
from ..statistics import Interval, bootstrap
from .folder import RunFolder
from .journal import write_whole
from .summary import Summary, beside, columns, course, figures_of, in_order, leading

__all__ = [
    "PHONE",
    "curve",
    "made_of",
    "range_words",
    "short",
    "timeline_picture",
    "told_whole",
    "word_for_word",
    "write_episode_picture",
    "write_report",
]

_TRANSCRIPTS = 3
"""So many episodes are shown whole: the worst, the median and the best."""
_LONGEST = 60_000
"""Characters of a transcript; what is beyond is in the run folder."""
_BANDED = 300
"""Rounds up to which each gets its interval: for thousands of them the resampling would take longer than the run."""
PHONE = 350
"""Pixels that a phone has for a picture."""
_ROWS = 1000
"""Episodes in the table: more would make the page slow, and nobody reads them."""
_LANES = 8
"""Kinds of work that get a lane of their own: the ones that took longest."""


def write_report(folder: RunFolder) -> list[Path]:
    """Write report.html and curve.png; the files that there are now."""
    records = folder.metrics()
    if not records:
        raise UsageError(f"{folder.id} has no finished episode yet", fix=f"agentfw runs resume {folder.id}")
    if folder.unit == "updates":
        from ..training.report import training_page

        page, picture = training_page(folder, records)
    else:
        picture = curve(folder, records)
        page = _page(folder, records, picture, told_whole(folder, records))
    files = {"report.html": page.render().encode(), "curve.png": picture.to_png()}
    for name, data in files.items():
        write_whole(folder.path / name, data)
    return [folder.path / name for name in files]


def write_episode_picture(folder: RunFolder, file: Path, wanted: str | None = None) -> Path:
    """Draw the timeline of one episode, the first unless another is wanted, as PNG or SVG."""
    if file.suffix.lower() not in (".png", ".svg"):
        raise UsageError(f"can't draw into {file}", fix="give the picture a name that ends in .png or .svg")
    ids = [str(record["episode"]) for record in folder.metrics()]
    if not ids:
        raise UsageError(f"{folder.id} has no finished episode yet", fix=f"agentfw runs resume {folder.id}")
    if wanted is not None and wanted not in ids:
        raise UnknownNameError("episode", wanted, ids, fix=f"the first is {ids[0]}, the last {ids[-1]}")
    episode = next(one for one in folder.episodes() if one.id == (wanted or ids[0]))
    spec = folder.about["spec"]
    title = f"{spec['environment']['name']}, episode {episode.id}, {spec['interface'].replace('_', ' ')}"
    drawn = timeline_picture(episode, title=title)
    write_whole(file, drawn.to_svg() if file.suffix.lower() == ".svg" else drawn.to_png())
    return file


def curve(folder: RunFolder, records: Sequence[Mapping[str, Any]], *, width: float = 880) -> Canvas:
    """How the headline figure went: over the rounds of an episode where there are rounds, else over the episodes."""
    headline, rounds = leading(columns(records), folder.headline), course(records)
    if rounds:
        return _curve_by_round(folder.headline, records, len(rounds), width)
    values = columns(records)[headline]
    span = max(1, min(10, len(values) // 4))
    series = [Series("each episode", values, quiet=True)] if span > 1 else []
    series.append(Series(f"mean of {span}" if span > 1 else headline, _smoothed(values, span)))
    title = f"{headline[:1].upper()}{headline[1:]} by episode"
    return line_chart(series, title=title, x_label="episode", y_label=headline, width=width)


def _curve_by_round(headline: str, records: Sequence[Mapping[str, Any]], count: int, width: float) -> Canvas:
    """Each episode's course is smoothed by itself before the mean is taken, so the band is that of what is drawn."""
    span = max(1, min(10, count // 4))
    smooth = []
    for record in records:
        numbers, values = [number for number, _ in record["course"]], [value for _, value in record["course"]]
        smooth.append({"course": list(zip(numbers, _smoothed(values, span), strict=True))})
    rounds = course(smooth)
    means = [sum(some) / len(some) for some in rounds.values()]
    series = Series(headline, means, x=list(rounds))
    if len(records) > 1 and len(rounds) <= _BANDED:
        intervals = [bootstrap(some) for some in rounds.values()]
        low, high = [each.low for each in intervals], [each.high for each in intervals]
        series = Series(headline, means, x=list(rounds), low=low, high=high)
    title = f"{headline[:1].upper()}{headline[1:]} by round"
    below = f"{headline}, mean of the last {span} rounds" if span > 1 else headline
    if len(records) > 1:
        below += f", over {len(records)} episodes"
    return line_chart([series], title=title, x_label="round", y_label=below, width=width)


def timeline_picture(episode: Episode, *, title: str = "", width: float = 880) -> Canvas:
    """An episode in lanes: what was going on, what became known, what was done, and what was broken off."""
    works: dict[str, list[Span]] = {}
    breaks: dict[str, list[Mark]] = {}
    running: dict[tuple[str, int], float] = {}
    known, done = [], []
    for event in episode.events:
        lane = f"{event.seat}: {event.name}" if event.seat else event.name
        if event.kind == "work":
            key = (lane, int(event.data["id"]))
            if event.data["state"] in ("started", "resumed"):
                running[key] = event.time
                continue
            begun = running.pop(key, None)
            if begun is not None:
                kind = "thinking" if event.name == "think" else "work"
                works.setdefault(lane, []).append(Span(begun, event.time, "", kind))
            if event.data["state"] in ("interrupted", "cancelled"):
                how = "put aside" if event.data["state"] == "interrupted" else "broken off"
                breaks.setdefault(lane, []).append(Mark(event.time, how, "interruption"))
        elif event.kind == "observation":
            known.append(Mark(event.time, lane.replace("_", " "), "observation"))
        elif event.kind in ("intervention", "reflex"):
            done.append(Mark(event.time, lane.replace("_", " "), "intervention"))
    for (lane, _), begun in running.items():
        works.setdefault(lane, []).append(Span(begun, episode.ended, "", "work"))
    longest = sorted(works, key=lambda lane: -sum((span.end or 0) - span.start for span in works[lane]))[:_LANES]
    # What begins first stands first, so that one thing leads to the next downwards.
    longest.sort(key=lambda lane: works[lane][0].start)
    lanes = [Lane("becomes known", marks=known), Lane("is done", marks=done)]
    lanes += [Lane(lane.replace("_", " "), spans=works[lane], marks=breaks.get(lane, [])) for lane in longest]
    return lanes_chart(lanes, title=title or f"Episode {episode.id}", time_label="time", width=width)


def _page(folder: RunFolder, records: Sequence[Mapping[str, Any]], picture: Canvas, told: Sequence[Episode]) -> Page:
    spec: Mapping[str, Any] = folder.about["spec"]
    headline = leading(columns(records), folder.headline)
    count = f"{len(records):,}" if len(records) == folder.total else f"{len(records):,} of {folder.total:,}"
    done = f"{count} {'episode' if folder.total == 1 else 'episodes'}"
    page = Page(f"{spec['environment']['name']}, {spec['policy']['name']}", subtitle=f"{folder.id}, {done}")
    _figures(page, folder, records, headline, picture)
    _beside(page, folder)
    middle = told[len(told) // 2] if told else None
    if middle is not None and middle.ended > middle.started:
        page.section("On the timeline", "Time runs from left to right. What was put aside goes on later where it was.")
        title = f"Episode {middle.id}"
        page.figure(timeline_picture(middle, title=title), narrow=timeline_picture(middle, title=title, width=PHONE))
    word_for_word(page, records, told)
    made_of(page, folder)
    _episodes(page, records, headline)
    return page


def _episodes(page: Page, records: Sequence[Mapping[str, Any]], headline: str) -> None:
    """The table of all episodes; the last thing on the page, because it is the longest."""
    shown = list(dict.fromkeys([headline, "reward"]))
    cut = f"The first {_ROWS:,} of {len(records):,}; metrics.jsonl has them all." if len(records) > _ROWS else ""
    page.section("Episodes", cut)
    page.table(
        ["episode", "user", *shown, "turns", "tokens", "ended by"],
        [
            [
                str(record["episode"]),
                str(record["user"]),
                *(short(figures_of(record).get(name, math.nan)) for name in shown),
                int(record["turns"]),
                int(record["tokens"]),
                str(record["finish"]).replace("_", " "),
            ]
            for record in records[:_ROWS]
        ],
    )


def _figures(
    page: Page, folder: RunFolder, records: Sequence[Mapping[str, Any]], headline: str, picture: Canvas
) -> None:
    """The figures that a reader came for, the curve, and all figures."""
    values = columns(records)
    figures = {name: bootstrap(some) for name, some in values.items()}
    shown = [headline, *(name for name in ("utility", "reward") if name != headline)][:2]
    cards = [(name, f"{figures[name].estimate:.3f}", range_words(figures[name])) for name in shown]
    turns, failures = (
        sum(int(record["turns"]) for record in records),
        sum(int(record["failures"]) for record in records),
    )
    cards.append(("turns", f"{turns:,}", f"{turns / len(records):.0f} an episode"))
    cards.append(("not understood", f"{failures:,}", "answers that were no valid action"))
    page.highlights(cards)
    page.figure(picture, narrow=curve(folder, records, width=PHONE))
    lower = f" The lower the {headline}, the better." if folder.about.get("lower_is_better") else ""
    names = in_order(figures, headline)
    if len(records) == 1:
        page.section("Figures", f"Of one episode, so without an interval.{lower}")
        page.table(["figure", "value"], [[name, short(figures[name].estimate)] for name in names])
        return
    page.section("Figures", f"The mean over episodes with its bootstrapped 95% interval.{lower}")
    page.table(
        ["figure", "mean", "from", "to", "least", "most"],
        [
            [
                name,
                *(short(value) for value in (figures[name].estimate, figures[name].low, figures[name].high)),
                *(short(least) for least in _extremes(values[name])),
            ]
            for name in names
        ],
    )


def _beside(page: Page, folder: RunFolder) -> None:
    """What simple players reach in the same episodes; known when the run is done."""
    record = folder.summary()
    summary = Summary.from_record(record) if record else None
    if summary is None or not summary.references:
        return
    columns = folder.columns or {folder.headline: folder.headline}
    page.section("Beside simple players", "Means over the same episodes; each interval is that of the first heading.")
    page.table(
        ["", folder.headline, "from", "to", *columns.values()],
        [
            [
                who,
                *map(
                    short,
                    (figures[folder.headline].estimate, figures[folder.headline].low, figures[folder.headline].high),
                ),
                *(short(figures[name].estimate) if name in figures else None for name in columns),
            ]
            for who, figures in beside(summary, folder)
        ],
    )


def told_whole(folder: RunFolder, records: Sequence[Mapping[str, Any]]) -> list[Episode]:
    """The episodes that are shown whole."""
    order = sorted(records, key=lambda record: float(record["reward"]))
    places = sorted({0, len(order) // 2, len(order) - 1})[:_TRANSCRIPTS]
    ids = [str(order[place]["episode"]) for place in places]
    chosen = {episode.id: episode for episode in folder.episodes() if episode.id in ids}
    return [chosen[name] for name in ids if name in chosen]


def word_for_word(page: Page, records: Sequence[Mapping[str, Any]], told: Sequence[Episode]) -> None:
    """The section with whole episodes."""
    if not told:
        return
    chosen = "The episodes with the lowest, the middle and the highest reward." if len(told) > 1 else ""
    page.section("Word for word", chosen)
    for episode in told:
        reward = next(record["reward"] for record in records if record["episode"] == episode.id)
        note = f"reward {reward:.3f}, {len(episode.turns)} turns"
        page.details(f"Episode {episode.id}", _transcript(episode), note=note)


def made_of(page: Page, folder: RunFolder) -> None:
    """The section with the settings and where everything came from."""
    page.section("What it was made of")
    page.details("Settings", json.dumps(folder.about["spec"], indent=2, ensure_ascii=False))
    facts = [("made", str(folder.about.get("created", ""))[:19].replace("T", " "))]
    facts += [("agentfw", folder.about.get("agentfw", "")), ("Python", folder.about.get("python", ""))]
    page.facts([(str(key), str(value)) for key, value in (*facts, *folder.about.get("components", {}).items())])


def _transcript(episode: Episode) -> str:
    """Each message once, and each answer after what it answers."""
    said: set[int] = set()
    parts = []
    for turn in episode.turns:
        for index in turn.shown:
            message = episode.messages[index]
            if index not in said and message.role != "assistant":
                parts.append(f"{message.role}\n  " + message.content.replace("\n", "\n  "))
            said.add(index)
        ending = " (broken off)" if turn.finish == "interrupted" else ""
        answer = turn.text or " ".join(call.name for call in turn.calls) or "(nothing)"
        parts.append(f"at {turn.ended:g}{ending}\n> " + answer.replace("\n", "\n> "))
        parts += [f"! {failure}" for failure in turn.failures]
    text = "\n\n".join(parts)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "\n\n... the rest is in episodes.jsonl"


def _smoothed(values: Sequence[float], span: int) -> list[float]:
    """The mean of each value and up to span - 1 before it; what was not measured is left out."""
    smooth = []
    for place in range(len(values)):
        known = [value for value in values[max(0, place - span + 1) : place + 1] if not math.isnan(value)]
        smooth.append(sum(known) / len(known) if known else math.nan)
    return smooth


def _extremes(values: Sequence[float]) -> tuple[float, float]:
    known = [value for value in values if not math.isnan(value)]
    return min(known), max(known)


def range_words(interval: Interval) -> str:
    return f"95%: {interval.low:.3f} to {interval.high:.3f}" if interval.count > 1 else "one episode"


def short(value: float) -> Number | None:
    """Three decimals; figures of different size stand in one column, so each keeps its own."""
    if math.isnan(value):
        return None
    return Number(value, f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}")
