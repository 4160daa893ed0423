"""How a call crosses between a run and a component, and each type of value with it.

A form says of one type what goes in, what is checked when it comes out, and how it is written for another process. A
call has a form for each value (`Call`), and its way through a guard is a `Passage`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, is_dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..episode import Episode, Intervention, Task, Usage
from ..errors import AgentfwError, PluginError, one_line
from ..learner import Batch, Scores, Update
from ..memory import Embedded, Recollection, Remembered
from ..optimizer import Advantage, Loss
from ..policy import Policy
from ..request import Brief, Forwarded, Generation, Moment, Passed, Request
from ..scores import Score, wrong_scores
from ..tool import Tool
from ..tracker import Operation
from .guard import Deadline, Guard, listed, not_awaitable
from .secrets import MASK, Pieces, strike, struck

Plain = Any
"""A JSON value."""


def as_plain(value: Any) -> Plain:
    """A value of a call as a JSON value."""
    if isinstance(value, Episode):
        return value.to_record()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Path):
        return str(value.resolve())
    if isinstance(value, Mapping):
        return {str(key): as_plain(inner) for key, inner in value.items()}
    return [as_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


class Form(NamedTuple):
    """How the values of one type cross."""

    enter: Callable[[Any, Passage], Any] | None = None
    """What the component is given. None: the value itself."""
    leave: Callable[[Any, Passage], Any] | None = None
    """What the run is given of an answer, checked. None: the answer itself."""
    read: Callable[[Plain], Any] = lambda value: value
    """The value, in another process, of what `write` made of it."""
    episode: Callable[[Any], str] | None = None
    """The episode that a call with this value belongs to."""
    write: Callable[[Any], Plain] = as_plain


VALUE = Form()
"""Numbers, names, and what else nobody can change."""


class Spending(Protocol):
    """What a run may still spend."""

    def count(self, policy: Usage = ..., judges: Usage = ...) -> None: ...
    async def ask(self, ask: Callable[[], Awaitable[Any]]) -> Any: ...
    async def finish(self, ask: Callable[[], Awaitable[Any]]) -> Any: ...


Shorten = Callable[[str, str], str]
"""Makes of a text, and of whose it is, what an agent is shown."""
_Operation = Callable[[str, Task | None, tuple[Any, ...], Any, dict[str, Any]], Operation]


@dataclass(eq=False)
class Call:
    """One method of a kind of component."""

    name: str
    given: tuple[Form, ...] = ()
    answer: Form = VALUE
    shown: str = ""
    """What it is called in errors. Default: the name with brackets."""
    late: type[AgentfwError] = PluginError
    """Raised where there is no answer by the deadline."""
    spends: str = ""
    """`ask` if a run stops making the call once its budget is spent, `finish` if it doesn't."""
    quiet: bool = False
    """Whether the base class's method does nothing. A component that doesn't override it isn't called."""
    posted: bool = False
    """Whether the caller goes on without waiting for the memory's thread, which runs later calls after this one."""
    passes: type[BaseException] | tuple[()] = ()
    """An exception that is an answer."""
    operation: _Operation | None = None
    """What trackers are told: from the component's name, the task of a tool, the values, the answer and the times."""

    def __post_init__(self) -> None:
        self.title = self.shown or f"{self.name}()"
        self.copies = any(form.enter is not None for form in self.given)
        """Whether the component receives a copy or a cleaned form of an argument."""
        readers = ((place, form.episode) for place, form in enumerate(self.given) if form.episode is not None)
        self._reads_episode = next(readers, None)  # from which of the values, and how

    def episode(self, given: tuple[Any, ...]) -> str:
        """The episode that a call belongs to. Empty if none of the values says so."""
        if self._reads_episode is None:
            return ""
        place, read = self._reads_episode
        return read(given[place])

    def on(self, component: Any, given: tuple[Any, ...]) -> Any:
        """Make the call of a component."""
        return getattr(component, self.name)(*given)

    def written(self, given: tuple[Any, ...]) -> list[Plain]:
        """The values as JSON values, in which form they cross to another process."""
        return [form.write(value) for form, value in zip(self.given, given, strict=False)]

    def read(self, written: Iterable[Plain]) -> tuple[Any, ...]:
        """The values that were written."""
        return tuple(form.read(one) for form, one in zip(self.given, written, strict=False))


class Passage:
    """One call of the table on its way through a guard."""

    __slots__ = ("call", "component", "deadline", "given", "guard", "layer", "passed")

    deadline: Deadline
    """Of the answer, for a call that is awaited."""

    def __init__(self, layer: Any, component: Any, call: Call, given: tuple[Any, ...]) -> None:
        """`layer` is the guard around the component, and `given` what the run gives."""
        self.layer, self.component, self.call, self.given = layer, component, call, given
        self.guard: Guard = layer.guard

    def ask(self) -> Any:
        """Call the component. What it was given is then `passed`."""
        self.passed = given = self.given
        if self.call.copies:
            pairs = zip(self.call.given, given, strict=False)
            self.passed = tuple([value if form.enter is None else form.enter(value, self) for form, value in pairs])
        return self.call.on(self.component, self.passed)

    def check(self, found: Any) -> Any:
        """What the run is given of the answer."""
        leave = self.call.answer.leave
        return found if leave is None else leave(found, self)


# -- what components are given -----------------------------------------------------------------------------------------


def _own_group(group: Sequence[Episode], passage: Passage) -> Sequence[Episode]:
    # A copy takes as long as scoring does, so models that come with agentfw get the episodes themselves: the contract
    # suite (`episodes_stay_as_they_are`) holds that they change none.
    return group if passage.guard.is_ours else [episode.copied() for episode in group]


def _without_secrets(request: Request, passage: Passage) -> Request:
    """The request as the policy is sent it. The list of messages is its own."""
    brief = request.brief
    if (goal := strike(brief.goal)) != brief.goal:
        brief = replace(brief, goal=goal)
    messages = struck(list(request.messages))
    return replace(request, messages=messages, brief=brief, schema=struck(request.schema), stop=struck(request.stop))


_FIRST_LETTERS = 4  # of a secret: whoever is told fewer of it knows nothing


class _Telling:
    """Passes on what a policy says while it answers, without secrets. Each piece is a sign of life."""

    def __init__(self, tell: Callable[[str], object], passage: Passage) -> None:
        self._tell, self._deadline, self._pieces = tell, passage.deadline, Pieces()
        self._has_part = self._struck = self._ends_here = False

    def __call__(self, text: str) -> None:
        if self._deadline.over:
            return
        self._deadline.extend()
        before = self._pieces.held
        if told := self._pieces.feed(text):
            self._tell(told)
        if strike(text) == text:
            self._has_part = True
            if MASK in told and MASK not in before + text:
                self._struck, self._ends_here = True, strike(before) == before

    def end(self) -> None:
        self._struck |= strike(self._pieces.held) != self._pieces.held
        if rest := self._pieces.end():
            self._tell(rest)

    def pass_on(self, hear: Callable[[bytes], object], waiting: list[tuple[bytes, bool]], line: bytes = b"") -> None:
        """Pass the next line of a stream on. Those that may have a part of a secret wait for the rest, and go with it.

        What was told since the last line stands in this one.
        """
        if self._struck:
            waiting[:] = [each for each in waiting if not each[1]]
        if line and not self._ends_here:
            waiting.append((_strike_bytes(line), self._has_part))
        self._has_part = self._struck = self._ends_here = False
        while waiting and len(self._pieces.held) < _FIRST_LETTERS:
            hear(waiting.pop(0)[0])


def _forwarded(forwarded: Forwarded, passage: Passage) -> Forwarded:
    body, hear, deadline = struck(forwarded.body), forwarded.hear, passage.deadline
    raw = forwarded.raw if body is forwarded.body else b""
    telling, waiting = _Telling(forwarded.tell, passage), list[tuple[bytes, bool]]()

    def pass_on(line: bytes) -> None:
        if line:  # otherwise it is over
            deadline.extend()
        telling.pass_on(hear, waiting, line)

    recalled, again = strike(forwarded.recalled), struck(forwarded.recalled_again)
    crossed = replace(forwarded, body=body, raw=raw, recalled=recalled, recalled_again=again)
    return replace(crossed, hear=pass_on, tell=telling)


def _strike_bytes(content: bytes) -> bytes:
    return strike(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


TEXT = Form(enter=lambda text, passage: strike(text))
TEXTS = Form(enter=lambda texts, passage: struck(list(texts)))
COPY = Form(enter=lambda value, passage: deepcopy(value))
FOLDER = Form(read=Path)
TASK = Form(episode=lambda task: task.id)
QUERY = Form(episode=lambda query: query.task.id)
EPISODE = Form(lambda episode, passage: episode.copied(), episode=lambda episode: episode.id)
GROUP = Form(_own_group)
SCORED_GROUPS = Form(
    lambda groups, passage: [[replace(one, episode=one.episode.copied()) for one in group] for group in groups]
)
SAYING = Form(enter=lambda saying, passage: struck(saying))
REQUEST = Form(_without_secrets, episode=lambda request: request.task.id if request.task else "")
TELL = Form(_Telling)
BATCH = Form(
    write=lambda batch: [
        as_plain(part) for part in (batch.episodes, batch.advantages, batch.loss, batch.folder, batch.teacher)
    ],
    read=lambda parts: Batch(
        [Episode.from_record(record) for record in parts[0]],
        [Advantage(**record) for record in parts[1]],
        Loss(**parts[2]),
        Path(parts[3]),
        tuple(map(tuple, parts[4])),
    ),
)
FORWARDED = Form(_forwarded)


# -- what they answer --------------------------------------------------------------------------------------------------


def _recollections(found: Iterable[Recollection], passage: Passage) -> list[Recollection]:
    guard, shorten = passage.guard, passage.layer.shorten
    recalled = listed(found, Recollection, guard, limit=passage.given[0].limit)
    guard.require(all(isinstance(one.text, str) for one in recalled), "recalled something without text")
    recalled = struck(recalled)
    if shorten is None:
        return recalled
    shown = [shorten(one.text, guard.title) for one in recalled]
    return [one if text is one.text else replace(one, text=text) for one, text in zip(recalled, shown, strict=True)]


def _corrected(found: Remembered, passage: Passage) -> Remembered:
    passage.guard.require(isinstance(found, Remembered), f"corrected an item to a {type(found).__name__}")
    return struck(found)


def _embedded(found: Embedded, passage: Passage) -> Embedded:
    texts = passage.given[0]
    rows = [[float(value) for value in row] for row in found.vectors]
    passage.guard.require(len(rows) == len(texts), f"gave {len(rows)} vectors for {len(texts)} texts")
    return Embedded(str(found.model), rows)


def _scores(found: Iterable[Score], passage: Passage) -> list[Score]:
    scores = listed(found, Score, passage.guard)
    wrong = wrong_scores(scores, passage.given[0])
    passage.guard.require(not wrong, wrong, "fix the reward model, or remove it")
    _spent(passage, passage.component.policy, judges=Usage.total(score.usage for score in scores))
    return scores


_FIELDS: dict[str, tuple[type | tuple[type, ...], type | tuple[type, ...] | None]] = {
    "text": (str, None),
    "calls": ((tuple, list), Intervention),
    "count": (int, None),
    "prompt_ids": ((tuple, list), int),
    "token_ids": ((tuple, list), int),
    "logprobs": ((tuple, list), (float, int)),
    "pieces": ((tuple, list), str),
    "version": (str, None),
    "finish": (str, None),
    "usage": (Usage, None),
}
"""The fields of an answer: what they may be, and what their items."""


def _wrong_with(found: object) -> str:
    """What is wrong with an answer, in words. Empty if nothing is."""
    if not isinstance(found, Generation):
        return f"answered with a {type(found).__name__}, not a Generation"
    for name, (kind, of_items) in _FIELDS.items():
        value = getattr(found, name)
        fits = isinstance(value, kind)  # apart, because mypy would take `value` for one without items
        if not fits:
            return f"answered with {name}={one_line(repr(value), 60)}"
        others = [] if of_items is None else [each for each in set(map(type, value)) if not issubclass(each, of_items)]
        if others:
            return f"answered with {name} of type {', '.join(sorted(each.__name__ for each in others))}"
    return f"answered with count={found.count}" if found.count < 0 else ""


def _generation(found: Generation, passage: Passage) -> Generation:
    # What isn't used before the answer is recorded, or learned from, would be blamed on whoever uses it.
    if wrong := _wrong_with(found):
        raise passage.guard.error(wrong)
    for call in found.calls:
        passage.guard.require(isinstance(call.name, str), f"made a call whose name is a {type(call.name).__name__}")
        with passage.guard.calling("its answer"):
            json.dumps(dict(call.arguments), allow_nan=False)
    if (text := strike(found.text)) != found.text:
        found.text, found.pieces = text, ()
    found.said, found.calls = struck(found.said), struck(found.calls)
    asked_by = [given.model for given in passage.given[1:] if isinstance(given, Forwarded)]
    found.usage = passage.component.priced(found.usage, *asked_by, found.version)
    if not found.repeated:
        _spent(passage, passage.component, policy=found.usage)
    return found


def _streamed(found: Generation, passage: Passage) -> Generation:
    found = _generation(found, passage)
    passage.passed[1].end()
    return found


def _passed(found: Passed, passage: Passage) -> Passed:
    for generation in found.generations:
        _generation(generation, passage)
    passage.passed[1].tell.end()
    passage.passed[1].hear(b"")
    return found._replace(content=_strike_bytes(found.content))


def _spent(passage: Passage, asked: Policy | None, **usages: Usage) -> None:
    """Count what a policy or judges have used, unless that is unknown because a program has no tokens."""
    layer, used = passage.layer, Usage.total(usages.values())
    if used.tokens is None and asked is not None and asked.is_program:
        return
    if layer.spending is not None:
        layer.spending.count(**usages)
    layer.guard.row.spend(used.cost)


def _time(takes: Any, passage: Passage) -> Any:
    passage.guard.require(isinstance(takes, Real) and float(takes) >= 0, f"says that an answer takes {takes!r}")
    return takes


def _brief(brief: Brief, passage: Passage) -> Brief:
    guard, episode = passage.guard, passage.layer.episode
    guard.require(isinstance(brief, Brief), f"gave a {type(brief).__name__}, not a Brief")
    goal, takes, demonstration = not_awaitable(brief.goal), not_awaitable(brief.time_per_token), brief.demonstration
    guard.require(isinstance(goal, str), f"has a goal of type {type(goal).__name__}, not text")
    guard.require(isinstance(takes, Real) and 0 <= float(takes) < math.inf, f"says that a token takes {takes!r}")
    if demonstration is None:
        return brief

    def demonstrated(moment: Moment) -> Iterable[Intervention | str]:
        # A policy follows it, and isn't to blame for it.
        with guard.calling("demonstrate()", episode):
            answers = list(not_awaitable(demonstration(moment)))
            for each in answers:
                if not isinstance(each, (Intervention, str)):
                    raise guard.error(f"demonstrated {one_line(repr(each))}, neither an Intervention nor text")
            return answers

    return replace(brief, demonstration=demonstrated)


def _advantages(found: Iterable[Advantage], passage: Passage) -> list[Advantage]:
    # Checked before the step, because one NaN would spread to all weights.
    advantages = listed(found, Advantage, passage.guard)
    turns = {scored.episode.id: len(scored.episode.turns) for group in passage.given[0] for scored in group}
    for each in advantages:
        passage.guard.require(
            math.isfinite(each.value) and 0 <= each.turn < turns.get(each.episode, 0),
            f"gave turn {each.turn} of episode {each.episode} the advantage {each.value}",
            "fix the optimizer: an advantage is a finite number for a turn of the batch",
        )
    return advantages


def _update(found: Update | None, passage: Passage) -> Update | None:
    if found is not None:
        passage.guard.require(isinstance(found, Update), f"returned a {type(found).__name__}, not an Update")
        wrong = f"returned a version without an adapter: {found.version} at {found.adapter}"
        fix = "write the adapter of each update below the given folder"
        passage.guard.require(found.adapter.exists(), wrong, fix)
    return found


def _tasks(found: Iterable[Task], passage: Passage) -> list[Task]:
    tasks = listed(found, Task, passage.guard)
    indexes = {task.index for task in tasks}
    passage.guard.require(len(indexes) == len(tasks), "gave two tasks the same index", "number its tasks from 0")
    return tasks


def _references(found: Mapping[str, Mapping[str, float]], passage: Passage) -> dict[str, dict[str, float]]:
    references = {}
    for player, figures in found.items():
        row = {str(figure): float(value) for figure, value in figures.items()}
        if passage.component.headline not in row or not all(map(math.isfinite, row.values())):
            raise ValueError(f'"{player}" has {row}: not finite, or without "{passage.component.headline}"')
        references[str(player)] = row
    return references


def _sentence(found: str, passage: Passage) -> str:
    passage.guard.require(isinstance(found, str), f"returned {found!r} in {passage.call.title}", "return a text")
    return found.encode(errors="replace").decode()  # half a surrogate can't be written


def _loss(found: Loss, passage: Passage) -> Loss:
    passage.guard.require(isinstance(found, Loss), f"has a loss of type {type(found).__name__}, not Loss")
    return found


FLAG = Form(leave=lambda found, passage: bool(found))
NUMBER = Form(leave=lambda found, passage: int(found))
FIGURES = Form(leave=lambda found, passage: dict(found))
TAKEN = Form(leave=lambda found, passage: {str(name): int(count) for name, count in dict(found or {}).items()})
RECOLLECTIONS = Form(leave=_recollections)
REMEMBERED = Form(leave=lambda found, passage: struck(listed(found, Remembered, passage.guard)))
CORRECTED = Form(leave=_corrected)
EMBEDDED = Form(leave=_embedded)
TOOLS = Form(
    leave=lambda found, passage: [passage.layer.around("tool", tool) for tool in listed(found, Tool, passage.guard)]
)
SCORES = Form(leave=_scores)
GENERATION = Form(leave=_generation)
STREAMED = Form(leave=_streamed)
PASSED = Form(leave=_passed)
REPLICAS = Form(leave=lambda found, passage: [passage.layer.around("policy", one) for one in found])
TIME = Form(leave=_time)
BRIEF = Form(leave=_brief)
INTERVENTIONS = Form(leave=lambda found, passage: listed(found, Intervention, passage.guard))
TASKS = Form(leave=_tasks)
REFERENCES = Form(leave=_references)
ADVANTAGES = Form(leave=_advantages)
LOSS = Form(leave=_loss)
UPDATE = Form(
    leave=_update,
    write=lambda update: update and [update.version, str(update.adapter), dict(update.metrics)],
    read=lambda record: record and Update(record[0], Path(record[1]), record[2]),
)
LOGPROBS = Form(write=lambda found: [list(found.logprobs), list(found.rounding)], read=lambda record: Scores(*record))
SENTENCE = Form(leave=_sentence)
