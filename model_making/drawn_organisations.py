"""Draws organisations: YAML files as somebody might write them, each with roles, words and a chart of its own.

`tiny` learns from them to read an event's tags and the hub, and to ignore what differs from one organisation to the
next: titles, notes, roles, the other entries of the day. So words are drawn from a wide range, and half of them are
made up.

    python model_making/drawn_organisations.py FOLDER --count 300 --seed 1
    agentfw run calendar --set environment.organisations=FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml

from agentfw.errors import SettingsError
from agentfw_plugins.worlds.calendar.dataset import Dataset
from agentfw_plugins.worlds.calendar.schema import load_schema, vocabulary

_WORDS: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "drawn_words.yaml").read_text("utf-8"))
_TOPICS = ("delivery", "steering", "people", "learning", "outreach", "admin", "social")
_OUTSIDE = ("client", "partner", "vendor")
_EFFECTS: Sequence[tuple[dict[str, Any], str]] = (
    ({"set": {"due": "today"}}, ""),
    ({"set": {"due": "week"}}, ""),
    ({"set": {"urgency": "high"}}, ""),
    ({"set": {"urgency": "high", "notice": "today"}}, ""),
    ({"add": {"superior": 1}}, "superior"),
    ({"add": {"report": 1}}, "report"),
    ({"add": {"client": 1}}, "client"),
    ({"add": {"partner": 1}}, "partner"),
    ({"add": {"vendor": 1}}, "vendor"),
    ({"set": {"place": "onsite"}}, ""),
    ({"set": {"hold": "fixed"}}, ""),
    ({"set": {"hold": "must"}}, ""),
    ({"set": {"notice": "today"}}, ""),
    ({"set": {"notice": "week"}}, ""),
    ({"set": {"hold": "optional"}, "topics": list(_TOPICS)}, ""),
    ({"add": {"peer": "6-8"}, "topics": ["delivery", "steering", "learning", "outreach", "social"]}, ""),
    ({"longer": 45}, ""),
    ({"only": "peer"}, ""),
    ({"set": {"hold": "fixed"}, "topics": ["personal"]}, ""),
    ({"set": {"notice": "today"}, "topics": ["personal"]}, ""),
)
"""What a conflict reason can do, and the relation that its notes may name."""


class _Writer:
    """Words of one organisation. Half of them exist in no language."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw

    def one_of(self, choices: Sequence[str]) -> str:
        return self.draw.choice(choices)

    def invented(self) -> str:
        return "".join(self.draw.choice(_WORDS["syllables"]) for _ in range(self.draw.randint(2, 3)))

    def thing(self) -> str:
        return self.invented() if self.draw.random() < 0.5 else self.one_of(_WORDS["things"])

    def name(self) -> str:
        return " ".join(self.thing().capitalize() for _ in range(self.draw.randint(1, 2)))

    def note(self, relation: str) -> str:
        who = f"{{{relation}}}" if relation and self.draw.random() < 0.7 else f"the {self.thing()}"
        form = self.draw.random()
        if form < 0.6:
            return f"{who} {self.one_of(_WORDS['doings'])}"
        return f"with {who}" if form < 0.8 or relation else f"{self.thing()} {self.thing()}"

    def title(self, somebody: str) -> str:
        talk, form = self.one_of(_WORDS["talks"]), self.draw.random()
        if somebody and form < 0.4:
            return self.one_of((f"{talk.capitalize()} with {{{somebody}}}", f"{{{somebody}}} {talk}"))
        if form < 0.6:
            return f"{self.one_of(('{project}', 'About {project}'))}: {talk}"
        return f"{self.thing().capitalize()} {talk}"

    def several(self, make: Callable[[], str], least: int, most: int) -> list[str]:
        wanted, found = self.draw.randint(least, most), dict[str, None]()
        while len(found) < wanted:
            found[make()] = None
        return list(found)


def draw_organisation(seed: str) -> dict[str, Any]:
    """The content of one file. It may describe an organisation in which no year can be made."""
    draw = Random(f"organisation {seed}")
    words = _Writer(draw)
    reasons = {
        f"reason_{place}": {**effect, "notes": words.several(lambda named=named: words.note(named), 2, 4)}  # type: ignore[misc]
        for place, (effect, named) in enumerate(_EFFECTS)
    }
    return {
        "organisation": f"{words.thing()} {words.thing()}",
        "names": {"first": words.several(words.name, 3, 8), "second": words.several(words.name, 2, 4)},
        "projects": words.several(words.name, 3, 8),
        "rooms": words.several(lambda: f"{words.name()} room", 2, 5),
        "sites": words.several(lambda: f"the {words.thing()}", 2, 4),
        "outsiders": {
            kind: {"as": f"{words.thing()} {kind}", "firms": words.several(words.name, 3, 5)} for kind in _OUTSIDE
        },
        "reasons": reasons,
        "occasions": _occasions(words),
        "roles": _roles(words, list(reasons)),
    }


def _occasions(words: _Writer) -> list[dict[str, Any]]:
    """Two of each topic, one from outside for each kind of contact, and one of the user's own."""
    found = [_meeting(words, topic, words.one_of(("peer", "peer", "report", "superior"))) for topic in _TOPICS * 2]
    found += [
        _meeting(words, words.one_of(("outreach", "delivery", "admin", "learning")), kind) for kind in _OUTSIDE * 2
    ]
    return [*found, _personal(words)]


def _roles(words: _Writer, reasons: list[str]) -> dict[str, dict[str, Any]]:
    """A tree: one at the top, two to five roles with calendars of their own, and assistants at the bottom."""
    draw = words.draw
    titles = words.several(lambda: f"{words.one_of(_WORDS['ranks'])}{words.one_of(_WORDS['works'])}", 4, 7)
    names = [title.replace(" ", "_") for title in titles]
    roles: dict[str, dict[str, Any]] = {names[0]: {"title": titles[0], "people": 1, "user": False}}
    for place in range(1, len(names)):
        above = names[draw.randrange(max(0, place - 2), place)]
        role: dict[str, Any] = {"title": titles[place], "people": draw.choice((2, "2-3", "3-4")), "reports_to": above}
        # The last is nobody's boss, and gives the role before it somebody to lead.
        last = place == len(names) - 1
        role |= {"reports_to": names[place - 1], "user": False} if last else _calendar(words, reasons)
        roles[names[place]] = role
    # Only bosses can meet people of their own.
    bosses = {role.get("reports_to") for role in roles.values()}
    for name, role in roles.items():
        for meeting in role.get("meetings", ()) if name not in bosses else ():
            _replace(meeting, "report", "peer")
    return roles


def _calendar(words: _Writer, reasons: list[str]) -> dict[str, Any]:
    draw, names = words.draw, list(vocabulary().principles)
    chosen = draw.sample(names, draw.randint(7, 11))
    weights = {name: draw.choice((-3, -2, -2, -1, 1, 2, 2, 3, 3, 4)) for name in chosen}
    for name in chosen[:3]:
        weights[name] = draw.choice((2, 3, 4))
    callers = ["self", "self", "superior", "peer", "report", *draw.sample(_OUTSIDE, 2)]
    cadences = ["weekly", "weekly", "weekly", "biweekly", "weekly", "monthly", "biweekly"]
    count = draw.randint(5, 7)
    meetings = [
        _meeting(words, words.one_of(_TOPICS), caller) | {"cadence": cadence}
        for caller, cadence in zip(callers[:count], cadences[:count], strict=True)
    ]
    return {
        "accepts": draw.choice((0.3, 0.35, 0.4)),
        "meetings": meetings,
        "principles": weights,
        "reasons": draw.sample(reasons, draw.randint(14, len(reasons))),
    }


def _meeting(words: _Writer, topic: str, caller: str) -> dict[str, Any]:
    draw = words.draw
    others = "report" if caller == "self" and draw.random() < 0.5 else "peer"
    least = 1 if caller == "self" else 0
    who = {others: f"{least}-{draw.choice((1, 1, 2, 3, 6))}"} if least or draw.random() < 0.6 else {}
    somebody = "person" if caller != "self" or least else ""
    length = draw.choice((15, 30, 30, 45, 60, 60, 90, 120))
    found: dict[str, Any] = {
        "titles": words.several(lambda: words.title(somebody), 2, 3),
        "topic": topic,
        "minutes": {length: 2, length + 15: 1},
        "by": caller,
        "who": who,
        "place": {place: draw.randint(1, 3) for place in draw.sample(("room", "video", "phone", "onsite"), 2)},
    }
    if draw.random() < 0.4:
        found["hold"] = draw.choice(("must", "fixed", "optional"))
    if draw.random() < 0.3:
        found["soft"] = [draw.choice(("mornings", "afternoons", "no_back_to_back"))]
    return found


def _personal(words: _Writer) -> dict[str, Any]:
    titles = words.several(lambda: words.one_of(_WORDS["errands"]), 3, 5)
    return {
        "titles": titles,
        "topic": "personal",
        "minutes": {45: 1, 60: 1},
        "by": "self",
        "who": {},
        "place": {"onsite": 1},
    }


def _replace(meeting: dict[str, Any], old: str, new: str) -> None:
    if meeting["by"] == old:
        meeting["by"] = new
    if old in meeting["who"]:
        meeting["who"] = {new: meeting["who"][old]}


def write_organisations(folder: Path, count: int, seed: int) -> int:
    """Write `count` files in which a year can be made. Return how many drafts were thrown away."""
    folder.mkdir(parents=True, exist_ok=True)
    kept: set[str] = set()
    tried = 0
    while len(kept) < count:
        path = folder / f"drawn-{seed}-{len(kept):04d}.yaml"
        drawn = draw_organisation(f"{seed} {tried}")
        tried += 1
        if drawn["organisation"] in kept:  # a folder describes each organisation once
            continue
        path.write_text(yaml.safe_dump(drawn, sort_keys=False, allow_unicode=True, width=1000), "utf-8")
        if _works(path):
            kept.add(drawn["organisation"])
        else:
            path.unlink()
    return tried - len(kept)


def _works(path: Path) -> bool:
    """True if each of some users gets the first twenty rounds of a year."""
    try:
        dataset = Dataset(1, (load_schema(path),))
        for name in dataset.users("train")[:5]:
            dataset.calendar(dataset.user(name), rounds=20)
    except SettingsError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="output directory")
    parser.add_argument("--count", type=int, default=300, help="number of organisations")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    thrown_away = write_organisations(given.folder, given.count, given.seed)
    print(f"{given.count} organisations in {given.folder}; {thrown_away} drafts thrown away", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
