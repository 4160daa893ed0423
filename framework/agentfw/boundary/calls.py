"""The table of calls: every method of a component that the framework calls, and how its values cross.

A line names the method, the forms of what it is given and the form of what it answers (`forms.py`). Guards, traces, the
thread of memories and a learner in a process of its own are made from the table (`crossing.py`). So a new method of a
kind is a method of its base class and one line here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from functools import partial
from typing import Any

from ..environment import Environment
from ..episode import Task
from ..errors import EndpointError, InterventionRefused
from ..learner import Learner
from ..memory import Memory
from ..optimizer import Optimizer
from ..policy import Policy
from ..request import Passed
from ..scores import RewardModel
from ..tool import Tool, Toolbox
from ..tracker import Operation, PolicyCall, Recall, ToolCall, Tracker
from . import forms
from .forms import Call


class CallTable:
    """The calls of one kind of component."""

    def __init__(self, base: type, *calls: Call, attributes: Iterable[str] = ()) -> None:
        """`attributes` are the names of the component's attributes that callers read."""
        self.base, self.attributes = base, tuple(attributes)
        self.calls: Mapping[str, Call] = {call.name: call for call in calls}


def _policy_call(name: str, task: Task | None, given: tuple[Any, ...], found: Any, times: dict[str, Any]) -> Operation:
    request, generation = given[0], found.generations[0] if isinstance(found, Passed) else found
    about = {"task": request.task, "messages": tuple(request.messages), "sampling": request.sampling}
    return PolicyCall(name=name, generation=copy(generation), **about, **times)


def _recall(name: str, task: Task | None, given: tuple[Any, ...], found: Any, times: dict[str, Any]) -> Operation:
    query = given[0]
    return Recall(task=query.task, name=name, query=query, found=deepcopy(tuple(found or ())), **times)


def _tool_call(name: str, task: Task | None, given: tuple[Any, ...], found: Any, times: dict[str, Any]) -> Operation:
    assert task is not None
    well, text = found or (False, "")
    times = times | {"error": times["error"] or ("" if well else "tool_error")}
    return ToolCall(task=task, name=name, arguments=deepcopy(dict(given[0])), answer=text, **times)


_asking = partial(Call, late=EndpointError, spends="ask", operation=_policy_call)

KINDS_OF_CALLS: dict[str, CallTable] = {
    "memory": CallTable(
        Memory,
        Call("recall", (forms.QUERY,), forms.RECOLLECTIONS, operation=_recall),
        Call("learn", (forms.EPISODE, forms.VALUE)),
        Call("hear", (forms.SAYING,), forms.TAKEN),
        Call("remembered", (forms.VALUE,), forms.REMEMBERED),
        Call("correct", (forms.VALUE, forms.VALUE, forms.TEXT), forms.CORRECTED),
        Call("forget_one", (forms.VALUE, forms.VALUE)),
        Call("forget", (forms.VALUE,), forms.FIGURES),
        Call("embed", (forms.TEXTS,), forms.EMBEDDED),
        Call("open", (forms.FOLDER,)),
        Call("begin", (forms.TASK,), posted=True),
        Call("introduce", (forms.VALUE, forms.COPY), posted=True),
        Call("tools", (forms.TASK,), forms.TOOLS),
        Call("offered", (forms.TASK,), forms.TOOLS, shown="tools()"),
        Call("close"),
        attributes=("shared",),
    ),
    "reward": CallTable(
        RewardModel,
        Call("score", (forms.GROUP,), forms.SCORES, spends="finish"),
        Call("learn", (forms.EPISODE,), quiet=True),
        Call("write_learned", (forms.FOLDER,), forms.FLAG),
        Call("forget", (forms.VALUE,), forms.FLAG),
        Call("open", (forms.FOLDER,)),
        Call("close"),
    ),
    "toolbox": CallTable(Toolbox, Call("open", (), forms.TOOLS), Call("close")),
    "tool": CallTable(
        Tool,
        Call("answer", (forms.VALUE,), operation=_tool_call),  # the layer of tools checks what it answers
        attributes=("action", "takes", "timeout"),
    ),
    "policy": CallTable(
        Policy,
        Call("open", (forms.FOLDER,)),
        _asking("generate", (forms.REQUEST,), forms.GENERATION),
        _asking("stream", (forms.REQUEST, forms.TELL), forms.STREAMED),
        _asking("forward", (forms.REQUEST, forms.FORWARDED), forms.PASSED),
        Call("count_tokens", (forms.REQUEST,), forms.NUMBER),
        Call("speaks", (forms.VALUE, forms.VALUE), forms.FLAG, late=EndpointError),
        Call("publish", (forms.FOLDER, forms.VALUE), late=EndpointError),
        Call("logprobs", (forms.VALUE, forms.VALUE), late=EndpointError),
        Call("score", (forms.VALUE,), late=EndpointError, shown="logprobs()"),
        Call("replicas", (), forms.REPLICAS),
        Call("metrics", (), forms.FIGURES),
        Call("rest", late=EndpointError),
        Call("wake", late=EndpointError),
        Call("generation_time", (forms.VALUE, forms.VALUE), forms.TIME, quiet=True),
        Call("close"),
        attributes=("forwards", "is_program", "follows_schemas", "continues"),
    ),
    "environment": CallTable(
        Environment,
        Call("begin", (forms.VALUE, forms.TASK)),
        Call("brief", (), forms.BRIEF),
        Call("profile", (), forms.FIGURES),
        Call("intervene", (forms.VALUE,), passes=InterventionRefused),
        Call("turned", (forms.VALUE,)),
        Call("outcome", (), forms.FIGURES),
        Call("reflex", (forms.VALUE,), forms.INTERVENTIONS),
        Call("tasks", (forms.VALUE, forms.VALUE, forms.VALUE), forms.TASKS),
        Call("describe", (forms.COPY,), forms.SENTENCE),
        Call("references", (forms.TASK,), forms.REFERENCES),
        attributes=("headline", "lower_is_better", "columns", "meanings", "time_unit"),
    ),
    "optimizer": CallTable(
        Optimizer,
        Call("advantages", (forms.SCORED_GROUPS,), forms.ADVANTAGES),
        Call("missing", (forms.SCORED_GROUPS, forms.VALUE), forms.NUMBER),
        Call("loss", (), forms.LOSS),
        Call("metrics", (), forms.FIGURES),
        Call("note", (), forms.SENTENCE),
        Call("state", (), forms.FIGURES),
        Call("restore", (forms.VALUE,)),
    ),
    "learner": CallTable(
        Learner,
        Call("open", (forms.FOLDER,)),
        Call("start", (forms.FOLDER,), forms.UPDATE),
        Call("update", (forms.BATCH,), forms.UPDATE),
        Call("score", (forms.VALUE, forms.VALUE, forms.VALUE), forms.LOGPROBS),
        Call("state", (), forms.FIGURES),
        Call("restore", (forms.VALUE,)),
        Call("rest"),
        Call("wake"),
        Call("close"),
    ),
    "tracker": CallTable(
        Tracker,
        Call("begin", (forms.VALUE, forms.FOLDER, forms.COPY)),
        Call("log", (forms.VALUE, forms.COPY)),
        Call("trace", (forms.VALUE,)),
        Call("finish", (forms.COPY,)),
        Call("close"),
    ),
}
"""By kind. A component of the kind `tool` is a toolbox, which opens into tools."""
