"""The environment `from_feedback` and the reward `feedback_preference`: training on recorded feedback.

    agentfw train --from RUN --model path/to/model

An episode is one conversation, up to an answer that was rated. A teacher gives that answer again, or the correction,
and gets the feedback that it got. A policy gives an answer of its own, and is measured on conversations that were held
out: how much its answer agrees with the wanted one, from 0 to 1.

The reward is `preference`, with a model that is fitted when the training begins, on the conversations for training
alone, so that the reward of a held-out one says something new.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from agentfw import Episode, Message, RewardModel, Score, Session, Settings, Task, Turn
from agentfw.errors import UsageError
from agentfw.printing.out import counted
from agentfw.report.statistics import LEAST_PAIRS
from agentfw.request import Action, Sampling
from agentfw.runs import RunFolder, read_sessions
from agentfw.turns.session import SessionEnvironment

from ..rewards import translated_errors
from ..rewards.measured import Metric, Words, feedback_of, is_feedback, turn_of, words_of
from ..task_files import SHARES, tasks_of
from ..view.annotations import with_annotations

if TYPE_CHECKING:
    from ..rewards.preference import Preference

LEAST = len(set(SHARES))  # minimum number of conversations with a wanted answer, so that each split has one

Kind = Literal["rated", "pair", "hint"]
_KINDS: dict[str, Kind] = {"pairs": "pair", "hints": "hint"}
"""What is read for the setting `answers`, besides rated answers."""
_NO_WORDS = Words()


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation, and an answer to it that was rated."""

    messages: tuple[Message, ...]
    actions: tuple[Action, ...]
    text: str
    user: str
    value: float  # what the user thinks of the answer, from -1 to 1. 1 for a correction
    at: float = 0.0  # when they said so, in seconds since 1970
    corrected: bool = False  # whether the text is the user's own
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None  # where the answer was to end
    kind: Kind = "rated"
    worse: str = ""  # of a pair, the other answer to the same request
    words: Words = _NO_WORDS  # of a hint, what was said of the answer
    earlier: int = 0  # of a hint, how many earlier ones on the same answer don't count any more

    @property
    def wanted(self) -> bool:
        return self.value > 0 and self.kind != "hint"


_NEEDED: dict[Kind, tuple[str, str]] = {
    "rated": ("answers with good feedback or a correction", "good --turn N, or --correction TEXT"),
    "pair": ("good and bad answers to the same request of one user, or corrected ones,", "--turn N --correction TEXT"),
    "hint": ("answers of which something was said in words, other than praise,", "bad --turn N --words TEXT"),
}
"""What is read of each kind, and what to tell `agentfw feedback SESSION` for more of it."""


def read_examples(
    runs: Sequence[Path], good: float, metric: str = "", kind: Kind = "rated", until: float = math.inf
) -> list[Example]:
    """The rated answers of some runs, and those of the other `kind`, ordered by what is in them, not by run.

    A good one has at least the feedback `good` about the `metric`, and a bad one at most minus that. What was said
    after `until` doesn't count.
    """
    looked, cut_off = Metric.read(metric), list[Turn]()
    every = list[Example]()
    for run in runs:
        ended = {episode.id: episode for episode in RunFolder.open(run).episodes()}
        going_on = {episode.id: episode for episode in read_sessions(run)}
        for recorded in {**going_on, **ended}.values():
            said = [event for event in recorded.events if float(event.data.get("at", 0.0)) <= until]
            episode = with_annotations(replace(recorded, events=said), run, until)
            every += _of_episode(episode, good, looked, cut_off)
    rated = [example for example in every if example.kind == "rated"]
    # The best answer to a request of a user, beside each bad one.
    requests = defaultdict[tuple[object, ...], list[Example]](list)
    for example in rated:
        requests[example.user, tuple((one.role, one.content) for one in example.messages)].append(example)
    for some in requests.values():
        best = max(some, key=lambda one: (one.value, one.text))
        worse = [one.text for one in some if best.wanted and not one.wanted and one.text != best.text]
        every += [replace(best, kind="pair", worse=text) for text in worse]
    every.sort(key=lambda example: example.at)  # of the same said twice, the later one stays
    found = {_mark(example): example for example in every if example.kind in ("rated", kind)}
    own = [example for example in found.values() if example.kind == kind]
    begun = {_begin(example) for example in own if example.wanted or kind == "hint"}
    if len(begun) < LEAST:
        bad, (needed, more) = sum(not example.wanted for example in rated), _NEEDED[kind]
        cut = f"; cut off at the limit of tokens: {counted(len(cut_off), 'rated answer')}" if cut_off else ""
        thumbs = "" if kind == "rated" else "; or learn from thumbs: --optimizer kto"
        raise UsageError(
            f"{needed} are in {counted(len(begun), 'conversation')}, and {LEAST} are "
            f"needed, so that a version can be tested on some that are held out; {counted(bad, 'answer')} with bad "
            f"feedback alone say what to avoid, not what to reach{cut}",
            fix=f"rate more answers: agentfw feedback SESSION {more}{thumbs}",
        )
    return [found[mark] for mark in sorted(found)]


def split_of(examples: Sequence[Example], split: str) -> list[Example]:
    """The examples of a split: eight of ten conversations are for training. All that begin alike are in one split.

    Of fewer than ten, one is for validation and one for the test. Conversations that have bad answers only are for
    training, so that every split has wanted ones, or hints.
    """
    begun = sorted({_begin(example) for example in examples if example.wanted or example.kind == "hint"})
    order = {begin: number for number, begin in enumerate(begun)}
    shares = SHARES[-len(begun) :]
    return [example for example in examples if shares[order.get(_begin(example), 0) % len(shares)] == split]


def _begin(example: Example) -> bytes:
    """A digest of the first message of the user."""
    first = next((one.content for one in example.messages if one.role == "user"), "")
    return blake2b(first.encode(errors="replace"), digest_size=16).digest()


def _of_episode(episode: Episode, good: float, metric: Metric, cut_off: list[Turn]) -> Iterator[Example]:
    newest = {about: (value, correction, at) for about, value, correction, at in feedback_of(episode, metric)}
    about_all, words = newest.pop(None, None), _words(episode, good, metric)
    for turn in episode.turns:
        rated = newest.get(turn.index)
        last = turn is episode.turns[-1]
        whole = turn.finish == "stop" and turn.text and not turn.failures
        said = words.get(turn.index) or (words.get(None) if last else None)
        if whole and said and any(said[-1]):
            given = _example(episode, turn, turn.text, rated[0] if rated else 0.0)
            yield replace(given, kind="hint", words=said[-1], earlier=len(said) - 1)
        if rated is None and about_all is not None:
            # What is said of a whole session can be a correction of its last answer only.
            rated = about_all[0], about_all[1] if last else "", about_all[2]
        if rated is None:
            continue
        value, correction, at = rated
        if correction:
            yield (wanted := replace(_example(episode, turn, correction, 1.0, at), corrected=True))
            if whole and turn.text != correction:
                yield replace(wanted, kind="pair", worse=turn.text)
        if turn.finish == "length" and not correction:
            cut_off.append(turn)
        if whole and (value <= -good or (value >= good and not correction)):
            yield _example(episode, turn, turn.text, value, at)


def _words(episode: Episode, good: float, metric: Metric) -> dict[int | None, list[Words]]:
    """What was said of each answer (None: of all), in its order. Praise is empty: it asks for nothing else."""
    found = defaultdict[int | None, list[Words]](list)
    for event in episode.events:
        words = words_of(event)
        if any(words) and (event.data.get("metric") or "") == metric.name:
            is_praise = is_feedback(event) and metric.liking(event.data["value"]) >= good and not words.correction
            found[turn_of(event, episode)].append(_NO_WORDS if is_praise else words)
    return found


def _example(episode: Episode, turn: Turn, text: str, value: float, at: float = 0.0) -> Example:
    shown = tuple(episode.messages[place] for place in turn.shown)
    actions = tuple(Action(**action) for action in episode.actions.get(turn.seat, ()))
    return Example(shown, actions, text, episode.task.user, value, at, False, turn.stop, turn.max_tokens)


def _mark(example: Example) -> bytes:
    messages = (f"{one.role} {one.content}" for one in example.messages)
    parts = example.user, *messages, example.text, str(example.value), example.kind, example.worse, *example.words
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=16).digest()


_LONGEST = 10_000  # characters that are compared


class RecordedSettings(Settings):
    """Which feedback of which runs counts."""

    runs: tuple[str, ...] = Field(min_length=1, description="Directories of the runs to learn from.")
    good: float = Field(
        0.5, gt=0, le=1, description="Minimum feedback of a good answer. A bad one has at most minus that."
    )
    metric: str = Field(
        "", description="Metric of the feedback, or a bound of it, such as `stars>=4`. Default: feedback without one."
    )
    until: float | None = Field(
        None,
        description="Time in seconds since 1970 from which on feedback doesn't count. `agentfw train --from` sets it "
        "to when it begins, so that a training which is resumed while a gateway goes on finds the same tasks.",
    )

    def read(self, kind: Kind = "rated") -> list[Example]:
        until = math.inf if self.until is None else self.until
        return read_examples([Path(run) for run in self.runs], self.good, self.metric, kind, until)


class FromFeedbackSettings(RecordedSettings):
    answers: Literal["wanted", "rated", "pairs", "hints"] = Field(
        "wanted",
        description="Answers to train on: `wanted`, good ones and corrections; `rated`, bad ones as well, for "
        "optimizers that learn from both; `pairs`, a good or corrected one beside a bad one, for dpo with samples=2; "
        "`hints`, those of which something was said in words, for hint.",
    )

    @property
    def kind(self) -> Kind:
        return _KINDS.get(self.answers, "rated")


class FromFeedback(SessionEnvironment):
    """Answer as the users wanted it."""

    headline = "agreement"

    def __init__(self, settings: FromFeedbackSettings) -> None:
        self.settings = settings

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        rows = [{"user": example.user or "user"} for example in self._examples(split)]
        return tasks_of(rows, count, seed, split)

    def describe(self, tasks: Sequence[Task]) -> str:
        known, kind = _examples_of(self.settings), self.settings.kind
        own = [example for example in known if example.kind == kind != "rated"]
        rated = [example for example in known if example.kind == "rated"]
        wanted, earlier = sum(example.wanted for example in rated), sum(example.earlier for example in own)
        held_out = len({task.index for task in tasks})
        few = f", too few to tell a change from chance ({LEAST_PAIRS} are the least)" if held_out < LEAST_PAIRS else ""
        parts = [counted(len(own), kind)] if own else []
        parts += [f"{earlier} earlier ones on the same answers don't count"] if earlier else []
        parts.append(f"{counted(len(rated), 'rated answer')}: {wanted} good or corrected, {len(rated) - wanted} bad")
        return "   ".join([*parts, f"{held_out} held out{few}"])

    async def play(self, session: Session) -> None:
        task = session.episode.task
        example = self._examples(task.split)[task.index]
        is_worse = example.kind == "pair" and task.sample % 2 == 1
        text, value = (example.worse, -1.0) if is_worse else (example.text, example.value)
        reply = await session.answer(
            example.messages,
            example.actions,
            Sampling(max_tokens=example.max_tokens),
            stop=example.stop,
            demonstration=lambda moment: [text],
        )
        same = reply.turn.text == example.text
        if reply.turn.text == text:
            session.feedback(value, words=example.words.comment, correction=example.words.correction)
        if not example.wanted:
            session.end("finished")
            return
        agreement = SequenceMatcher(None, reply.turn.text[:_LONGEST], example.text[:_LONGEST], autojunk=False).ratio()
        session.episode.utility = agreement
        session.end("finished", agreement=agreement, same=float(same))

    def _examples(self, split: str) -> list[Example]:
        found, kind = split_of(_examples_of(self.settings), split), self.settings.kind
        own = [example for example in found if example.kind == kind]
        wanted = [example for example in found if example.wanted and example.kind == "rated"]
        if split == "train":
            return wanted if self.settings.answers == "wanted" else own
        # What is held out has a wanted answer to compare with, if there is any.
        return wanted or own


@lru_cache(maxsize=4)
def _examples_of(settings: FromFeedbackSettings) -> list[Example]:
    return settings.read(settings.kind)


class FeedbackPreferenceSettings(RecordedSettings):
    dimensions: int = Field(32, ge=1, description="Size of the fitted vectors.")
    epochs: int = Field(100, ge=1, description="Maximum number of epochs of the fit.")


class FeedbackPreference(RewardModel):
    """Scores what an agent says by what its user liked so far."""

    def __init__(self, settings: FeedbackPreferenceSettings) -> None:
        self.settings = settings
        self._preference: Preference | None = None

    def open(self, folder: Path) -> None:
        from ..rewards.preference import Preference, PreferenceSettings

        home = folder / "feedback_preference"
        if not (home / "model.json").exists():  # which is written last
            from agentfw_rewardmodels import PreferenceModel
            from agentfw_rewardmodels import PreferenceSettings as FitSettings

            examples = split_of(self.settings.read(), "train")
            # Answers with the same text are one item.
            items = [blake2b(one.text.encode(errors="replace"), digest_size=12).hexdigest() for one in examples]
            texts = {item: one.text for item, one in zip(items, examples, strict=True)}
            said = [
                {"user": one.user or "user", "item": item, "value": one.value, "time": one.at}
                for item, one in zip(items, examples, strict=True)
            ]
            fit = FitSettings(dimensions=self.settings.dimensions, epochs=self.settings.epochs)
            with translated_errors():
                model = PreferenceModel.fit(said, items=texts, settings=fit)
            model.without_texts().save(home)  # who is forgotten was given some of the answers
        self._preference = Preference(PreferenceSettings(model=str(home), text="said"))

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        assert self._preference is not None, "open() comes first"
        return await self._preference.score(group)

    async def forget(self, user: str) -> bool:
        return self._preference is not None and await self._preference.forget(user)
