"""Reads interactions, items and profiles from files, data frames or rows, and makes numbers of them.

    >>> table = read_interactions([("ana", "museum"), ("ana", "museum"), ("ana", "zoo", 1), ("ana", "zoo", 0)])
    >>> table.likes, table.duplicates, table.contradictions
    ((('ana', 'museum'),), 1, 1)

A table is a path (.csv, .tsv, .jsonl, .parquet), a table of pandas, polars or pyarrow, a mapping, or rows. A row is a
mapping, or a tuple in the order of the columns. An invalid row rejects the whole table, and the error names the row.
The same user and item count once, and of a like and a dislike the later one counts, by time or by order. Users and
items are in the order in which they first occur, so the same table always gives the same dataset.

    >>> data = Dataset.build(read_interactions([("ana", "zoo"), ("bob", "zoo"), ("bob", "sea")]))
    >>> data.users, data.items, popularity(data.likes, 2, "linear").tolist()
    (('ana', 'bob'), ('zoo', 'sea'), [1.0, 0.5])
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInputError, MissingExtraError
from .encoders import Encoder, Float32Array

Profiles = dict[str, dict[str, str]]  # texts by user and view

MAXIMUM_TEXT_LENGTH = 20_000
SINGLE_VIEW = "profile"  # name of the view of a profile that is a single text


@dataclass(frozen=True, slots=True)
class Interactions:
    """Likes and dislikes, once each and in their order, and the number of duplicates and contradictions."""

    likes: tuple[tuple[str, str], ...]
    dislikes: tuple[tuple[str, str], ...]
    duplicates: int
    contradictions: int

    @property
    def facts(self) -> dict[str, int]:
        """Counts of what isn't a like."""
        dislikes = len(self.dislikes)
        return {"dislikes": dislikes, "duplicates": self.duplicates, "contradictions": self.contradictions}


def read_interactions(source: Any, what: str = "interactions") -> Interactions:
    """Read likes and dislikes."""
    latest: dict[tuple[str, str], tuple[float, bool]] = {}
    duplicates = contradictions = 0
    for row in _rows(source, ("user", "item", "value", "time"), what):
        pair, liked, time = (row.name("user"), row.name("item")), row.number("value", 1.0) > 0, row.number("time", 0.0)
        known = latest.get(pair)
        if known is not None:
            duplicates += known[1] == liked
            contradictions += known[1] != liked
        if known is None or time >= known[0]:
            latest[pair] = time, liked
    likes = tuple(pair for pair, (_, liked) in latest.items() if liked)
    dislikes = tuple(pair for pair, (_, liked) in latest.items() if not liked)
    return Interactions(likes, dislikes, duplicates, contradictions)


def read_items(source: Any) -> dict[str, str]:
    """Read the text of each item. Items with an empty text are left out."""
    if isinstance(source, Mapping):
        source = [{"item": item, "text": text} for item, text in source.items()]
    items: dict[str, str] = {}
    for row in _rows(source, ("item", "text"), "items"):
        item = row.name("item")
        text = _text(row.values.get("text"), f"{row.where} (item {item!r})")
        if items.get(item, text) != text:
            raise BadInputError(f'the item "{item}" has two texts', fix="pass one text per item")
        items[item] = text
    return {item: text for item, text in items.items() if text}


def read_profiles(source: Any) -> Profiles:
    """Read the views of each user. Empty views, and users without a view, are left out."""
    if isinstance(source, Mapping):
        profiles = {str(user): read_profile(views, f'the profile of "{user}"') for user, views in source.items()}
    else:
        profiles = {}
        for row in _rows(source, ("user", SINGLE_VIEW), "profiles"):
            user = row.name("user")
            if user in profiles:
                raise BadInputError(f'the user "{user}" has two profiles', fix="pass one row per user")
            views = {name: value for name, value in row.values.items() if name != "user"}
            profiles[user] = read_profile(views, row.where)
    return {user: views for user, views in profiles.items() if views}


def read_profile(views: Any, what: str = "the profile") -> dict[str, str]:
    """Read one profile: a text, or texts by view."""
    if isinstance(views, str):
        views = {SINGLE_VIEW: views}
    if not isinstance(views, Mapping):
        raise BadInputError(f"{what} is neither a string nor a mapping of views", fix="pass {view: text} or a string")
    texts = {str(name): _text(text, f"{what}, view {name!r}") for name, text in views.items()}
    return {name: text for name, text in sorted(texts.items()) if text}


class _Row(NamedTuple):
    """A row of a table, and which row of which table it is."""

    values: Mapping[str, Any]
    where: str

    def name(self, column: str) -> str:
        value = self.values.get(column)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # pandas converts a column of integers with gaps to floats
        name = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
        if not name:
            wrong = f"{self.where} has no valid {column}: {value!r:.80}"
            raise BadInputError(wrong, fix=f"use a name or a number as {column}")
        return name

    def number(self, column: str, default: float) -> float:
        value = self.values.get(column)
        if value is None or value == "":
            return default
        if hasattr(value, "timestamp"):
            value = value.timestamp()
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            wrong = f"{self.where} has an invalid {column}: {value!r:.80}"
            raise BadInputError(wrong, fix=f"use a finite {column}, or none")
        return number


def _rows(source: Any, columns: tuple[str, ...], what: str) -> Iterator[_Row]:
    if isinstance(source, (str, Path)):
        source = _file(Path(source), what)
    elif hasattr(source, "to_pylist"):  # pyarrow
        source = source.to_pylist()
    elif hasattr(source, "to_dicts"):  # polars
        source = source.to_dicts()
    elif hasattr(source, "to_dict"):  # pandas
        source = source.to_dict("records")
    if not isinstance(source, Iterable):
        wrong = f"the {what} are of type {type(source).__name__}, not a table"
        raise BadInputError(wrong, fix="pass a path, a table or rows")
    for place, row in enumerate(source, start=1):
        where = f"row {place} of the {what}"
        if isinstance(row, (tuple, list)) and 2 <= len(row) <= len(columns):
            row = dict(zip(columns, row, strict=False))
        if not isinstance(row, Mapping):
            raise BadInputError(f"{where} is {row!r:.80}", fix=f"pass mappings, or tuples of {', '.join(columns)}")
        if columns[0] not in row:
            fix = f"its columns are {', '.join(map(str, row))}; rename one"
            raise BadInputError(f'{where} has no "{columns[0]}"', fix=fix)
        yield _Row(row, where)


def _file(path: Path, what: str) -> Iterable[Mapping[str, Any]]:
    kind = path.suffix.lower()
    try:
        if kind in (".csv", ".tsv"):
            with path.open(encoding="utf-8-sig", newline="") as lines:
                return list(csv.DictReader(lines, delimiter="," if kind == ".csv" else "\t"))
        if kind == ".jsonl":
            # `splitlines` would also end a line at the separators of Unicode, which JSON leaves in a text.
            return [json.loads(line) for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
        if kind == ".parquet":
            try:
                from pyarrow import parquet
            except ImportError:
                raise MissingExtraError("reading Parquet", "rewardmodels", module="pyarrow") from None
            rows: list[Mapping[str, Any]] = parquet.read_table(path).to_pylist()
            return rows
    except (OSError, ValueError, csv.Error) as error:
        raise BadInputError(f"the {what} in {path} can't be read: {error}", fix="check the file") from error
    raise BadInputError(f"unknown file type: {path}", fix="pass a .csv, .tsv, .jsonl or .parquet file")


def _text(value: Any, where: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):  # how data frames write missing values
        return ""
    if not isinstance(value, str):
        wrong = f"{where} has a value of type {type(value).__name__} instead of a text"
        raise BadInputError(wrong, fix="pass a string")
    if len(value) > MAXIMUM_TEXT_LENGTH:
        wrong = f"{where} has a text of {len(value)} characters"
        raise BadInputError(wrong, fix=f"use at most {MAXIMUM_TEXT_LENGTH} characters")
    return value.strip()


Pairs = NDArray[np.int64]  # array of shape (2, likes): indexes of users, indexes of items
MINIMUM_LIKES_TO_HOLD_OUT = 5  # users with fewer likes keep them all, because one of two would be half of what is known


@dataclass(frozen=True, slots=True)
class Dataset:
    """Users, items and likes. Without texts, the arrays of texts have no dimensions."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    likes: Pairs
    texts: Float32Array  # shape (items, text dimensions); items without a text have zeros
    views: Float32Array  # shape (users, views, text dimensions); missing views are zeros
    view_names: tuple[str, ...]
    facts: Mapping[str, int]  # counts of what isn't a like

    @classmethod
    def build(
        cls,
        interactions: Interactions,
        texts: Mapping[str, str] | None = None,
        profiles: Profiles | None = None,
        encoder: Encoder | None = None,
    ) -> Dataset:
        texts, profiles = texts or {}, profiles or {}
        if not interactions.likes:
            wrong, fix = "the interactions contain no like", "pass at least one interaction with a value above 0"
            raise BadInputError(wrong, fix=fix)
        users = tuple(dict.fromkeys([*(user for user, _ in interactions.likes), *profiles]))
        items = tuple(dict.fromkeys([*(item for _, item in interactions.likes), *texts]))
        if len(items) < 2:
            wrong, fix = "the interactions contain only one item", "pass interactions with two or more items"
            raise BadInputError(wrong, fix=fix)
        view_names = tuple(sorted({name for views in profiles.values() for name in views}))
        return cls(
            users,
            items,
            places_of(interactions.likes, users, items),
            encoded_items(items, texts, encoder),
            encoded_views([profiles.get(user, {}) for user in users], view_names, encoder),
            view_names,
            interactions.facts,
        )

    def without(self, share: float, generator: np.random.Generator) -> tuple[Dataset, Pairs]:
        """Hold out a share of each user's likes. Return the rest and the held-out likes. Users with few keep all."""
        counts = np.bincount(self.likes[0], minlength=len(self.users))
        order = generator.permutation(self.likes.shape[1])
        shuffled = self.likes[:, order]
        by_user = np.argsort(shuffled[0], kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        rank = np.arange(len(by_user)) - np.repeat(starts, counts)
        quota = np.where(counts >= MINIMUM_LIKES_TO_HOLD_OUT, np.maximum(1, np.round(counts * share)), 0)
        held = np.zeros(len(by_user), bool)
        held[order[by_user]] = rank < np.repeat(quota, counts)
        return replace(self, likes=self.likes[:, ~held]), self.likes[:, held]


def places_of(pairs: Sequence[tuple[str, str]], users: Sequence[str], items: Sequence[str]) -> Pairs:
    """Convert pairs of names to pairs of indexes. Pairs with an unknown name are left out."""
    user_place, item_place = ({name: n for n, name in enumerate(names)} for names in (users, items))
    known = [(user_place[user], item_place[item]) for user, item in pairs if user in user_place and item in item_place]
    return np.array(known, np.int64).reshape(-1, 2).T.copy()


def popularity(likes: Pairs, items: int, kind: str) -> Float32Array:
    """Return the popularity of each item from 0 to 1: its likes, or their logarithm, relative to the maximum."""
    counts = np.bincount(likes[1], minlength=items).astype(np.float32)
    if kind == "log":
        counts = np.log1p(counts)
    return np.asarray(counts / np.maximum(counts.max(), 1e-12), np.float32)


def encoded_items(items: Sequence[str], texts: Mapping[str, str], encoder: Encoder | None) -> Float32Array:
    if encoder is None or not texts:
        return np.zeros((len(items), 0), np.float32)
    rows = encoder.encode([texts[item] for item in items if item in texts])
    result = np.zeros((len(items), rows.shape[1]), np.float32)
    result[[item in texts for item in items]] = rows
    return result


def encoded_views(profiles: Sequence[Mapping[str, str]], names: Sequence[str], encoder: Encoder | None) -> Float32Array:
    """Return an array of shape (profiles, views, text dimensions)."""
    if encoder is None or not names:
        return np.zeros((len(profiles), 0, 0), np.float32)
    where = [(row, column) for row, views in enumerate(profiles) for column, name in enumerate(names) if name in views]
    rows = encoder.encode([profiles[row][names[column]] for row, column in where])
    result = np.zeros((len(profiles), len(names), rows.shape[1]), np.float32)
    if where:
        row_places, column_places = map(list, zip(*where, strict=True))
        result[row_places, column_places] = rows
    return result


def read_pairs(source: Any, users: Sequence[str], items: Sequence[str], what: str) -> Pairs:
    """Read the likes between known users and items from a table."""
    return places_of(read_interactions(source, what).likes, users, items)
