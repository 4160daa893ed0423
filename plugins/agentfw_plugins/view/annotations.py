"""What people think of recorded episodes: stars, tags, notes, ratings and corrections, in a journal beside the record.

`annotations.jsonl` is in the folder of each run, and so is `findings.jsonl`, with what scans have found. A line is
about an episode, about one of its turns, or about the whole run, and the newest line of a kind holds.

    annotate(run, Target("", "00003-0", 2, "ada"), "rating", "4")
    read_annotations(run)[("", "00003-0", 2)].rating        # 4
    with_annotations(episode, run)                          # the episode with the ratings as events
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from agentfw import Episode
from agentfw.episode import Event
from agentfw.errors import UsageError
from agentfw.runs import Journal, read_journal

FILE, FINDINGS = "annotations.jsonl", "findings.jsonl"
KINDS = ("star", "tag", "untag", "note", "rating", "correction")
RATINGS = range(1, 6)
_LONGEST = 100_000  # characters of a note or a correction


class Target(NamedTuple):
    """What something is said about. Without an episode, it is the run, and without a turn, the whole episode."""

    place: str  # the folder of its evaluation or its rollouts, below that of the run
    episode: str
    turn: int | None
    user: str  # whose episode it is. What is said of it is forgotten with them


@dataclass
class Marks:
    """What is said of one thing."""

    star: bool = False
    tags: list[str] = field(default_factory=list)
    note: str = ""
    rating: int | None = None  # from 1, bad, to 5, good
    correction: str = ""
    findings: dict[str, str] = field(default_factory=dict)
    """What scans have found in it, by the name of the scan."""
    at: float = 0.0  # when it was last rated, corrected or noted, in seconds since 1970

    def has(self, what: str) -> bool:
        """Whether it has a `star`, a `note`, a `rating`, the tag of this name, or a finding of this scan."""
        found = {"star": self.star, "note": bool(self.note), "rating": self.is_rated}
        return found.get(what, what in self.tags or what in self.findings)

    @property
    def is_rated(self) -> bool:
        return self.rating is not None or bool(self.correction)


Annotations = Mapping[tuple[str, str, int | None], Marks]  # what is said in a run, by place, episode and turn


def annotate(run: Path, target: Target, kind: str, value: str) -> None:
    """Say something. It is on disk when this returns."""
    value = value.strip()
    if kind not in KINDS:
        raise UsageError(f"nothing is annotated with a {kind}", fix="use a star, tag, note, rating or correction")
    if kind == "rating" and value and value not in map(str, RATINGS):
        raise UsageError(f"{value} is no rating", fix="rate from 1, bad, to 5, good")
    if kind in ("tag", "untag") and not (value and len(value) <= 60):
        raise UsageError("a tag has 1 to 60 characters", fix="use a shorter one, or write a note")
    if len(value) > _LONGEST:
        raise UsageError(f"a text of {len(value):,} characters is too long", fix=f"use at most {_LONGEST:,}")
    with Journal.open(run / FILE) as journal:
        journal.append({**target._asdict(), "at": round(time.time(), 3), "kind": kind, "value": value})


def read_annotations(run: Path, until: float = math.inf) -> Annotations:
    """Everything that was said in a run until then, in seconds since 1970."""
    changed = tuple(changed_at(run / name) for name in (FILE, FINDINGS))
    return _read(run, changed, until) if any(map(any, changed)) else {}


def changed_at(path: Path) -> tuple[int, int]:
    """When a file was last written, and its size."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=256)
def _read(run: Path, changed: tuple[tuple[int, int], ...], until: float) -> Annotations:
    found: dict[tuple[str, str, int | None], Marks] = {}
    for line in (one for one in read_journal(run / FILE) if one["at"] <= until):
        marks = found.setdefault((line["place"], line["episode"], line["turn"]), Marks())
        kind, value = str(line["kind"]), str(line["value"])
        if kind == "star":
            marks.star = bool(value)
        elif kind in ("tag", "untag"):
            marks.tags = [*(tag for tag in marks.tags if tag != value), *[value] * (kind == "tag")]
        else:
            marks.at = float(line["at"])
            setattr(marks, kind, value if kind != "rating" else int(value) if value else None)
    for line in read_journal(run / FINDINGS):
        findings = found.setdefault((line["place"], line["episode"], line["turn"]), Marks()).findings
        findings.pop(line["scan"], None)
        if line["value"]:
            findings[line["scan"]] = line["value"]
    return found


def with_annotations(episode: Episode, run: Path, until: float = math.inf) -> Episode:
    """An episode of the run itself with its ratings, corrections and notes as feedback, behind what was recorded."""
    every, events = read_annotations(run, until).items(), list(episode.events)
    said = [(turn, marks) for (place, name, turn), marks in every if (place, name) == ("", episode.id)]
    for turn, marks in sorted(said, key=lambda one: one[1].at):
        if marks.is_rated or marks.note:
            value = (marks.rating - 3) / 2 if marks.rating is not None else -1.0 if marks.correction else None
            about = {"value": value, "turn": turn, "correction": marks.correction}
            about |= {"text": marks.note or marks.correction, "at": marks.at}
            events.append(Event(episode.ended, "observation", "feedback", about))
    return replace(episode, events=events) if len(events) > len(episode.events) else episode


def marked_in(root: Path, runs: Mapping[str, int], places: Mapping[str, int]) -> Callable[[int, str, str], bool]:
    """Tells whether an episode, of the place with this number, has a mark: on itself or on one of its turns. `runs` and
    `places` are the numbers of the folders below `root`."""
    found: dict[tuple[int, str], list[Marks]] = {}
    for folder in runs:
        for (place, episode, _), marks in read_annotations(root / folder).items():
            number = places.get("/".join(filter(None, (folder, place))))
            if number is not None and episode:
                found.setdefault((number, episode), []).append(marks)
    return lambda place, episode, what: any(marks.has(what) for marks in found.get((place, episode), ()))
