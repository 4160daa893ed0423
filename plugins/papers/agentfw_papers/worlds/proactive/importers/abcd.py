"""Reads the file of the ABCD data set: `abcd_v1.1.json`, compressed or not, or a list of conversations.

The values of its actions have no names. A value is named by the fact of the scenario that it equals, else by the slot
that allows it, else by the slot whose pattern it has, else `value_1`, `value_2` and so on. A conversation that can't be
placed is left out with its reason; nothing about it is guessed.
"""

from __future__ import annotations

import ast
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentfw.errors import UsageError
from agentfw_papers.timing import Action, Dialogue, Domain, Parameter, Trigger, Turn, same_value
from agentfw_rewardmodels import BadInputError

from .imported import Imported

_GZIP = b"\x1f\x8b"
_SPLITS = {"train": "train", "dev": "validation", "validation": "validation", "test": "test"}
_SUFFIX = re.compile(r"_\d+$")
_LONGEST_LITERAL = 20_000


def read(path: Path, domain: Domain) -> Imported:
    """The dialogues of the file."""
    imported = Imported(domain.catalog.name)
    slots = {one.name: one for action in domain.catalog.actions for one in action.parameters}
    seen = set[str]()
    for split, row in _conversations(_load(path), path):
        identifier = str(row.get("convo_id", "without id")) if isinstance(row, dict) else "without id"
        try:
            if identifier in seen:
                raise _Misfit("the id is there twice")
            imported.dialogues.append(
                _Conversation(row, domain, tuple(slots.values()), imported.named_by).dialogue(identifier, split)
            )
            seen.add(identifier)
        except _Misfit as reason:
            imported.leave_out(str(reason), identifier)
        except BadInputError as error:
            imported.leave_out(error.message, identifier)
    return imported


class _Misfit(Exception):
    """Why a conversation can't be placed."""


class _Conversation:
    """One conversation of the file."""

    def __init__(self, row: Any, domain: Domain, slots: tuple[Parameter, ...], named_by: dict[str, int]) -> None:
        if not isinstance(row, dict) or "convo_id" not in row:
            raise _Misfit("it has no convo_id")
        self.row, self.domain, self.slots, self.named_by = row, domain, slots, named_by
        scenario = row.get("scenario")
        self.scenario: dict[str, Any] = scenario if isinstance(scenario, dict) else {}
        self.facts = {
            name: value
            for part in self.scenario.values()
            if isinstance(part, dict)
            for name, value in part.items()
            if isinstance(value, str)
        }

    def dialogue(self, identifier: str, split: str) -> Dialogue:
        turns, triggers = list[Turn](), list[Trigger]()
        names = dict[str, int]()
        subflow = str(self.scenario.get("subflow", ""))
        for number, (speaker, text, entry) in enumerate(self._entries(), start=1):
            if speaker not in self.domain.speakers:
                raise _Misfit(f'unknown speaker "{speaker}"')
            turns.append(Turn(self.domain.speakers[speaker], text, str(entry.get("text", ""))))
            targets = entry.get("targets")
            if not isinstance(targets, list) or len(targets) < 4:
                raise _Misfit("an entry has no targets")
            if targets[1] == "take_action":
                triggers.append(self._trigger(number, targets[2], targets[3], names))
        for way, count in names.items():
            self.named_by[way] = self.named_by.get(way, 0) + count
        workflows = {one.name for one in self.domain.catalog.workflows}
        return Dialogue(
            identifier,
            tuple(turns),
            tuple(triggers),
            domain=self.domain.catalog.name,
            split=split or _split_of(identifier),
            flow=str(self.scenario.get("flow", "")),
            subflow=subflow if subflow in workflows else _SUFFIX.sub("", subflow),
            facts=_with_products(self.scenario),
        )

    def _entries(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        original, delexed = self.row.get("original"), self.row.get("delexed")
        if not isinstance(original, list) or not isinstance(delexed, list) or not original:
            raise _Misfit("it has no turns")
        if len(original) != len(delexed):
            raise _Misfit("original and delexed differ in length")
        for spoken, entry in zip(original, delexed, strict=True):
            if not isinstance(spoken, list) or len(spoken) != 2 or not all(isinstance(part, str) for part in spoken):
                raise _Misfit("a turn isn't a speaker and a text")
            if not isinstance(entry, dict):
                raise _Misfit("an entry of delexed isn't an object")
            yield spoken[0], spoken[1], entry

    def _trigger(self, turn: int, name: Any, values: Any, names: dict[str, int]) -> Trigger:
        action = self.domain.catalog.find(str(name))
        if action is None:
            raise _Misfit(f'unknown action "{name}"')
        if not isinstance(values, list):
            raise _Misfit("the values of an action aren't a list")
        named: dict[str, str] = {}
        for number, value in enumerate(map(str, values), start=1):
            slot, way = self._name_of(value, action, named)
            named[slot or f"value_{number}"] = value
            names[way] = names.get(way, 0) + 1
        return Trigger(turn, action.name, named)

    def _name_of(self, value: str, action: Action, taken: Mapping[str, str]) -> tuple[str, str]:
        """The slot that a value belongs to, and how it was found."""
        own = [one.name for one in action.parameters]
        equal = [name for name, fact in self.facts.items() if same_value(fact, value)]
        for name in sorted(equal, key=lambda name: name not in own):
            if name not in taken:
                return name, "scenario"
        # Sometimes a value is of a slot that only other actions have.
        slots = [one for one in (*action.parameters, *self.slots) if one.name not in taken]
        for one in slots:
            if one.canonical(value) in one.values:
                return one.name, "allowed values"
        for one in slots:
            if one.pattern and re.fullmatch(one.pattern, value):
                return one.name, "pattern"
        return "", "no way"


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            # By its content and not by its name: downloads are often renamed.
            compressed = file.read(2) == _GZIP
            file.seek(0)
            with io.TextIOWrapper(gzip.open(file) if compressed else file, "utf-8-sig") as text:
                return json.load(text, object_pairs_hook=_without_candidates)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise UsageError(f"{path} can't be read: {error}", fix="check the path, or get the file again") from error


def _without_candidates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without the utterances to choose from, which would take most of the memory."""
    return {key: value for key, value in pairs if key != "candidates"}


def _conversations(data: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Each conversation with its split, which is empty if the file has none."""
    if isinstance(data, list):
        yield from (("", row) for row in data)
    elif isinstance(data, dict) and data.keys() & _SPLITS.keys():
        for name, rows in data.items():
            if name not in _SPLITS or not isinstance(rows, list):
                raise UsageError(
                    f'{path} has the key "{name}", which isn\'t a split with a list of conversations',
                    fix="use a file with train, dev and test, or a list of conversations",
                )
            yield from ((_SPLITS[name], row) for row in rows)
    else:
        raise UsageError(
            f"{path} holds no conversations", fix="use a file with train, dev and test, or a list of conversations"
        )


def _split_of(identifier: str) -> str:
    """A split by the id alone: eight of ten for training, so that the same id is always in the same split."""
    part = zlib.crc32(identifier.encode()) % 10
    return "train" if part < 8 else "validation" if part == 8 else "test"


def _with_products(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The facts, with the products of the order as values: the file has them as the text of a Python literal."""
    order = scenario.get("order")
    products = order.get("products") if isinstance(order, dict) else None
    if not isinstance(order, dict) or not isinstance(products, str) or len(products) > _LONGEST_LITERAL:
        return dict(scenario)
    try:
        value = ast.literal_eval(products)  # literals only: it calls nothing
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return dict(scenario)
    return {**scenario, "order": {**order, "products": value}}
