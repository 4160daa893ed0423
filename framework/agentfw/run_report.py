"""A run as a page and a picture: report.html, self-contained, and curve.png.

The one rule: everything in it comes from the run folder, so it can be made anew at any time, also of a run that is still
going on.

    write_report(find_run(Path("runs"), "last"))
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .episode import Episode
from .errors import UsageError
from .journal import write_whole
from .report import Canvas, Lane, Mark, Number, Page, Series, Span, lanes_chart, line_chart
from .run_folder import RunFolder
from .statistics import bootstrap
from .summary import columns, figures_of

__all__ = ["curve", "timeline_picture", "write_report"]

_TRANSCRIPTS = 3
"""So many episodes are shown whole: the worst, the median and the best."""
_LONGEST = 60_000
"""Characters of a transcript; what is beyond is in the run folder."""


def write_report(folder: RunFolder) -> list[Path]:
    """Write report.html and curve.png; the files that there are now."""
    records = folder.metrics()
    if not records:
        raise UsageError(f"{folder.id} has no finished episode yet", mend=f"agentfw runs resume {folder.id}")
    ids = _told(folder, records)
    chosen = {episode.id: episode for episode in folder.episodes() if episode.id in ids}
    rounds = _round_values(folder) if any(episode.rounds for episode in chosen.values()) else {}
    picture = curve(folder, records, rounds)
    page = _page(folder, records, picture, [chosen[name] for name in ids if name in chosen])
    files = {"report.html": page.render().encode(), "curve.png": picture.to_png()}
    for name, data in files.items():
        write_whole(folder.path / name, data)
    return [folder.path / name for name in files]


def curve(
    folder: RunFolder, records: Sequence[Mapping[str, Any]], rounds: Mapping[int, Sequence[float]] | None = None
) -> Canvas:
    """How the headline figure went: over the rounds of an episode where there are rounds, else over the episodes."""
    headline = _headline(folder)
    if rounds:
        places = sorted(rounds)
        intervals = [bootstrap(list(rounds[place])) for place in places]
        series = [
            Series(
                headline,
                [interval.estimate for interval in intervals],
                x=places,
                low=[interval.low for interval in intervals],
                high=[interval.high for interval in intervals],
            )
        ]
        return line_chart(series, title=f"{headline.capitalize()} by round", x_label="round", y_label=headline)
    values = columns(records)[headline]
    span = max(1, min(10, len(values) // 4))
    smooth = [sum(some) / len(some) for some in (values[max(0, i - span + 1) : i + 1] for i in range(len(values)))]
    lines = [Series("each episode", values, quiet=True)] if span > 1 else []
    lines.append(Series(f"mean of {span}" if span > 1 else headline, smooth))
    return line_chart(lines, title=f"{headline.capitalize()} by episode", x_label="episode", y_label=headline)


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
                breaks.setdefault(lane, []).append(Mark(event.time, "put aside", "interruption"))
        elif event.kind == "observation":
            known.append(Mark(event.time, lane, "observation"))
        elif event.kind in ("intervention", "reflex"):
            done.append(Mark(event.time, lane, "intervention"))
    for (lane, _), begun in running.items():
        works.setdefault(lane, []).append(Span(begun, episode.ended, "", "work"))
    longest = sorted(works, key=lambda lane: -sum((span.end or 0) - span.start for span in works[lane]))
    lanes = [Lane("becomes known", marks=known), Lane("is done", marks=done)]
    lanes += [Lane(lane.replace("_", " "), spans=works[lane], marks=breaks.get(lane, [])) for lane in longest[:6]]
    return lanes_chart(lanes, title=title or f"Episode {episode.id}", time_label="time", width=width)


def _page(folder: RunFolder, records: Sequence[Mapping[str, Any]], picture: Canvas, told: Sequence[Episode]) -> Page:
    spec: Mapping[str, Any] = folder.about["spec"]
    headline = _headline(folder)
    figures = {name: bootstrap(values) for name, values in columns(records).items()}
    total = spec["episodes"] * spec["samples"]
    done = f"{len(records)} episodes" if len(records) == total else f"{len(records)} of {total} episodes so far"
    page = Page(f"{spec['environment']['name']}, {spec['policy']['name']}", subtitle=f"{folder.id}   {done}")
    shown = [headline, *(name for name in ("utility", "reward") if name != headline)][:2]
    cards = [(name, f"{figures[name].estimate:.3f}", f"95%: {figures[name].low:.3f} to {figures[name].high:.3f}") for name in shown]
    turns, failures = sum(int(record["turns"]) for record in records), sum(int(record["failures"]) for record in records)
    cards.append(("turns", f"{turns:,}", f"{turns / len(records):.0f} an episode"))
    cards.append(("not understood", f"{failures:,}", "answers that were no valid action"))
    page.highlights(cards)
    page.figure(picture)
    page.section("Figures", "The mean over episodes with its bootstrapped 95% interval.")
    order = sorted(figures, key=lambda name: (name != headline, name not in ("utility", "reward")))
    page.table(
        ["figure", "mean", "from", "to", "least", "most"],
        [
            [name, _short(interval.estimate), _short(interval.low), _short(interval.high), *_extremes(records, name)]
            for name, interval in ((name, figures[name]) for name in order)
        ],
    )
    if told:
        page.section("On the timeline", "Time runs from left to right. What was put aside goes on later where it was.")
        middle = told[len(told) // 2]
        page.figure(timeline_picture(middle, title=f"Episode {middle.id}"))
    page.section("Episodes")
    page.table(
        ["episode", "user", headline, "reward", "turns", "tokens", "ended by"],
        [
            [
                str(record["episode"]),
                str(record["user"]),
                _short(figures_of(record).get(headline, math.nan)),
                _short(float(record["reward"])),
                int(record["turns"]),
                int(record["tokens"]),
                str(record["finish"]).replace("_", " "),
            ]
            for record in records
        ],
    )
    if told:
        page.section("Word for word", "Among the episodes, the ones with the lowest, the middle and the highest reward.")
        for episode in told:
            reward = next(record["reward"] for record in records if record["episode"] == episode.id)
            page.details(f"Episode {episode.id}", _transcript(episode), note=f"reward {reward:.3f}, {len(episode.turns)} turns")
    page.section("What it was made of")
    page.details("Settings", json.dumps(spec, indent=2, ensure_ascii=False))
    facts = [("made", folder.about.get("created", "")), ("agentfw", folder.about.get("agentfw", ""))]
    facts += [("Python", folder.about.get("python", "")), *folder.about.get("components", {}).items()]
    page.facts([(str(key), str(value)) for key, value in facts])
    return page


def _told(folder: RunFolder, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The episodes that are shown whole."""
    order = sorted(records, key=lambda record: float(record["reward"]))
    places = sorted({0, len(order) // 2, len(order) - 1})[:_TRANSCRIPTS]
    return [str(order[place]["episode"]) for place in places]


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


def _round_values(folder: RunFolder) -> dict[int, list[float]]:
    """The headline figure by round, over all episodes."""
    headline = _headline(folder)
    found: dict[int, list[float]] = {}
    for episode in folder.episodes():
        for measure in episode.measures:
            if measure.name == headline and measure.round:
                found.setdefault(measure.round, []).append(measure.value)
    return found


def _headline(folder: RunFolder) -> str:
    return str(folder.about.get("headline", "utility"))


def _extremes(records: Sequence[Mapping[str, Any]], name: str) -> tuple[Number, Number]:
    values = columns(records)[name]
    return _short(min(values)), _short(max(values))


def _short(value: float) -> Number:
    """Three decimals; figures of different size stand in one column, so each keeps its own."""
    return Number(value, f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}")
