"""ETAPP: sixteen persons, fifty instructions and an assistant's tools, from a user's own copy.

    agentfw data check etapp FOLDER
    agentfw run etapp --set environment.folder=FOLDER --policy openai --reward keypoints

A task is one person with one instruction. The texts that a model reads come from the copy. The tools do what their
names say on the person's tables, and what they change stays changed for the episode. A turn without a call is the
answer. A judge says how good it is: the reward `keypoints` marks an episode by the points that the benchmark names.

Unlike in the published code, a cart and a sent mail really change, and nothing that a model writes is run as code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agentfw import Environment, Intervention, Moment, Task, Turn, World
from agentfw.errors import InterventionRefused, SettingsError, nearest
from agentfw.request import Action, Brief
from agentfw.seeds import Seeds

from .apps import Apps
from .copy_of_etapp import Copy, Instruction, load_copy, request_text, shuffled, split_of, views_for
from .etapp_settings import EtappSettings
from .queries import search

_OFFERED = 8
"""Number of tools that a search for tools finds."""
_UNKNOWN = {"type": "object", "properties": {}}
"""Parameters of a tool whose documentation the agent has to look up."""
_SEARCH = Action(
    "search_tools",
    "Search for tools by what they should do. Tools that are found can then be called.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "what the tool should do"}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
_DOCUMENTATION = Action(
    "get_tool_doc",
    "Show the parameters of a tool.",
    {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "name of the tool"}},
        "required": ["name"],
        "additionalProperties": False,
    },
)


class Etapp(Environment):
    """You are a personal assistant. Do what the user asks for with the tools, in the way that this user likes.

    Think of what they would want besides and didn't say. Only what a tool has answered is done. When all is done,
    answer without a call: say what you did and what they should know.
    """

    headline = "answered"
    columns: Mapping[str, str] = {
        "answered": "answered",
        "tool_calls_done": "calls done",
        "effects": "effects",
        "refused": "refused",
        "tools_without_data": "tools without data",
    }

    def __init__(self, settings: EtappSettings | None = None) -> None:
        self.settings = settings or EtappSettings()
        self.copy = load_copy(self.settings.folder, self.settings.instructions)
        self._pairs = _pairs(self.copy, self.settings.part, self.settings.users)
        self._instruction: Instruction | None = None

    # The task

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        """Each person with each instruction of the split, over and over."""
        seeds, pairs = Seeds(seed).child(split), self._pairs[split]
        found = []
        for index in range(count):
            name, number = pairs[index % len(pairs)]
            query = f"instruction {number}"
            found.append(Task(index, seeds.integer(index), user=name, split=split, query=query))
        return found

    def describe(self, tasks: Sequence[Task]) -> str:
        persons, asked = len({task.user for task in tasks}), len({task.query for task in tasks})
        return f"{persons} persons, {asked} instructions"

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        pairs = self._pairs.get(task.split) or self._pairs["test"]
        name, number = pairs[task.index % len(pairs)]
        self.instruction = self._instruction = next(one for one in self.copy.instructions if one.number == number)
        self.person = self.copy.persons[name]
        self.apps = Apps(self.copy, self.person, self.instruction.time)
        self._turns = self._done = self._refused = 0
        self._answered = False
        self._found: set[str] = set()
        world.observe(
            "request",
            {"scenarios": list(self.instruction.sections), "time": str(self.instruction.time)},
            text=request_text(self.instruction, self.person),
        )

    def profile(self) -> Mapping[str, str]:
        """What is known of the person, and of how they like each kind of tool that the task is about."""
        if self._instruction is None:
            return {}
        return views_for(self.instruction, self.person)

    def brief(self) -> Brief:
        return replace(super().brief(), actions=tuple(self._actions()))

    def _actions(self) -> Iterable[Action]:
        if self.settings.tools == "retrieved":
            yield _SEARCH
            yield _DOCUMENTATION
            names: Iterable[str] = self.copy.schemas
        else:
            names = self._instruction.tools if self._instruction else self.copy.schemas
        for name in names:
            schema = self.copy.schemas[name]
            # Tools that must be searched for are known to the parser by their names alone.
            hidden = self.settings.tools == "retrieved"
            yield Action(name, "" if hidden else schema.description, _UNKNOWN if hidden else dict(schema.parameters))

    # What the agent can do

    def intervene(self, intervention: Intervention) -> None:
        try:
            self._call(intervention.name, dict(intervention.arguments))
        except InterventionRefused:
            self._refused += 1
            raise
        self._done += 1

    def _call(self, name: str, arguments: dict[str, Any]) -> None:
        retrieved = self.settings.tools == "retrieved"
        if retrieved and name == _SEARCH.name:
            self._search(arguments)
            return
        if retrieved and name == _DOCUMENTATION.name:
            self._document(arguments)
            return
        offered = self._found if retrieved else set(self.instruction.tools)
        schema = self.copy.schemas.get(name)
        if schema is None or name not in offered:
            guess = nearest(name, offered)
            hint = f'; did you mean "{guess}"?' if guess else "; search for tools first" if retrieved else ""
            raise InterventionRefused(f'there is no tool "{name[:100]}"{hint}')
        answer, effect = self.apps.call(schema, arguments)
        data: dict[str, Any] = {"tool": name, "scenarios": [schema.section]}
        if effect:
            data["effects"] = [effect]
        self.world.observe("answer", data, text=answer)

    def _search(self, arguments: Mapping[str, Any]) -> None:
        query = _text(arguments, "query")
        rows = [{"name": one.name, "description": one.description} for one in self.copy.schemas.values()]
        found = search([{**row, "words": row["name"].replace("_", " ")} for row in rows], query, _OFFERED)
        self._found |= {row["name"] for row in found}
        about = [{"name": row["name"], "description": row["description"]} for row in found]
        self.world.observe("tools", {"found": [row["name"] for row in found]}, text=json.dumps(about))

    def _document(self, arguments: Mapping[str, Any]) -> None:
        schema = self.copy.schemas.get(_text(arguments, "name"))
        if schema is None:
            raise InterventionRefused("there is no such tool; search for tools first")
        self._found.add(schema.name)
        self.world.observe("documentation", {"tool": schema.name}, text=json.dumps(dict(schema.parameters)))

    def turned(self, turn: Turn) -> None:
        self._turns += 1
        self._answered = not (turn.calls or turn.failures) and bool(turn.text.strip())
        if self._answered or self._turns >= self.settings.turns:
            self._finish()
        elif not turn.calls:
            self.world.observe("waiting", {}, text="nothing was done, and nothing was answered")

    # What comes of it

    def outcome(self) -> Mapping[str, float]:
        return {
            "answered": float(self._answered),
            "tool_calls_done": float(self._done),
            "refused": float(self._refused),
            "effects": float(len(self.apps.effects)),
            "tools_without_data": float(len(self.apps.without_data)),
        }

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """Look at what can be looked at without an argument, or for tools where there are none yet. Then answer."""
        if moment.of("request"):
            if self.settings.tools == "retrieved":
                yield Intervention(_SEARCH.name, {"query": self.instruction.query})
                return
            schemas = [self.copy.schemas[name] for name in self.instruction.tools]
            looks = [one for one in schemas if one.work.verb == "read" and not one.parameters.get("required")]
            yield from (Intervention(one.name) for one in looks)
            if looks:
                return
        yield "This is all that I could find."

    def _finish(self) -> None:
        points = {"personal": list(self.instruction.personal), "proactive": list(self.instruction.proactive)}
        self.world.observe("over", {"keypoints": points}, text="the task is over")
        self.world.finish(**self.outcome())


@lru_cache(maxsize=4)
def _cached_pairs(names: tuple[str, ...], numbers: tuple[int, ...], part: str) -> dict[str, list[tuple[str, int]]]:
    if part == "instance":
        return split_of([(name, number) for number in numbers for name in names])
    by_instruction = split_of(numbers)
    return {split: shuffled([(name, one) for one in some for name in names]) for split, some in by_instruction.items()}


def _pairs(copy: Copy, part: str, users: int) -> dict[str, list[tuple[str, int]]]:
    """Persons and instructions by split."""
    names = tuple(copy.persons)[: users or None]
    found = _cached_pairs(names, tuple(one.number for one in copy.instructions), part)
    empty = next((split for split, some in found.items() if not some), None)
    if empty is not None:
        raise SettingsError(
            f"environment.folder: {len(copy.instructions)} usable instructions are too few for the split {empty}",
            fix="use a copy with at least three instructions",
        )
    return found


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if set(arguments) != {name} or not isinstance(value, str):
        raise InterventionRefused(f'it takes one argument, "{name}", a text')
    return value
