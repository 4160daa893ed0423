"""The sentences of generated dialogues: a domain's own, and those that fit any conversation.

`phrases` of a domain.yaml needs `openings`, what a customer says who wants a workflow. All else is optional and takes
the place of what `common_phrases.yaml` has under the same key. Every list has at least six variants. Of six, four are
for training, one for validation and one for tests, so that no sentence is in two splits.

    >>> variants = Phrases.of({"openings": {"refund": [f"Refund, please {n}" for n in range(6)]}}, "shop").openings
    >>> in_split(variants["refund"], "test")
    ('Refund, please 5',)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from agentfw import Settings
from agentfw.errors import SettingsError

from .checked_settings import checked_settings

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
        return checked_settings(cls, {**_common(), **given}, f'domain "{domain}": phrases')

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
