"""The tree of an episode: model calls, calls of tools, recalls and sub-agents with how long each took.

The spans that an agent has sent beside its requests are in the same tree. What the record has of a model call or a tool
comes below the innermost span in which it happened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentfw.runs import read_journal

from .episode_view import EpisodeView
from .index import Index
from .search import Row, parts_of

_SLACK = 0.05  # seconds by which the clocks and roundings of two programs on one machine differ
_MOST = 2000  # spans of a session that are put into the tree
_TOLD = ("gen_ai.request.model", "gen_ai.tool.name", "http.response.status_code")
"""Attributes of a span that are shown beside its name."""
_ENDED = {"finished": "", "failed": "", "interrupted": ", put aside", "cancelled": ", broken off"}
"""How work in a world ends, and what is said of it."""


@dataclass(eq=False)
class Step:
    """Something that an agent did, and for how long."""

    kind: str
    name: str
    start: float  # in seconds since 1970, or by the clock of a world that has a time of its own
    end: float
    note: str = ""
    link: str = ""  # where on the page, or on which page, more of it stands
    problem: str = ""
    holds: bool = False  # whether other steps can be a part of it
    parts: list[Step] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    """When something happened that took no time. Where there are any, the step is a row of them."""
    depth: int = 0
    is_slowest: bool = False

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def is_within(self, other: Step) -> bool:
        return other.start - _SLACK <= self.start and self.end <= other.end + _SLACK


def steps_of(
    index: Index,
    view: EpisodeView,
    rows: sqlite3.Connection,
    address: Callable[[Row], str],
    there: Container[int] | None = None,
) -> list[Step]:
    """The tree of an episode, with its spans and sub-agents. `address` is that of the page of an episode. `there` has
    the ids of those that have one, if not all do."""
    run, _ = index.run_of(view.row)
    parts = [row for row in parts_of(rows, view.row) if there is None or row["id"] in there]
    sessions = [(EpisodeView.read(index, row, rows), address(row)) for row in parts]
    try:
        return waterfall(view, spans_of(run, str(view.row["query"])) if view.row["query"] else (), sessions)
    except (KeyError, TypeError, ValueError):  # a record with other values than ours is still shown, without its tree
        return []


def spans_file(run: Path, session: str) -> Path:
    """Where the spans of a session are kept, each line with those of one request, or, by `~` and its id, of a trace."""
    return run / "spans" / f"{quote(session, safe='')}.jsonl"


def spans_of(run: Path, session: str) -> list[dict[str, Any]]:
    """The spans of a session, by the name that the record has, with those of its traces that came without a name."""
    found = [span for line in read_journal(spans_file(run, session.partition("~")[0])) for span in line["spans"]]
    for trace in {span["trace"] for span in found}:
        found += [span for line in read_journal(spans_file(run, f"~{trace}")) for span in line["spans"]]
    return found


def waterfall(
    view: EpisodeView, spans: Sequence[Mapping[str, Any]] = (), parts: Sequence[tuple[EpisodeView, str]] = ()
) -> list[Step]:
    """The steps in the order of the tree. `parts` are the sessions of sub-agents, each with the address of its page."""
    own = list(_of_record(view))
    for part, link in parts:
        if inner := list(_of_record(part)):
            start, end = min(step.start for step in inner), max(step.end for step in inner)
            own.append(Step("sub-agent", str(part.row["query"]), start, end, link=link))
    roots = _tree_of(spans, own)
    for seat in dict.fromkeys(turn.seat for turn in view.episode.turns if turn.seat) if view.episode else ():
        inner = [step for step in own if step.note == seat]
        start, end = min(step.start for step in inner), max(step.end for step in inner)
        roots.append(Step("sub-agent", seat, start, end, holds=True))
    spanned = [step for step in _flat(roots) if step.kind == "span"]
    for step in own:
        during = [one for one in spanned if step.kind == "tool call" and one.is_within(step)]
        same = next((one for one in during if step.name in (*one.name.split(), *one.note.split(", "))), None)
        if same is not None:  # the span knows when it was carried out
            spanned.remove(same)
            same.kind, same.link, same.problem = step.kind, step.link, same.problem or step.problem
            continue
        holding = (one for one in _flat(roots) if one.holds and step.is_within(one))
        around = min(holding, key=lambda one: one.seconds, default=None)
        (roots if around is None else around.parts).append(step)
    if view.episode is not None and all(turn.at is None for turn in view.episode.turns):
        # What became known in a world, and what was done in it, each as a row.
        for name, kinds in (("becomes known", ("observation",)), ("is done", ("intervention", "reflex"))):
            moments = [event.time for event in view.episode.events if event.kind in kinds]
            if moments:
                roots.append(Step(name, name, min(moments), max(moments), moments=moments))
    found = list(_flat(roots))
    calls = [step for step in found if not (step.parts or step.moments) and step.seconds > 0]
    if len(calls) > 1:
        max(calls, key=lambda step: step.seconds).is_slowest = True
    return found if any(step.seconds > 0 for step in found) else []


def _of_record(view: EpisodeView) -> Iterator[Step]:
    episode = view.episode
    if episode is None:
        return
    clock = next((turn.at - turn.started for turn in episode.turns if turn.at is not None), None)
    zero = clock or 0.0
    done = {str(event.data.get("call", "")): event.time for event in episode.events if event.kind == "observation"}
    for shown in view.turns:
        turn, link = shown.turn, f"#turn-{shown.turn.index + 1}"
        if shown.recalled:
            at = zero + turn.started
            yield Step("recall", f"{len(shown.recalled)} remembered", at, at, turn.seat, link)
        name, problem = turn.model or turn.version or "model", "; ".join(turn.failures)
        yield Step("model call", name, zero + turn.started, zero + turn.ended, turn.seat, link, problem)
        for call in shown.calls if clock is not None else ():  # in a world, its events say when it was carried out
            end = max(turn.ended, done.get(call.id, turn.ended))
            yield Step("tool call", call.name, zero + turn.ended, zero + end, turn.seat, link, call.problem)
        for event in shown.events:
            if event.kind == "work" and (how := _ENDED.get(event.data.get("state", ""))) is not None:
                start = event.time - event.data.get("spent", 0.0)
                if event.name != "think" or how:
                    yield Step("tool call", f"{event.name}{how}", start, event.time, turn.seat, link)
    for event in [event for shown in view.turns for event in shown.failed] + view.failed:
        at, problem = event.data["at"], str(event.data["error"])
        end = at + event.data.get("seconds", 0.0)
        yield Step("model call", "request that failed", at, end, "", f"#failed-{event.time}", problem)


def _tree_of(spans: Sequence[Mapping[str, Any]], own: Sequence[Step]) -> list[Step]:
    """The spans below one another, of the traces during which something of the record happened."""
    first, last = min((one.start for one in own), default=0.0), max((one.end for one in own), default=0.0)
    traces = {one["trace"] for one in spans if one["start"] <= last + _SLACK and one["end"] >= first - _SLACK}
    steps = dict[str, tuple[str, Step]]()
    for one in spans[:_MOST]:  # one that was sent twice is there once
        if one["trace"] in traces:
            told = [str(one["attributes"][name]) for name in _TOLD if name in one["attributes"]]
            told = told if one["parent"] or not one["service"] else [one["service"], *told]
            step = Step("span", one["name"], one["start"], one["end"], ", ".join(told), "", one["error"], holds=True)
            steps[f"{one['trace']}/{one['span']}"] = f"{one['trace']}/{one['parent']}", step
    top = list[Step]()
    for parent, step in steps.values():
        (steps[parent][1].parts if parent in steps else top).append(step)
    return top


def _flat(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps in the order of the tree. Spans may be nested deeper than Python's calls."""
    waiting = [(0, step) for step in sorted(steps, key=lambda one: one.start)][::-1]
    while waiting:
        step_depth, step = waiting.pop()
        step.depth = step_depth
        yield step
        waiting += [(step_depth + 1, part) for part in sorted(step.parts, key=lambda one: one.start)][::-1]
