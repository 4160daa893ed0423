"""The calendar benchmark: whether an agent learns whom it keeps a calendar for.

The one rule: users are hidden behind what they choose. Organisations come from YAML, users from organisations, years
from users, conflicts from years; what an agent sees of all that is a few lines a round.

    from agentfw_plugins.worlds.calendar import Dataset

    dataset = Dataset(seed=7)
    calendar = dataset.calendar(dataset.user("7-test-0-3"))
    calendar.rounds[0].answer

The way through the files: sheet (YAML with lines) - attributes (what is visible of an event, and its line) - principles
- schema - organisation - users - year - surface - rounds - verification - dataset; then environment, feedback,
protocol, rules, learner, policies; then export, ics, command. docs/reference/calendar.md tells the whole.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dataset import SPLITS, Calendar, Dataset, schemas_of
    from .error_figures import error_reduction, rank_distance
    from .event_attributes import Event, event_line, parse_line
    from .rounds import ROUNDS, Difficulty, Round
    from .schema import Schema, load_folder, load_schema, shipped_schemas
    from .users import Temper, User
    from .verification import POINTS, Problem, verify

__all__ = [
    "POINTS",
    "ROUNDS",
    "SPLITS",
    "Calendar",
    "Dataset",
    "Difficulty",
    "Event",
    "Problem",
    "Round",
    "Schema",
    "Temper",
    "User",
    "error_reduction",
    "event_line",
    "load_folder",
    "load_schema",
    "parse_line",
    "rank_distance",
    "schemas_of",
    "shipped_schemas",
    "verify",
]

# Imported when first used: `agentfw data --help` comes through here and needs none of it.
_HOMES = {
    "event_attributes": ("Event", "event_line", "parse_line"),
    "dataset": ("SPLITS", "Calendar", "Dataset", "schemas_of"),
    "error_figures": ("error_reduction", "rank_distance"),
    "rounds": ("ROUNDS", "Difficulty", "Round"),
    "schema": ("Schema", "load_folder", "load_schema", "shipped_schemas"),
    "users": ("Temper", "User"),
    "verification": ("POINTS", "Problem", "verify"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
