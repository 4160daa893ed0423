"""The dialogues of a split and the turns at which the agent is asked, by the index of a task.

Generated dialogues are made when they are needed: a run over eight dialogues makes eight of them, while single turns
come in a random order from all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path

from agentfw import Seeds
from agentfw.errors import SettingsError
from agentfw_rewardmodels.timing import Dialogue, Domain, Speaker

from .dataset import SPLITS, Dataset, Example, generated, load_data, with_placeholders
from .domains import load_domain
from .generator import DialogueGenerator
from .generator_settings import GeneratorSettings
from .settings import Ask, ProactiveSettings

__all__ = ["Conversations", "asked_turns", "conversations"]

_ASKED: dict[Ask, frozenset[Speaker]] = {
    "spoken": frozenset({"customer", "professional"}),
    "every": frozenset({"customer", "professional", "action"}),
    "customer": frozenset({"customer"}),
}


def asked_turns(dialogue: Dialogue, ask: Ask) -> tuple[int, ...]:
    """The turns of a dialogue at which the agent is asked."""
    return tuple(number for number, turn in enumerate(dialogue.turns, start=1) if turn.speaker in _ASKED[ask])
