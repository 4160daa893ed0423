"""What the page of an episode shows: the episode itself, turn by turn, with what was known and what came of it."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NamedTuple

from agentfw import Episode, Turn
from agentfw.episode import Call, Event, Measure, Message
from agentfw.errors import AgentfwError
from agentfw.runs import RunFolder, decisions
from agentfw.turns.session import extended

from ..rewards.measured import is_feedback
from .annotations import Annotations, Marks, read_annotations
from .index import Index
from .index_rows import content_of, is_failed_call, read_line, record_of
from .search import Row

_BETWEEN = ("seen", "memory", "hook")  # kinds of events that are shown in a place of their own


class Argument(NamedTuple):
    """An argument of a call. It is doubtful if the refusal names it or its value."""

    name: str
    value: str
    is_doubtful: bool


class ShownCall(NamedTuple):
    """A call with what came of it."""

    name: str
    arguments: list[Argument]
    problem: str  # why it was refused, or how it failed
    answer: str | None
    id: str

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{one.name}={one.value}' for one in self.arguments)})"


class ShownScore(NamedTuple):
    """A score, as a line of the metrics has it."""

    component: str
    track: str
    value: float
    round: int | None
    turn: int | None
    weight: float


@dataclass
class ShownTurn:
    """One answer of the policy."""

    turn: Turn
    new: list[tuple[int, Message]]  # the messages that no turn before it was shown, with their places
    said: str
    calls: list[ShownCall]
    events: list[Event] = field(default_factory=list)  # what happened from its beginning to that of the next
    recalled: list[Mapping[str, Any]] = field(default_factory=list)
    feedback: list[Mapping[str, Any]] = field(default_factory=list)
    """What somebody thinks of the answer, one after the other."""
    measures: list[Measure] = field(default_factory=list)
    scores: list[ShownScore] = field(default_factory=list)
    advantage: float | None = None
    failed: list[Event] = field(default_factory=list)  # the requests before it that weren't answered

    @property
    def read(self) -> list[Message]:
        """What was new to the policy, without its own answers."""
        return [message for _, message in self.new if message.role != "assistant"]

    @property
    def is_failed(self) -> bool:
        return bool(self.turn.failures) or any(call.problem for call in self.calls)

    @property
    def probability(self) -> float | None:
        """Mean logprob of the tokens."""
        return math.fsum(self.turn.logprobs) / len(self.turn.logprobs) if self.turn.logprobs else None


@dataclass(eq=False)
class EpisodeView:
    """An episode with its scores. What can't be read is said in `problem`, and its line is shown as it is."""

    row: Row
    episode: Episode | None
    raw: str
    metrics: Mapping[str, Any]
    problem: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)  # what is recorded of its run
    advantages: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    streams: Sequence[Mapping[str, Any]] = ()  # answers in progress: what was streamed of each so far
    said: Annotations = field(default_factory=dict)
    place: str = ""
    failed: list[Event] = field(default_factory=list)  # the requests after the last turn that weren't answered
    unanswered: list[tuple[int, Message]] = field(default_factory=list)
    """What was said in them, with its places."""

    @classmethod
    def read(cls, index: Index, row: Row, rows: sqlite3.Connection) -> EpisodeView:
        place = index.root / row["folder"]
        run, below = index.run_of(row)
        raw = metrics = b""
        [about] = rows.execute("SELECT about FROM runs WHERE id = ?", (row["run"],)).fetchone()
        try:
            if row["metrics_at"] is not None:
                metrics = read_line(place / "metrics.jsonl", row["metrics_at"], row["metrics_size"])
            raw = index.lines(rows, row["id"])
            problem, episode = "", read_episode(raw)
        except (OSError, ValueError, RecursionError, AgentfwError) as error:
            problem, episode = str(getattr(error, "message", error)), None
        streams = list[dict[str, Any]]()
        for file in sorted((place / "streams").glob(f"{row['episode']}-*")):
            head, _, text = content_of(file).partition(b"\n")
            if stream := record_of(head):
                streams.append({"started": stream.get("started", 0), "text": text.decode("utf-8", "replace")})
        return cls(
            row,
            episode,
            raw.decode("utf-8", "replace"),
            record_of(metrics) or {},
            problem=problem if raw else "",
            about=json.loads(about),
            advantages=record_of(content_of(place / "advantages.json")) or {},
            streams=streams,
            said=read_annotations(run),
            place=below,
        )

    def marks(self, turn: int | None = None) -> Marks:
        """What people think of it, or of one of its turns."""
        return self.said.get((self.place, str(self.row["episode"]), turn), Marks())

    @cached_property
    def scores(self) -> list[ShownScore]:
        return [ShownScore(*score) for score in self.metrics.get("scores", ())]

    @cached_property
    def parts(self) -> list[dict[str, Any]]:
        """The reward by component: what was measured on average, and what it adds."""
        found = defaultdict[tuple[str, str], list[ShownScore]](list)
        for score in self.scores:
            found[score[:2]].append(score)
        return [
            {
                "component": component,
                "track": track,
                "count": len(some),
                "value": math.fsum(score.value for score in some) / len(some),
                "weights": sorted({score.weight for score in some}),
                "adds": math.fsum(score.weight * score.value for score in some),
            }
            for (component, track), some in found.items()
        ]

    @cached_property
    def outcome(self) -> dict[str, float]:
        """The figures by the names that the environment gives them."""
        found = self.metrics.get("outcome") or (self.episode.outcome if self.episode else {})
        return {self.names.get(name, name): value for name, value in found.items()}

    @cached_property
    def names(self) -> dict[str, str]:
        """The figures that the environment lists, with their names. Empty if it lists none."""
        folder = RunFolder(Path(), self.about)
        return {folder.headline: folder.headline, **folder.names} if folder.names else {}

    @property
    def has_more_figures(self) -> bool:
        return not all(map(self.lists, self.outcome))

    def lists(self, figure: str) -> bool:
        """Whether a figure is among those that the environment lists. Without a list, all are."""
        return not self.names or figure in self.names or figure in self.names.values()

    def advantage(self, episode: str) -> float | None:
        """The mean advantage of the turns of a sample that was learned from."""
        values = [value for _, value in self.advantages.get(episode, ())]
        return math.fsum(values) / len(values) if values else None

    @property
    def cut_off(self) -> list[Mapping[str, Any]]:
        """Answers that were cut off, with how far they had come."""
        return [event.data for event in self.episode.events if event.name == "cut_off"] if self.episode else []

    @property
    def feedback(self) -> list[Mapping[str, Any]]:
        """What somebody thinks of the whole session."""
        events = self.episode.events if self.episode else []
        return [event.data for event in events if is_feedback(event) and event.data.get("turn") is None]

    def decisions(self, turn: Turn) -> list[str]:
        """What hooks decided about a turn and its calls."""
        return decisions(self.episode, turn) if self.episode else []

    @property
    def answered(self) -> set[str]:
        """Ids of the calls that are shown with their answers, which aren't shown again."""
        return {call.id for shown in self.turns for call in shown.calls if call.id and (call.answer or call.problem)}

    @cached_property
    def turns(self) -> list[ShownTurn]:
        episode = self.episode
        if episode is None:
            return []
        problems = _problems(episode)
        advantages = {int(turn): value for turn, value in self.advantages.get(episode.id, ())}
        failed = [event for event in episode.events if (event.kind, event.name) == ("session", "failed")]
        told, found = set[int](), list[ShownTurn]()
        for turn in episode.turns:
            new = [(place, episode.messages[place]) for place in turn.shown if place not in told]
            told.update(turn.shown)
            behind = reversed(episode.messages[max(turn.shown, default=-1) + 1 :])  # a later call may have the same id
            answers = {one.answers: one.content for one in behind if one.answers}
            calls = [_call(call, problems.get(call.id, ""), answers.get(call.id)) for call in turn.calls]
            said = turn.text if turn.said is None else turn.said
            earlier = [event for event in failed if event.time <= turn.started]
            failed = failed[len(earlier) :]
            found.append(ShownTurn(turn, new, said, calls, advantage=advantages.get(turn.index), failed=earlier))
        self.failed = failed
        if failed:
            some = enumerate(episode.messages)
            self.unanswered = [(at, one) for at, one in some if at not in told and one.role in ("system", "user")]
        for event in filter(is_feedback, episode.events):
            rated = event.data.get("turn")
            if isinstance(rated, int) and 0 <= rated < len(found):
                found[rated].feedback.append(event.data)
        heard = {call.id for shown in found for call in shown.calls if call.id and call.answer}  # shown with the call
        for event, shown in zip(episode.events, _owners(episode, found), strict=True):
            is_told = event.kind == "observation" and str(event.data.get("call", "")) in heard
            if shown is not None and (event.kind, event.name) == ("memory", "recalled"):
                shown.recalled.append(event.data)
            elif shown is not None and event.kind not in _BETWEEN and not is_told:
                shown.events.append(event)
        self._by_round(episode, found)
        return found

    def _by_round(self, episode: Episode, found: Sequence[ShownTurn]) -> None:
        """Put what was measured of a round to the last turn of it."""
        last = {shown.turn.round: shown for shown in found if shown.turn.round}
        for measure in episode.measures:
            if measure.round in last:
                last[measure.round].measures.append(measure)
        for score in self.scores:
            if score.turn is not None and score.turn < len(found):
                found[score.turn].scores.append(score)
            elif score.round in last:
                last[score.round].scores.append(score)


def read_episode(raw: bytes) -> Episode:
    """An episode of one line, or of several of which each has what is new. The first may be `whole`."""
    records = [json.loads(line) for line in raw.splitlines()]
    for one in records:
        if isinstance(one, dict):
            one.pop("whole", None)
    parts = [*map(Episode.from_record, records)]
    if not parts:
        raise ValueError("there is no record of it")
    return reduce(extended, parts)


def _problems(episode: Episode) -> dict[str, str]:
    """Why each call was refused or failed, by the id of the call."""
    found: dict[str, str] = {}
    for event in episode.events:
        if event.kind == "refused":
            found[str(event.data.get("id"))] = str(event.data.get("reason") or event.data.get("text") or "refused")
        elif is_failed_call(event.kind, event.data):
            found[str(event.data.get("call"))] = str(event.data.get("text") or "failed")
    return found


def _call(call: Call, problem: str, answer: str | None) -> ShownCall:
    arguments = []
    for name, value in call.arguments.items():
        text = json.dumps(value, ensure_ascii=False, default=str)
        inner = str(value)
        # Short values such as 1 are in many sentences, so they are looked for as words.
        words = re.findall(r"[\w.-]*\w", problem)
        doubtful = bool(problem) and (name in words or inner in words or (len(inner) > 3 and inner in problem))
        arguments.append(Argument(name, text, doubtful))
    # What the policy was told of a problem mostly repeats it.
    told = None if problem and answer is not None and problem in answer and len(answer) < 2 * len(problem) else answer
    return ShownCall(call.name, arguments, problem, told, call.id)


def _owners(episode: Episode, turns: Sequence[ShownTurn]) -> Iterator[ShownTurn | None]:
    """The turn in which each event happened. What is recalled belongs to the next one, as does all before the first."""
    if any(event.kind == "seen" for event in episode.events):  # every turn begins with what its agent has seen
        current, waiting = turns[0] if turns else None, defaultdict[str, deque[ShownTurn]](deque)
        for shown in turns:
            waiting[shown.turn.seat].append(shown)
        for event in episode.events:
            if event.kind == "seen" and waiting[event.seat]:
                current = waiting[event.seat].popleft()
            yield current
        return
    at = 0
    for event in episode.events:
        while at + 1 < len(turns) and turns[at + 1].turn.started <= event.time:
            at += 1
        is_over = bool(turns) and turns[at].turn.ended < event.time
        if is_over and (event.kind, event.name) == ("memory", "recalled"):
            yield turns[at + 1] if at + 1 < len(turns) else None
        else:
            yield turns[at] if turns else None
