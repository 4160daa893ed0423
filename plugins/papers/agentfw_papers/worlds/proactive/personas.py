"""Invents the people of generated dialogues: a value for every slot of a domain.

A value is made from the slot's pattern in the domain's phrases, or is one of those that are allowed. Each persona
belongs to one split only, so a model can't have met a held-out person.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable, Mapping

from agentfw.errors import SettingsError
from agentfw_papers.timing import Parameter

from .phrases import SlotPhrases

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
