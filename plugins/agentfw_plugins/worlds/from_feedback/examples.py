"""Reads what there is to learn from in recorded runs: answers with good or bad feedback, and corrections.

for example in read_examples([Path("runs/2026-11-22-sessions-7f3a19c4")], good=0.5):
    print(example.messages[-1].content, "->", example.text, example.value)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from agentfw import Episode, Message, Turn
from agentfw.errors import UsageError
from agentfw.printing.out import counted
from agentfw.request import Action
from agentfw.runs import RunFolder, read_sessions

from ...rewards.feedback import feedback_of

__all__ = ["Example", "read_examples", "split_of"]

_SHARES = ("train",) * 8 + ("validation", "test")
LEAST = len(set(_SHARES))
"""Minimum number of conversations with a wanted answer, so that each split has one."""


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation, and an answer to it that was rated."""

    messages: tuple[Message, ...]
    actions: tuple[Action, ...]
    text: str
    user: str
    value: float
    """What the user thinks of the answer, from -1 to 1. 1 for a correction."""
    corrected: bool = False
    """Whether the text is the user's own."""
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    """Where the answer was to end."""

    @property
    def wanted(self) -> bool:
        return self.value > 0


def read_examples(runs: Sequence[Path], good: float) -> list[Example]:
    """The examples of some runs, in an order that depends on what is in them and not on the order of the runs.

    `good` is the minimum feedback of a good answer. A bad one has at most minus that.
    """
    found = {_mark(example): example for run in runs for example in _of_run(run, good)}
    begun = {_begin(example) for example in found.values() if example.wanted}
    if len(begun) < LEAST:
        bad = sum(not example.wanted for example in found.values())
        raise UsageError(
            f"answers with good feedback or a correction are in {counted(len(begun), 'conversation')}, and {LEAST} are "
            f"needed, so that a version can be tested on some that are held out; {counted(bad, 'answer')} with bad "
            "feedback alone say what to avoid, not what to reach",
            fix="rate more answers: agentfw feedback SESSION good --turn N, or --correction TEXT",
        )
    return [found[mark] for mark in sorted(found)]


def split_of(examples: Sequence[Example], split: str) -> list[Example]:
    """The examples of a split: eight of ten conversations are for training. All that begin alike are in one split.

    Of fewer than ten, one is for validation and one for the test. Conversations that have bad answers only are for
    training, so that every split has wanted ones.
    """
    begun = sorted({_begin(example) for example in examples if example.wanted})
    order = {begin: number for number, begin in enumerate(begun)}
    shares = _SHARES[-len(begun) :]
    return [example for example in examples if shares[order.get(_begin(example), 0) % len(shares)] == split]


def _begin(example: Example) -> bytes:
    """A digest of the first message of the user."""
    first = next((one.content for one in example.messages if one.role == "user"), "")
    return blake2b(first.encode(errors="replace"), digest_size=16).digest()


def _of_run(run: Path, good: float) -> Iterator[Example]:
    folder = RunFolder.open(run)
    ended = {episode.id: episode for episode in folder.episodes()}
    going_on = {episode.id: episode for episode in read_sessions(run)}
    for episode in {**going_on, **ended}.values():
        yield from _of_episode(episode, good)


def _of_episode(episode: Episode, good: float) -> Iterator[Example]:
    newest: dict[int | None, tuple[float, str]] = {}
    for about, value, correction in feedback_of(episode):
        newest[about] = value, correction
    about_all = newest.pop(None, None)
    for turn in episode.turns:
        rated = newest.get(turn.index)
        last = turn is episode.turns[-1]
        if rated is None and about_all is not None:
            # What is said of a whole session can be a correction of its last answer only.
            rated = about_all[0], about_all[1] if last else ""
        if rated is None:
            continue
        value, correction = rated
        if correction:
            yield _example(episode, turn, correction, 1.0, corrected=True)
        whole = turn.finish == "stop" and turn.text and not turn.failures
        if whole and (value <= -good or (value >= good and not correction)):
            yield _example(episode, turn, turn.text, value)


def _example(episode: Episode, turn: Turn, text: str, value: float, *, corrected: bool = False) -> Example:
    shown = tuple(episode.messages[place] for place in turn.shown)
    actions = tuple(Action(**action) for action in episode.actions.get(turn.seat, ()))
    return Example(shown, actions, text, episode.task.user, value, corrected, turn.stop, turn.max_tokens)


def _mark(example: Example) -> bytes:
    said = "\0".join(
        [example.user, *(f"{one.role} {one.content}" for one in example.messages), example.text, str(example.value)]
    )
    return blake2b(said.encode(errors="replace"), digest_size=16).digest()
