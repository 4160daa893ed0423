"""The dialogues of a split and the turns at which the agent is asked, by the index of a task.

Generated dialogues are made when they are needed: a run over eight dialogues makes eight of them, while single turns
come in a random order from all of them.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from agentfw.errors import SettingsError
from agentfw.seeds import Seeds
from agentfw_papers.timing import Dialogue, Domain, Speaker

from .dataset import Dataset, Example, load_data, with_placeholders
from .domains import domain_names, load_domain
from .generator import DialogueGenerator
from .settings import Ask, ProactiveSettings

_ASKED: dict[Ask, frozenset[Speaker]] = {
    "spoken": frozenset({"customer", "professional"}),
    "every": frozenset({"customer", "professional", "action"}),
    "customer": frozenset({"customer"}),
}


def asked_turns(dialogue: Dialogue, ask: Ask) -> tuple[int, ...]:
    """The turns of a dialogue at which the agent is asked."""
    return tuple(number for number, turn in enumerate(dialogue.turns, start=1) if turn.speaker in _ASKED[ask])


class Asked(NamedTuple):
    """What a task is about: a dialogue, and the turns of it at which the agent is asked."""

    example: Example
    turns: tuple[int, ...]


class Conversations:
    """The dialogues of one split, as the settings want them."""

    def __init__(self, settings: ProactiveSettings, split: str) -> None:
        self.settings, self.split = settings, split
        self.domain = load_domain(settings.domain or domain_names()[0])
        self._seeds = Seeds(settings.data_seed).child("proactive", split)
        self._found: tuple[Example, ...] | None = _of_folder(settings, self.domain, split) if settings.data else None
        self._made: dict[int, Example] = {}

    def __len__(self) -> int:
        return self.settings.dialogues if self._found is None else len(self._found)

    def task(self, index: int) -> Asked:
        """What task number `index` is about. After the last one it begins again."""
        if self.settings.unit == "dialogue":
            example = self.example(self._order[index % len(self)])
            return Asked(example, asked_turns(example.dialogue, self.settings.ask))
        place, turn = self._pairs[index % len(self._pairs)]
        return Asked(self.example(place), (turn,))

    def example(self, place: int) -> Example:
        made = self._made.get(place)
        if made is None:
            if self._found is None:
                generator = DialogueGenerator(self.domain, self.split, self.settings.data_seed, self.settings)
                made = Example(*generator.dialogue(place))
            else:
                made = self._found[place]
            if self.settings.values == "placeholder":
                made = with_placeholders(made)
            self._made[place] = made
        return made

    @cached_property
    def _order(self) -> list[int]:
        places = list(range(len(self)))
        # Generated dialogues are in a random order already, and the first of them can be made without the others.
        if self._found is not None:
            self._seeds.random("dialogues").shuffle(places)
        return places

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        pairs = [
            (place, turn)
            for place in range(len(self))
            for turn in asked_turns(self.example(place).dialogue, self.settings.ask)
        ]
        self._seeds.random("turns").shuffle(pairs)
        return pairs


@lru_cache(maxsize=8)
def conversations(settings: ProactiveSettings, split: str) -> Conversations:
    """The dialogues of a split, made once."""
    return Conversations(settings, split)


def _of_folder(settings: ProactiveSettings, domain: Domain, split: str) -> tuple[Example, ...]:
    manifest = Path(settings.data) / "MANIFEST.json"
    data = _dataset(settings.data, manifest.stat().st_mtime_ns if manifest.exists() else 0)
    data.check_catalog(domain.catalog)
    wanted = frozenset(settings.flows)
    found = tuple(
        one
        for one in data.splits.get(split, ())
        if (not wanted or wanted & {one.dialogue.flow, one.dialogue.subflow})
        and asked_turns(one.dialogue, settings.ask)
    )
    if not found:
        others = [name for name, examples in data.splits.items() if examples]
        raise SettingsError(
            f'environment.data: {settings.data} has no dialogues in the split "{split}"'
            + (f" with the flows {', '.join(settings.flows)}" if wanted else ""),
            fix=f"use a split that has some, such as --set split={others[0]}" if others else "use another folder",
        )
    return found


@lru_cache(maxsize=4)
def _dataset(folder: str, changed: int) -> Dataset:
    return load_data(folder)
