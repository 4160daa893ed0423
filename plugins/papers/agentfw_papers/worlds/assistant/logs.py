"""The log of what users liked before the assistant came: what a preference model is fitted on.

A like follows the user's own interest, or what is famous. How often it is which differs between users. Users of the
split train have a long log, all others a short one. The tables have the columns that `agentfw reward fit` reads.

    interactions.csv   user, item, value, time
    items.csv          item, text
    profiles.csv       user, and a column for each view
    world.json         the settings of the world, and counts
    truth.json         the hidden tastes, only if asked for
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from agentfw.runs import write_whole
from agentfw.seeds import Seeds

from .assistant_settings import AssistantSettings
from .catalogue import Catalogue, Item
from .people import People, Person

SPLITS = ("train", "validation", "test")
_LIKES = {"train": 60}
_FEW_LIKES = 4
_FAMOUS = (0.2, 0.6)
"""Range of a user's share of likes that follow fame."""
_SHARPNESS = 20.0
"""How closely the other likes follow interest."""
_FAME_POWER = 3


def likes_of(person: Person, catalogue: Catalogue, seeds: Seeds) -> list[Item]:
    """What a person liked, the oldest first. Nothing is liked twice."""
    generator = seeds.random(person.name)
    famous = generator.uniform(*_FAMOUS)
    left = {name: list(items) for name, items in catalogue.items.items()}
    count = _LIKES.get(person.name.split()[0], _FEW_LIKES)
    found: list[Item] = []
    while len(found) < count and any(left.values()):
        items = left[generator.choice([name for name, some in left.items() if some])]
        found.append(items.pop(_drawn(person, items, generator.random() < famous, generator)))
    return found


def write_logs(folder: Path, settings: AssistantSettings, *, truth: bool = False) -> dict[str, Any]:
    """Write the tables of a world, and return what world.json says. The same settings give the same bytes."""
    people, catalogue = People(settings), Catalogue(settings)
    seeds = Seeds(settings.world).child("logs")
    known = [people.person(name) for split in SPLITS for name in people.names(split)]
    likes = [
        (person.name, item.id, 1, number)
        for person in known
        for number, item in enumerate(likes_of(person, catalogue, seeds))
    ]
    views = ["about", *people.domains]
    profiles = [(person.name, *(person.profile.get(view, "") for view in views)) for person in known]
    items = [(item.id, item.text) for item in catalogue.by_id.values()]
    about = {
        "settings": settings.model_dump(mode="json"),
        "users": {split: settings.users(split) for split in SPLITS},
        "items": len(items),
        "likes": len(likes),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "interactions.csv", _table(("user", "item", "value", "time"), likes))
    write_whole(folder / "items.csv", _table(("item", "text"), items))
    write_whole(folder / "profiles.csv", _table(("user", *views), profiles))
    if truth:
        write_whole(folder / "truth.json", json.dumps({one.name: _hidden(one) for one in known}, indent=1) + "\n")
    write_whole(folder / "world.json", json.dumps(about, indent=2) + "\n")
    return about


def _drawn(person: Person, items: Sequence[Item], famous: bool, generator: Random) -> int:
    if famous:
        weights = [item.fame**_FAME_POWER for item in items]
    else:
        weights = [math.exp(_SHARPNESS * person.interest(item)) for item in items]
    (place,) = generator.choices(range(len(items)), weights)
    return place


def _hidden(person: Person) -> Mapping[str, Any]:
    return {
        "circle": person.circle,
        "tastes": person.tastes,
        "weights": person.weights,
        "conformity": person.conformity,
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[object]] | Iterator[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()
