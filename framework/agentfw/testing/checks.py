"""What a check is, and how one is run so that no component can raise through it or hang it.

The first sentence of a check's docstring is the promise, in the words of somebody who uses the component. It ends
quietly (kept), with `BrokenPromise` (broken, and how) or with `DoesNotApply` (nothing to be seen here).

    async def recall_is_bounded(subject: Subject[Memory]) -> None:
        '''It never brings up more than it was asked for.'''
        memory = subject.make()
        if len(await memory.recall(Query("tea", Task(0, 0), limit=1))) > 1:
            raise BrokenPromise("asked for 1, it gave more")
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import inspect
import json
import math
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..boundary.guard import as_coroutine
from ..episode import Call, Episode, Event, Measure, Message, Task, Turn
from ..errors import AgentfwError, in_words, one_line
from ..learner import Learner
from ..optimizer import Optimizer
from ..policy import Policy
from ..scores import RewardModel
from ..seeds import Seeds
from ..tool import Toolbox

Made = TypeVar("Made")
Closed = TypeVar("Closed", Policy, RewardModel, Toolbox)


class BrokenPromise(AssertionError):
    """The component breaks the contract of its kind. The text says how."""


class OutOfTime(BrokenPromise):
    """It didn't end within the time limit."""


class DoesNotApply(Exception):
    """The check doesn't apply to this component. The text says why."""


@dataclass(frozen=True)
class Subject(Generic[Made]):
    """The input of a check."""

    make: Callable[[], Made]
    """A fresh component, each time."""
    recorded: Sequence[Episode]
    """Two groups of two episodes for one user; a plugin's own test may give better ones."""
    folder: Path
    """An empty folder that is gone after the check."""
    examples: Sequence[Mapping[str, Any]] = ()
    """Arguments of calls of a tool that succeed and do no harm."""

    @cached_property
    def episodes(self) -> Sequence[Episode]:
        """Episodes to learn from and to score. What a component does to them, no other check sees."""
        return copy.deepcopy(list(self.recorded))


CheckFunction = Callable[[Subject[Any]], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    name: str
    promise: str
    passed: bool
    detail: str
    """Why it failed or didn't apply; empty where there is nothing to say."""
    seconds: float
    skipped: bool = False
    """True where the promise doesn't apply to this component; then it counts as passed."""
    error: BaseException | None = field(default=None, compare=False, repr=False)

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {name: getattr(self, name) for name in ("name", "promise", "passed", "skipped", "detail", "seconds")}


def require(holds: object, how: str) -> None:
    """Raise `BrokenPromise` unless it holds."""
    if not holds:
        raise BrokenPromise(how)


def require_finite(value: object, what: str) -> None:
    """Raise `BrokenPromise` unless it is a finite number."""
    finite = isinstance(value, (int, float)) and math.isfinite(value)
    require(finite, f"{what} is {value!r}, which is no finite number")


def require_json(value: object, what: str) -> None:
    """Raise `BrokenPromise` unless it is plain JSON, which comes back from disk as it is."""
    try:
        back: object = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        back = error
    require(back == value, f"{what} is no plain JSON: {short(value)} comes back as {short(back)}")


def short(value: object) -> str:
    """A value as an error shows it."""
    return one_line(str(value) if isinstance(value, Exception) else repr(value), 160)


@contextlib.asynccontextmanager
async def closed(subject: Subject[Closed]) -> AsyncIterator[Closed]:
    """A component that is closed in the end."""
    made = subject.make()
    try:
        yield made
    finally:
        await made.close()


def working_folder(folder: Path) -> contextlib.chdir[Path]:
    """Work in an empty folder: what a component writes to relative paths is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    return contextlib.chdir(folder)


def plain_state(component: Learner | Optimizer) -> Any:
    """What `state()` gives, as it is read back from disk."""
    try:
        return json.loads(json.dumps(component.state(), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BrokenPromise(f"its state is no plain JSON: {error}") from None


def run_check(
    check: CheckFunction,
    make: Callable[[], Any],
    *,
    episodes: Sequence[Episode],
    time_limit: float,
    examples: Sequence[Mapping[str, Any]] = (),
) -> CheckResult:
    """Run one check to its end, or to the time limit."""
    began, before = time.monotonic(), os.getcwd()
    # On Windows a file that a component still has open can't be deleted; that is not what is being checked.
    with tempfile.TemporaryDirectory(prefix="agentfw-check-", ignore_cleanup_errors=True) as folder:
        error = _executed(check, Subject(make, episodes, Path(folder), examples), time_limit)
        os.chdir(before)  # a check that hangs is still in its folder, and that is about to go
    skipped, detail = isinstance(error, DoesNotApply), ""
    if isinstance(error, (BrokenPromise, DoesNotApply)):
        detail = str(error)
    elif isinstance(error, AgentfwError):
        detail = f"{error.message}; {error.fix}" if error.fix else error.message
    elif error is not None:
        notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
        detail = f"raised {in_words(error)}{notes}{_where(traceback.extract_tb(error.__traceback__))}"
    promise = " ".join((inspect.getdoc(check) or check.__name__).split("\n\n")[0].split()).partition(". ")[0]
    return CheckResult(
        name=check.__name__,
        promise=f"{promise.rstrip('.')}.",
        passed=error is None or skipped,
        detail=detail,
        seconds=round(time.monotonic() - began, 3),
        skipped=skipped,
        error=None if skipped else error,
    )


def _executed(check: CheckFunction, subject: Subject[Any], time_limit: float) -> BaseException | None:
    """What a check raises, in a thread of its own, or OutOfTime."""
    outcome: list[BaseException | None] = []

    def guarded() -> None:
        try:
            answer = check(subject)
            if inspect.isawaitable(answer):
                asyncio.run(as_coroutine(answer))
            outcome.append(None)
        except BaseException as error:  # SystemExit included: a plugin may raise anything
            outcome.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(guarded,), name=check.__name__, daemon=True)
    thread.start()
    thread.join(time_limit)
    if outcome:
        return outcome[0]
    frame = sys._current_frames().get(thread.ident or 0)
    running = list(traceback.StackSummary.extract(traceback.walk_stack(frame)))[::-1]
    return OutOfTime(f"it did not end within {time_limit:g} s{_where(running)}")


def _where(frames: Sequence[traceback.FrameSummary]) -> str:
    """The innermost place that is neither agentfw's nor Python's: where an author has to look."""
    for frame in reversed(frames):
        # Outside of a virtual environment installed packages lie within Python's own folder.
        of_python = frame.filename.startswith(("<", _PYTHON)) and "site-packages" not in frame.filename
        if not (frame.filename.startswith(_OURS) or of_python):
            return f" ({Path(frame.filename).name}, line {frame.lineno})"
    return ""


_OURS = f"{Path(__file__).parent.parent}{os.sep}"
_PYTHON = f"{Path(os.__file__).parent}{os.sep}"

_ROUNDS = 2
_TURNS_PER_ROUND = 2
_LARGEST_TOKEN = 40  # below any vocabulary's end, so that a learner with a real model takes them
_DRINKS = ("green tea", "black coffee", "mint tea", "hot chocolate")


def sample_episodes() -> list[Episode]:
    """Two groups of two, of one user."""
    return [*sample_group(0, 2), *sample_group(1, 2)]


def sample_group(index: int, samples: int, *, user: str = "user") -> list[Episode]:
    """Several samples of one task: same world, different choices.

    >>> group = sample_group(index=0, samples=4)
    >>> [episode.id for episode in group]
    ['00000-0', '00000-1', '00000-2', '00000-3']
    >>> Episode.from_record(group[0].to_record()) == group[0]
    True
    """
    seed = Seeds(7).integer("sample", index)
    return [sample_episode(Task(index, seed, user=user, sample=sample)) for sample in range(samples)]


def sample_episode(task: Task, *, text: str = "", turns: int | None = None) -> Episode:
    """An episode as an engagement leaves it, drawn from its task. `text` is put into observations and answers."""
    generator = Seeds(task.seed).random("sample episode", task.sample)
    episode = Episode(task, environment="teahouse", rounds=_ROUNDS, finish="finished")
    episode.messages.append(Message("system", "Serve each guest what they like."))
    count = _ROUNDS * _TURNS_PER_ROUND if turns is None else turns
    for number in range(count):
        _serve(episode, number, generator, text)
    episode.ended = float(count * 3)
    episode.utility = sum(event.data["value"] for event in episode.events if event.kind == "utility")
    episode.outcome = {"served": float(count), "right": episode.utility / max(1, count)}
    return episode


def _serve(episode: Episode, number: int, generator: random.Random, text: str) -> None:
    """One turn: a guest comes in, the agent serves something, and it was right or wrong."""
    time, about = float(number * 3), number // _TURNS_PER_ROUND + 1
    if number % _TURNS_PER_ROUND == 0:
        episode.events.append(Event(time, "round", str(about), {"of": _ROUNDS}))
    wanted, served = generator.choice(_DRINKS), generator.choice(_DRINKS)
    said = f"a guest who likes {wanted} comes in" + (f": {text}" if text else "")
    episode.events.append(Event(time, "observation", "guest", {"likes": wanted, "text": said}))
    episode.events.append(Event(time, "seen", "", {"events": [len(episode.events) - 1]}))
    call = Call("serve", {"drink": served, "note": text}, f"{number + 1}.0")
    answer = Message("assistant", f"I serve {served}. {text}".strip(), (call,))
    episode.messages.append(Message("user", f"[{time:g}] round {about} of {_ROUNDS}\n{said}"))
    length = generator.randint(4, 8)
    before = episode.turns[-1].prompt_ids + episode.turns[-1].token_ids if episode.turns else ()
    prompt, tokens = ([generator.randint(1, _LARGEST_TOKEN) for _ in range(count)] for count in (6, length))
    episode.turns.append(
        Turn(
            index=number,
            started=time,
            ended=time + 1,
            round=about,
            shown=tuple(range(len(episode.messages))),
            text=answer.content,
            calls=(call,),
            count=length,
            prompt_ids=(*before, *prompt),  # prompts of one conversation grow
            token_ids=tuple(tokens),
            logprobs=tuple(-generator.random() for _ in range(length)),
            version="base",
        )
    )
    episode.messages.append(answer)
    episode.events.append(Event(time + 1, "intervention", "serve", {**call.arguments, "id": call.id}))
    value = 1.0 if served == wanted else 0.0
    episode.events.append(Event(time + 1, "utility", "right drink" if value else "wrong drink", {"value": value}))
    if number % _TURNS_PER_ROUND == _TURNS_PER_ROUND - 1:  # as worlds do: one of a name for each round
        episode.measures.append(Measure("error", 1.0 - value, time + 1, about))
    said = "thank you" if value else f"I'd have liked {wanted}"
    episode.events.append(Event(time + 1, "observation", "reply", {"text": said, "right": bool(value)}))
    episode.messages.append(Message("tool", said, answers=call.id))
