"""The sentences of generated dialogues: a domain's own, and those that fit any conversation.

`phrases` of a domain.yaml needs `openings`, what a customer says who wants a workflow. All else is optional and takes
the place of what `common_phrases.yaml` has under the same key. Every list has at least six variants. Of six, four are
for training, one for validation and one for tests, so that no sentence is in two splits.

    >>> variants = Phrases.of({"openings": {"refund": [f"Refund, please {n}" for n in range(6)]}}, "shop").openings
    >>> in_split(variants["refund"], "test")
    ('Refund, please 5',)

Personas are the people of generated dialogues, with a value for every slot of a domain. A value is made from the slot's
pattern in the domain's phrases, or is one of those that are allowed. Each persona belongs to one split only, so a model
can't have met a held-out person.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from agentfw import Settings
from agentfw.boundary.settings_input import validate
from agentfw.errors import SettingsError
from agentfw_papers.timing import Parameter

Variants = Annotated[tuple[str, ...], Field(min_length=6)]
_COMMON = Path(__file__).parent / "common_phrases.yaml"
_OF_SIX: Mapping[str, frozenset[int]] = {
    "train": frozenset(range(4)),
    "validation": frozenset({4}),
    "test": frozenset({5}),
}


class SlotPhrases(Settings):
    """How a value comes up in a dialogue."""

    label: str = ""
    """What people call it. Default: its name, with spaces."""
    by: Literal["customer", "professional", "nobody"] = "customer"
    value: str = ""
    """How a value is made: # is a digit, ? a letter, {other} another slot's value. Default: one that is allowed."""
    asks: Variants | None = None
    answers: Variants | None = None


class Shape(Settings):
    """How long the dialogues are, in turns."""

    turns: float = Field(21, ge=4)
    spread: float = Field(7, ge=0)


class Phrases(Settings):
    """All sentences of a domain."""

    openings: dict[str, Variants]
    ambiguous: dict[str, Variants] = Field(default_factory=dict)
    """Openings that don't tell the workflows of a flow apart."""
    shape: Shape = Shape()
    slots: dict[str, SlotPhrases] = Field(default_factory=dict)
    uses: dict[str, int | tuple[str, ...]] = Field(default_factory=dict)
    """Which optional parameters of an action are used at once, or how many. Default: 1, or 0 beside required ones."""
    entries: dict[str, str] = Field(default_factory=dict)
    """What the dialogue shows when an action is triggered, such as "Account of {customer_name} pulled up"."""
    escalation: str = ""
    """The action that hands a customer to somebody else."""
    greetings: Variants
    replies: Variants
    asks: Variants
    answers: Variants
    refusals: Variants
    reasons: Variants
    told: Variants
    holding: Variants
    patience: Variants
    acting: Variants
    unsure: Variants
    small_talk: Variants
    small_replies: Variants
    leaving: Variants
    escalating: Variants
    thanks: Variants
    closings: Variants

    @classmethod
    def of(cls, given: Mapping[str, Any], domain: str) -> Phrases:
        """The phrases of a domain.yaml, with the common ones."""
        if not given.get("openings"):
            raise SettingsError(
                f'no dialogues can be generated for the domain "{domain}", because it has no phrases',
                fix="add phrases.openings to its domain.yaml, or import dialogues",
            )
        phrases = validate(cls, {**_common(), **given}, f'domain "{domain}": phrases')
        assert isinstance(phrases, cls)
        return phrases

    def asks_for(self, text: str) -> bool:
        """Whether a sentence is one of those that ask for values."""
        own = (variant for slot in self.slots.values() for variant in slot.asks or ())
        return any(
            re.fullmatch(re.escape(variant).replace(re.escape("{slots}"), ".+"), text) for variant in (*self.asks, *own)
        )


@lru_cache(maxsize=1)
def _common() -> dict[str, Any]:
    import yaml

    loaded: dict[str, Any] = yaml.safe_load(_COMMON.read_text("utf-8"))
    return loaded


def in_split(variants: Sequence[str], split: str) -> tuple[str, ...]:
    """The variants that this split may use."""
    return tuple(one for index, one in enumerate(variants) if index % 6 in _OF_SIX[split])


_SPLITS = ("train", "validation", "test")
_MOST_TRIES = 200
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_REFERENCE = re.compile(r"\{(.*?)\}")


class Personas:
    """The people of one domain."""

    def __init__(self, domain: str, parameters: Iterable[Parameter], slots: Mapping[str, SlotPhrases]) -> None:
        self.domain, self.slots = domain, slots
        self.values = {one.name: sorted(one.values) for one in parameters}
        self._check()

    def draw(self, split: str, draw: random.Random) -> dict[str, str]:
        for _ in range(_MOST_TRIES):
            persona: dict[str, str] = {}
            for name in self.values:
                self._fill(name, persona, draw)
            digest = zlib.crc32("\n".join(persona.values()).encode())
            if not persona or _SPLITS[digest % len(_SPLITS)] == split:
                return persona
        raise SettingsError(
            f'the domain "{self.domain}" has too few values for people who differ between the splits',
            fix="allow more values of a slot, or give it a pattern under phrases.slots.NAME.value",
        )

    def _fill(self, name: str, persona: dict[str, str], draw: random.Random) -> str:
        if name not in persona:
            pattern = self.slots[name].value if name in self.slots else ""
            if pattern:
                parts = _REFERENCE.split(pattern)
                made = [
                    self._fill(part, persona, draw) if number % 2 else _drawn(part, draw)
                    for number, part in enumerate(parts)
                ]
                persona[name] = "".join(made)
            elif allowed := self.values[name]:
                persona[name] = draw.choice(allowed)
            else:
                persona[name] = f"{name.replace('_', ' ')} {draw.randrange(100, 1000)}"
        return persona[name]

    def _check(self) -> None:
        """Every slot that has phrases is used, and values refer to others without a circle."""
        references = {name: _REFERENCE.findall(slot.value) for name, slot in self.slots.items()}
        used = {*self.values, *(one for listed in references.values() for one in listed)}
        if unused := [name for name in self.slots if name not in used]:
            raise SettingsError(
                f'phrases.slots of the domain "{self.domain}" has "{unused[0]}", which no action uses',
                fix="correct the name, or remove it",
            )
        for name in references:
            self._follow(name, references, ())

    def _follow(self, name: str, references: Mapping[str, list[str]], above: tuple[str, ...]) -> None:
        if name in above or (name not in self.values and not references.get(name) and not self._has_value(name)):
            raise SettingsError(
                f'phrases.slots.{(above or (name,))[-1]}.value of the domain "{self.domain}" needs "{name}", which has'
                " no value of its own",
                fix="refer to another slot",
            )
        for other in references.get(name, ()):
            self._follow(other, references, (*above, name))

    def _has_value(self, name: str) -> bool:
        return name in self.slots and bool(self.slots[name].value)


def _drawn(pattern: str, draw: random.Random) -> str:
    """The text with a random digit for each # and a random letter for each ?."""
    return "".join(
        str(draw.randrange(10)) if one == "#" else draw.choice(_LETTERS) if one == "?" else one for one in pattern
    )
