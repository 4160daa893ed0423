"""The tools of a copy: their schemas as published, and what each does, read off its name.

The texts and parameters that a model reads are those of the user's copy. What a tool does is ours: a verb and a table.
A tool whose name has no known verb and table is not offered, and `agentfw data check etapp` lists it.

>>> work_of("add_alarm", "calendar")
Work(verb='add', table='alarms')
>>> work_of("view_today_events", "calendar")
Work(verb='read', table='events')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .reading import Gaps, read_list

SECTIONS = {
    "calendar": ("calendar", "alarm"),
    "email": ("email", "mail"),
    "health": ("health", "fitness"),
    "music": ("music",),
    "navigation": ("navigation", "travel", "map"),
    "shopping": ("shopping", "shop"),
    "smart_home_devices": ("smarthome", "home", "device"),
    "weather": ("weather",),
    "web_browsing": ("web", "brows", "news"),
}
"""Sections of the profiles, and the words in folder names that mean them."""
_VERBS = {
    "add": ("add", "create", "set", "schedule", "insert", "put", "book"),
    "remove": ("remove", "delete", "cancel"),
    "send": ("send", "reply", "forward"),
    "play": ("play",),
    "control": ("control", "turn", "adjust", "open", "close", "switch", "start", "stop"),
    "read": (
        *("get", "view", "search", "find", "list", "check", "read", "show", "query", "look", "lookup"),
        *("retrieve", "browse", "recommend"),
    ),
}
_TABLES: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "calendar": (("alarms", ("alarm", "alarms")), ("events", ())),
    "email": (("emails", ()),),
    "health": (
        ("workouts", ("workout", "workouts", "exercise", "training")),
        ("health_summaries", ("summary", "summaries", "recent", "history", "daily")),
        ("health_records", ()),
    ),
    "music": (("favorites", ("favorite", "favorites", "favourite", "favourites")), ("music", ())),
    "navigation": (
        ("accommodations", ("accommodation", "accommodations", "hotel", "hotels")),
        ("attractions", ("attraction", "attractions", "sight", "sights")),
        ("restaurants", ("restaurant", "restaurants")),
        ("flights", ("flight", "flights")),
    ),
    "shopping": (("carts", ("cart", "carts")), ("products", ())),
    "smart_home_devices": (("devices", ()),),
    "weather": (("weather", ()),),
    "web_browsing": (("news", ()),),
}
_CHANGED = {
    "add": {"events", "alarms", "carts", "favorites"},
    "remove": {"events", "alarms", "carts", "favorites", "emails"},
    "send": {"emails"},
    "play": {"music", "favorites"},
    "control": {"devices"},
}


@dataclass(frozen=True, slots=True)
class Work:
    """What a tool does: a verb, and the table that it is about."""

    verb: str
    table: str


@dataclass(frozen=True, slots=True)
class Schema:
    """One tool as the copy describes it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    section: str
    work: Work


def words_of(name: str) -> list[str]:
    """The words of a name such as `start_time` or `startTime`."""
    return re.findall(r"[a-z]+|\d+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).casefold())


def work_of(name: str, section: str) -> Work | None:
    """What the tool of this name does, or None."""
    words = words_of(name)
    verb = next((verb for word in words for verb, known in _VERBS.items() if word in known), None)
    if section == "smart_home_devices" and verb in ("add", "play"):
        verb = "control"
    table = next((table for table, known in _TABLES[section] if not known or set(known) & set(words)), None)
    if verb is None or table is None or (verb != "read" and table not in _CHANGED[verb]):
        return None
    return Work(verb, table)


def read_schemas(root: Path, gaps: Gaps) -> dict[str, Schema]:
    """The usable schemas of a copy."""
    found: dict[str, Schema] = {}
    files = sorted((root / "toolkit").glob("*/config.json"))
    if not files:
        gaps.add(root / "toolkit", "there is no folder with a config.json in it")
    for file in files:
        folder = re.sub(r"[^a-z]", "", file.parent.name.casefold())
        section = next((name for name, words in SECTIONS.items() if any(word in folder for word in words)), "")
        for line, entry in read_list(file, gaps):
            about = entry.get("function", entry) if isinstance(entry, dict) else {}
            name = about.get("name") if isinstance(about, dict) else None
            parameters = about.get("parameters", {}) if isinstance(about, dict) else {}
            if not isinstance(name, str) or not re.fullmatch(r"[\w-]{1,64}", name) or not isinstance(parameters, dict):
                gaps.add(file, "isn't the schema of a tool", line)
                continue
            if name in found:
                gaps.add(file, f"the tool {name} is described twice; the first counts", line)
                continue
            work = work_of(name, section) if section else None
            if work is None:
                gaps.add(file, f"the tool {name} is unknown to us, and is not offered", line)
                continue
            named = parameters.get("properties")
            schema = {**parameters, "type": "object", "properties": named if isinstance(named, dict) else {}}
            found[name] = Schema(name, str(about.get("description", "")), schema, section, work)
    return found
