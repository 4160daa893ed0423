"""Makes a reward model of a function, as it was written for agentfw, TRL or verifiers.

    def score(episode):                              # agentfw: one episode
        return float(len(episode.turns) < 5)

    def correct(completions, answer, **columns):     # TRL: the samples of a task, and a list for each column
        return [float(gold in text) for text, gold in zip(completions, answer)]

    async def polite(completion, answer, state):     # verifiers: one completion, and the value of each column
        return float("please" in completion[-1]["content"])

The names of the parameters say which it is. A column is what the task has besides: environments such as `questions`
record it with the episode (`COLUMNS`). TRL's completions are texts where the prompt is one, and lists of messages where
it is a list. That of verifiers is a list of messages, unless it is annotated as `str`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from types import SimpleNamespace
from typing import Any

from ..boundary.guard import in_thread
from ..episode import Episode, Message
from ..scores import RewardModel, Score

__all__ = ["COLUMNS", "FunctionReward", "call_function", "is_reward", "taken"]

COLUMNS = "task", "columns"
"""Kind and name of the event whose data are the columns of the episode's task."""
_OF_GROUPS = frozenset(("prompts", "completions", "completion_ids", "answers", "states", "infos", "tasks"))
_OF_EPISODES = frozenset(("completion", "state"))


def is_reward(function: Callable[..., Any], *, named: bool = False) -> bool:
    """Whether the names of its parameters are those of a reward function.

    One that was `named` as such may be of verifiers and take its `state` alone. A tool may have such an argument, too.
    """
    names = {"episode", "completion", "completions", *(("state",) if named else ())}
    return not names.isdisjoint(inspect.signature(function).parameters)


class FunctionReward(RewardModel):
    """Scores episodes with a function, plain or async."""

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self._function, self._name = function, getattr(function, "__name__", type(function).__name__)
        self.components = (name or self._name,)
        self._parameters = inspect.signature(function).parameters

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        names = self._parameters.keys()
        if names & _OF_GROUPS:
            values = await call_function(
                self._function, **taken(self._function, _of_group([_read(one) for one in group]))
            )
            if not isinstance(values, Sequence) or len(values) != len(group):
                raise TypeError(f"{self._name}() must return a list of {len(group)} numbers, one for each completion")
        elif names & _OF_EPISODES:
            offers = [taken(self._function, self._of_one(_read(one))) for one in group]
            values = [await call_function(self._function, **offered) for offered in offers]
        else:
            values = [await call_function(self._function, episode) for episode in group]
        scores = []
        for episode, value in zip(group, values, strict=True):
            if value is None:  # TRL: it has nothing to say of this one
                continue
            if not isinstance(value, Real):
                raise TypeError(f"{self._name}() returned a {type(value).__name__}, not a number")
            scores.append(Score(episode.id, self.components[0], float(value)))
        return scores

    def _of_one(self, read: SimpleNamespace) -> dict[str, Any]:
        """The arguments of verifiers."""
        asked = self._parameters.get("completion")
        said = read.text if asked is not None and asked.annotation in (str, "str") else read.completion
        given = {"prompt": read.prompt, "answer": "", "info": {}, "task": "default", **read.columns, "completion": said}
        return {**given, "state": {**given, "completion": read.completion, "turn": read.turns}}


def _of_group(group: Sequence[SimpleNamespace]) -> dict[str, Any]:
    """The arguments of TRL, and the plural ones of verifiers."""
    columns = dict.fromkeys(name for one in group for name in one.columns if name not in ("prompt", "messages"))
    given: dict[str, Any] = {name: [one.columns.get(name) for one in group] for name in columns}
    given |= {f"{name}s": given[name] for name in ("answer", "info", "task") if name in given}
    return {
        **given,
        "prompts": [one.prompt if one.is_chat else one.columns["prompt"] for one in group],
        "completions": [one.completion if one.is_chat else one.text for one in group],
        "completion_ids": [one.ids for one in group],
        "states": [{**one.columns, "prompt": one.prompt, "completion": one.completion} for one in group],
        "trainer_state": SimpleNamespace(global_step=max(one.step for one in group), epoch=0.0),
    }


def _read(episode: Episode) -> SimpleNamespace:
    """What functions are told of an episode."""
    found = [event.data for event in episode.events if (event.kind, event.name) == COLUMNS]
    columns = found[-1] if found else {}
    prompt, completion = list[Message](), list[Message]()
    if turns := episode.turns:
        said = [episode.messages[place] for place in turns[-1].shown]
        begun = len(turns[0].shown)
        prompt, completion = said[:begun], [*said[begun:], Message("assistant", turns[-1].text, turns[-1].calls)]
    return SimpleNamespace(
        columns=columns,
        is_chat=not isinstance(columns.get("prompt"), str),
        prompt=[_plain(message) for message in prompt],
        completion=[_plain(message) for message in completion],
        text=turns[-1].text if turns else "",
        ids=[token for turn in turns for token in turn.token_ids],
        turns=len(turns),
        step=int(version) if turns and (version := turns[-1].version.rpartition("@")[2]).isdecimal() else 0,
    )


def _plain(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": dict(call.arguments)}}
            for call in message.calls
        ]
    return {**plain, "tool_call_id": message.answers} if message.answers else plain


def taken(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments that a function takes of those that it is offered."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return dict(offered)
    return {name: value for name, value in offered.items() if name in parameters}


async def call_function(function: Callable[..., Any], *given: object, **named: object) -> Any:
    """A plain function runs in a thread, so that a slow one keeps nobody waiting."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return await function(*given, **named)
    return await in_thread(function, *given, **named)
