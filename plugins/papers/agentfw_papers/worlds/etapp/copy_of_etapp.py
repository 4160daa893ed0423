"""A user's copy of ETAPP: instructions, persons, tool schemas and tables, in the layout of the published repository.

The copy has no licence, so none ships with agentfw and none is fetched. What is missing or damaged is counted as a gap
with its file and line; only a copy in which nothing can be played is an error.

Two tables are published as pickles, which are never read. The user converts them once, in their own Python:

    import json, pickle
    json.dump(pickle.load(open("weather_new.pkl", "rb")), open("weather.json", "w"))

The splits are nine to one, drawn with the seed 42, as in the parpo-psgm paper. A ninth of the nine is the split
validation, which trainings evaluate on.

>>> parts = split_of([str(number) for number in range(100)])
>>> {name: len(some) for name, some in parts.items()}
{'test': 10, 'validation': 10, 'train': 80}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from agentfw.errors import SettingsError
from agentfw.seeds import Seeds

from .reading import Gap, Gaps, Table, parse_time, read_json, read_list, read_table
from .schemas import Schema, read_schemas

_SAFE = re.compile(r"[\w .'’-]+")
_OF_PERSON: Mapping[str, tuple[str, str, tuple[str, ...], str]] = {
    # the table: its folder, its columns that are needed, and its key
    "events": ("Calendar/events", "id title start_time end_time", ("start_time", "end_time"), "id"),
    "alarms": ("Calendar/alarms", "id alarm_time", ("alarm_time",), "id"),
    "emails": ("Email", "id sender receiver subject content timestamp", ("timestamp",), "id"),
    "health_records": ("Health", "timestamp", ("timestamp",), ""),
    "health_summaries": ("Health", "date", (), ""),
    "workouts": ("Health", "", (), ""),
    "favorites": ("Music", "title", (), "id"),
    "carts": ("Shopping", "product_title quantity", (), "id"),
}  # fmt: skip
_FILES = {
    "events": "events",
    "alarms": "alarms",
    "emails": "emails",
    "health_records": "Health_records",
    "health_summaries": "Health_summary_records",
    "workouts": "Workout_records",
    "favorites": "favorites",
    "carts": "carts",
}
_DEEPEST = 20
_SHARED = {"music": ("Music/music_all.csv", "title"), "products": ("Shopping/product.csv", "product_title")}
_CITIES = ("accommodations", "attractions", "restaurants", "flights")
_JSON = {"weather": ("Weather", "weather.json"), "news": ("Web_Browsing", "news.json")}


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a person asks for."""

    number: int
    time: datetime
    query: str
    personal: tuple[str, ...]
    proactive: tuple[str, ...]
    tools: tuple[str, ...]
    location: str
    sections: tuple[str, ...]
    """What its tools are about, such as calendar."""


@dataclass(frozen=True, slots=True)
class Person:
    """One user of the benchmark."""

    name: str
    city: str
    views: Mapping[str, str]
    """What is known of them in words: about, preferences, and one view for each kind of tool."""
    tables: Mapping[str, Table]


@dataclass(frozen=True, slots=True)
class Copy:
    """Everything of a copy that can be used."""

    folder: Path
    instructions: tuple[Instruction, ...]
    persons: Mapping[str, Person]
    schemas: Mapping[str, Schema]
    shared: Mapping[str, Table]
    """Tables that all persons share."""
    documents: Mapping[str, Any]
    """Weather and news, where they were converted."""
    gaps: tuple[Gap, ...]


@lru_cache(maxsize=2)
def load_copy(folder: str, instructions: str = "") -> Copy:
    """Read a copy. Raises SettingsError where nothing can be played. `instructions` is a file of other instructions."""
    root = Path(folder).expanduser()
    if not folder or not root.is_dir():
        raise SettingsError(
            f"environment.folder: {folder or 'nothing'} is no directory",
            fix="fetch a copy of ETAPP, and pass its directory: --set environment.folder=DIRECTORY",
        )
    gaps = Gaps(root)
    schemas = read_schemas(root, gaps)
    file = Path(instructions).expanduser() if instructions else root / "data" / "instruction" / "instruction.json"
    asked = read_instructions(file, gaps, schemas)
    persons = _persons(root, gaps)
    for what, found, where in (
        ("tool schema", schemas, "toolkit"),
        ("instruction", asked, file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name),
        ("person", persons, "profile/profiles.json"),
    ):
        if not found:
            seen = next((f": {gap}" for gap in gaps.found if gap.file.startswith(where)), "")
            raise SettingsError(
                f"{folder} has no usable {what}{seen}",
                fix="pass the directory of a copy of ETAPP that holds data, database, profile and toolkit",
            )
    database = root / "database"
    shared = {name: read_table(database / file, gaps, required=(key,)) for name, (file, key) in _SHARED.items()}
    shared |= {name: _by_city(database / "Navigation" / name, gaps) for name in _CITIES}
    documents = {name: _document(database / part, file, gaps) for name, (part, file) in _JSON.items()}
    return Copy(root, tuple(asked), persons, schemas, shared, documents, tuple(gaps.found))


def views_for(instruction: Instruction, person: Person) -> dict[str, str]:
    """What is known of a person in general, and of how they like each kind of tool that an instruction is about."""
    wanted = ("about", "preferences", *instruction.sections)
    return {view: text for view, text in person.views.items() if view in wanted}


def request_text(instruction: Instruction, person: Person) -> str:
    """What the agent reads when a task begins."""
    known = [f"{view}: {text}" for view, text in views_for(instruction, person).items()]
    where = f"It is {instruction.time}. The user is here: {person.city}:{instruction.location}"
    return "\n".join([instruction.query, where, *known])


def read_instructions(file: Path, gaps: Gaps, schemas: Mapping[str, Schema]) -> list[Instruction]:
    """The usable instructions of a file."""
    found = []
    for number, (line, entry) in enumerate(read_list(file, gaps)):
        entry = entry if isinstance(entry, dict) else {}
        time, query = parse_time(entry.get("timestamp")), entry.get("query")
        if time is None or not isinstance(query, str) or not query.strip():
            what = "query" if time else f"time such as 2024-09-06 08:00:00 but {str(entry.get('timestamp'))[:40]!r}"
            gaps.add(file, f"the instruction has no {what}; it is left out", line)
            continue
        named = _strings(entry.get("available_tools_name"))
        unknown = [name for name in named if name not in schemas]
        if unknown:
            gaps.add(file, f"the instruction names unknown tools: {', '.join(unknown)[:200]}", line)
        tools = tuple(dict.fromkeys(name for name in named if name in schemas))
        if not tools:
            gaps.add(file, "the instruction has no tools; it is left out", line)
            continue
        personal, proactive = (_strings(entry.get(f"keypoint for {head}")) for head in ("personal", "proactive"))
        if not personal or not proactive:
            gaps.add(file, f"no keypoints for {'proactive' if personal else 'personal'}", line)
        sections = tuple(dict.fromkeys(schemas[name].section for name in tools))
        where = entry.get("location")
        location = where if isinstance(where, str) and where else "Home"
        found.append(Instruction(number, time, query.strip(), personal, proactive, tools, location, sections))
    return found


def _persons(root: Path, gaps: Gaps) -> dict[str, Person]:
    file = root / "profile" / "profiles.json"
    profiles = read_json(file, gaps)
    if profiles is not None and not isinstance(profiles, dict):
        gaps.add(file, "isn't an object with a person for each name", 1)
        return {}
    found = {}
    for name, profile in (profiles or {}).items():
        if not isinstance(profile, dict):
            gaps.add(file, f"the profile of {name[:40]!r} isn't an object; the person is left out")
            continue
        if not _SAFE.fullmatch(name) or ".." in name:
            gaps.add(file, f"the name {name[:40]!r} can't be that of a file; the person is left out")
            continue
        found[name] = _person(root, name, profile, gaps)
    return found


def _person(root: Path, name: str, profile: Mapping[str, Any], gaps: Gaps) -> Person:
    slug = name.replace(" ", "_")
    concrete = read_json(root / "profile" / "concrete_profile" / f"profile_{slug}.json", gaps)
    about = profile.get("DemographicData")
    basics = about.get("BasicInformation") if isinstance(about, dict) else None
    city = basics.get("Location") if isinstance(basics, dict) else None
    views = {"about": _flat(about), "preferences": _flat(profile.get("Preferences"))}
    if isinstance(concrete, dict):
        views |= {str(section): _flat(value) for section, value in concrete.items()}
    tables = {}
    for table, (folder, required, times, key) in _OF_PERSON.items():
        file = root / "database" / folder / f"{_FILES[table]}_{slug}.csv"
        tables[table] = read_table(file, gaps, required=required.split(), times=times, key=key)
    return Person(
        name, city if isinstance(city, str) else "", {one: text for one, text in views.items() if text}, tables
    )


def _by_city(folder: Path, gaps: Gaps) -> Table:
    """All files of a folder as one table. A table for each city has its city in a column."""
    files = sorted(folder.glob("*.csv")) if folder.is_dir() else []
    if not files:
        gaps.add(folder, "there is no table in it")
        return Table()
    tables = [(file.stem, read_table(file, gaps)) for file in files]
    columns = tuple(dict.fromkeys([*(name for _, table in tables for name in table.columns), "city_of_file"]))
    return Table(columns, tuple({**row, "city_of_file": stem} for stem, table in tables for row in table.rows))


def _document(folder: Path, name: str, gaps: Gaps) -> Any:
    if not (folder / name).exists():
        for pickle in sorted(folder.glob("*.pkl")):
            gaps.add(pickle, f"is a pickle, which isn't read; convert it to {name} in your own Python")
            return None
    return read_json(folder / name, gaps)


def _strings(value: object) -> tuple[str, ...]:
    return (
        tuple(one.strip() for one in value if isinstance(one, str) and one.strip()) if isinstance(value, list) else ()
    )


def _flat(value: object, depth: int = 0) -> str:
    """Nested texts as one text."""
    if depth > _DEEPEST:
        return ""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {text}" for key, each in value.items() if (text := _flat(each, depth + 1)))
    if isinstance(value, list):
        return ", ".join(text for each in value if (text := _flat(each, depth + 1)))
    return "" if value is None else str(value)


def check(folder: str) -> dict[str, Any]:
    """Counts of a copy, and its gaps. Raises SettingsError where nothing can be played."""
    copy = load_copy(folder)
    rows: Counter[str] = Counter()
    for person in copy.persons.values():
        rows.update({table: len(read.rows) for table, read in person.tables.items()})
    rows.update({table: len(read.rows) for table, read in copy.shared.items()})
    rows.update({name: len(value) if isinstance(value, dict) else 0 for name, value in copy.documents.items()})
    return {
        "counts": {
            "persons": len(copy.persons),
            "instructions": len(copy.instructions),
            "tasks": len(copy.persons) * len(copy.instructions),
            "tools": len(copy.schemas),
            "sections": len({schema.section for schema in copy.schemas.values()}),
            "gaps": len(copy.gaps),
        },
        "rows": dict(rows),
        "gaps": [str(gap) for gap in copy.gaps],
    }


SEED = 42
_TEST = 10
One = TypeVar("One")


def shuffled(all_of_them: Sequence[One]) -> list[One]:
    """All of them in a fixed random order."""
    return Seeds(SEED).random("split").sample(all_of_them, len(all_of_them))


def split_of(all_of_them: Sequence[One]) -> dict[str, list[One]]:
    """The members of each split."""
    order = shuffled(all_of_them)
    held = max(1, len(order) // _TEST)
    return {"test": order[:held], "validation": order[held : 2 * held], "train": order[2 * held :]}
