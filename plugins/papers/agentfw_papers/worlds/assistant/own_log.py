"""Requests made of a log of your own: find what the user liked next.

    FOLDER/interactions.csv   user, item: what is known, also to a preference model
    FOLDER/requests.csv       user, item: what users liked later, in order; each row is one request
    FOLDER/items.csv          item, text
    FOLDER/profiles.csv       user, and any views; may be missing

The offers of a request are the liked item and others of nearly the same popularity, some more popular and some less.
How many of each is drawn, so popularity doesn't say which it is. The satisfaction is 1 if the liked item is chosen, and
0 otherwise. Tastes are neither known nor needed.
"""

from __future__ import annotations

import csv
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agentfw.errors import SettingsError
from agentfw.printing.out import docs_page
from agentfw.seeds import Seeds

from .assistant_settings import AssistantSettings
from .catalogue import Item, Scenario
from .errands import Errand, Errands, Part
from .people import Person

_SCENARIO = Scenario("log", ("item_search", "item_take"), False, "items", (), (), {})
_REQUEST = "Find something that I'd like."
_GUIDE = docs_page("plugins/papers/docs/guides/assistant.md")
_SHARES = {"train": 0.6, "validation": 0.75, "test": 1.0}
"""Where each split ends, as a share of the users."""


@dataclass(frozen=True, slots=True)
class _Customer(Person):
    """A user of the log, of whom nothing but the next like is known."""

    liked: str

    def interest(self, item: Item) -> float:
        return float(item.id == self.liked)


class OwnLog(Errands):
    """The errands of a log."""

    def __init__(self, settings: AssistantSettings) -> None:
        self.settings, self.domains = settings, {_SCENARIO.name: _SCENARIO}
        self._made: dict[tuple[str, int], Errand] = {}
        self._folder = Path(settings.logs).expanduser()
        self._seeds = Seeds(settings.world).child("own log")
        likes = self._pairs("interactions.csv")
        counts = Counter(item for _, item in likes)
        most = max(counts.values(), default=1)
        self._items = {
            row["item"]: Item(row["item"], _SCENARIO.name, row["text"], {}, (), counts[row["item"]] / most)
            for row in self._rows("items.csv", "item", "text")
        }
        self._liked: dict[str, set[str]] = {}
        self._requests: dict[str, list[str]] = {}
        for user, item in self._pairs("requests.csv"):
            if item not in self._items:
                raise self._wrong("requests.csv", f'items.csv has no item "{item}"')
            self._requests.setdefault(user, []).append(item)
        for user, item in [*likes, *self._pairs("requests.csv")]:
            self._liked.setdefault(user, set()).add(item)
        self._profiles = {row.pop("user"): _said(row) for row in self._rows("profiles.csv", "user", needed=False)}
        self._turns = {split: self._in_order(split) for split in _SHARES}

    def turn(self, split: str, index: int) -> tuple[str, int]:
        turns, number = self._turns.get(split, ()), index + self.settings.skip
        if number >= len(turns):
            raise SettingsError(
                f"environment.logs: {self._folder} has {len(turns):,} requests of the split {split}",
                fix="play fewer episodes, or add rows to requests.csv",
            )
        return turns[number]

    def knows(self, user: str, split: str) -> bool:
        return self._split(user) == split and user in self._requests

    def query(self, user: str, day: int) -> str:
        return f"{_SCENARIO.name} {user} {day}"

    def _make(self, user: str, day: int) -> Errand:
        requests = self._requests[user]
        liked, generator = self._items[requests[(day - 1) % len(requests)]], self._seeds.random(user, day)
        others = [item for item in self._items.values() if item.id not in self._liked[user]]
        if len(others) < self.settings.offers - 1:
            raise self._wrong("items.csv", f'there are too few items that "{user}" didn\'t like')
        offers = [liked, *self._of_like_fame(liked, others, generator)]
        generator.shuffle(offers)
        fault = self._faults(1, generator)[0]
        part = Part(_SCENARIO, tuple(offers), fault, "")
        about = self._profiles.get(user, "")
        nothing: Mapping[str, Mapping[str, str]] = {_SCENARIO.name: {}}
        person = _Customer(
            user,
            0,
            tastes=nothing,
            second=nothing,
            weights={_SCENARIO.name: {}},
            conformity=0.0,
            centre=0.0,
            scale=1.0,
            stated=nothing,
            profile={"about": about} if about else {},
            liked=liked.id,
        )
        return Errand(person, day, self.query(user, day), _REQUEST, False, (part,))

    # Helpers

    def _of_like_fame(self, liked: Item, others: list[Item], generator: Random) -> list[Item]:
        """The neighbours of an item in the order of fame, of which as many may be more famous as less."""
        generator.shuffle(others)  # the order of those of one fame
        others.sort(key=lambda item: item.fame)
        fame, count = [item.fame for item in others], self.settings.offers - 1
        place = generator.randint(bisect_left(fame, liked.fame), bisect_right(fame, liked.fame))
        start = min(max(place - generator.randint(0, count), 0), len(others) - count)
        return others[start : start + count]

    def _split(self, user: str) -> str:
        place = self._seeds.random("split", user).random()
        return next(split for split, end in _SHARES.items() if place < end)

    def _in_order(self, split: str) -> list[tuple[str, int]]:
        """Day after day, the users who still have a request."""
        users = [user for user in self._requests if self._split(user) == split]
        days = max((len(self._requests[user]) for user in users), default=0)
        return [(user, day) for day in range(1, days + 1) for user in users if day <= len(self._requests[user])]

    def _pairs(self, name: str) -> list[tuple[str, str]]:
        return [(row["user"], row["item"]) for row in self._rows(name, "user", "item")]

    def _rows(self, name: str, *columns: str, needed: bool = True) -> list[dict[str, str]]:
        path = self._folder / name
        if not needed and not path.exists():
            return []
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise self._wrong(name, f"it can't be read: {error}") from None
        if any(not row.get(column) for row in rows for column in columns) or (needed and not rows):
            raise self._wrong(name, f"it needs rows with {' and '.join(columns)}")
        return rows

    def _wrong(self, name: str, what: str) -> SettingsError:
        return SettingsError(
            f"environment.logs: {self._folder / name}: {what}",
            fix=f"write interactions.csv, requests.csv and items.csv, as {_GUIDE} says",
        )


def _said(row: Mapping[str, str]) -> str:
    return "; ".join(f"{view}: {text}" for view, text in row.items() if text)
