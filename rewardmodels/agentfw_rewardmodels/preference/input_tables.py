"""Reads interactions, items and profiles from files, data frames or rows.

    >>> table = read_interactions([("ana", "museum"), ("ana", "museum"), ("ana", "zoo", 1), ("ana", "zoo", 0)])
    >>> table.likes, table.duplicates, table.contradictions
    ((('ana', 'museum'),), 1, 1)

A table is a path (.csv, .tsv, .jsonl, .parquet), a table of pandas, polars or pyarrow, a mapping, or rows. Interactions
can also be a graph, see hetero_data.py. A row is a
mapping, or a tuple in the order of the columns. Interactions have the columns `user` and `item`, and optionally `value`
(above 0 is a like, otherwise a dislike) and `time`.

An invalid row rejects the whole table, and the error names the row. Duplicates and contradictions are resolved and
counted: the same user and item count once, and of a like and a dislike the later one counts, by time or by order.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw_rewardmodels.errors import BadInputError, MissingExtraError
from agentfw_rewardmodels.preference.hetero_data import hetero_interactions, is_hetero_data

__all__ = ["Interactions", "Profiles", "read_interactions", "read_items", "read_profile", "read_profiles"]

Profiles = dict[str, dict[str, str]]
"""Texts by user and view."""
MAXIMUM_TEXT_LENGTH = 20_000
SINGLE_VIEW = "profile"
"""Name of the view of a profile that is a single text."""


@dataclass(frozen=True, slots=True)
class Interactions:
    """Likes and dislikes, once each and in their order, and the number of duplicates and contradictions."""

    likes: tuple[tuple[str, str], ...]
    dislikes: tuple[tuple[str, str], ...]
    duplicates: int
    contradictions: int


def read_interactions(source: Any, what: str = "interactions") -> Interactions:
    """Read likes and dislikes."""
    latest: dict[tuple[str, str], tuple[float, bool]] = {}
    if is_hetero_data(source):
        source = hetero_interactions(source)
    duplicates = contradictions = 0
    for place, row in enumerate(_rows(source, ("user", "item", "value", "time"), what), start=1):
        pair = _name(row, "user", what, place), _name(row, "item", what, place)
        liked = _number(row, "value", what, place, 1.0) > 0
        time = _number(row, "time", what, place, 0.0)
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
    for place, row in enumerate(_rows(source, ("item", "text"), "items"), start=1):
        item = _name(row, "item", "items", place)
        text = _text(row.get("text"), f"row {place} of the items (item {item!r})")
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
        for place, row in enumerate(_rows(source, ("user", SINGLE_VIEW), "profiles"), start=1):
            user = _name(row, "user", "profiles", place)
            if user in profiles:
                raise BadInputError(f'the user "{user}" has two profiles', fix="pass one row per user")
            views = {name: value for name, value in row.items() if name != "user"}
            profiles[user] = read_profile(views, f"row {place} of the profiles")
    return {user: views for user, views in profiles.items() if views}


def read_profile(views: Any, what: str = "the profile") -> dict[str, str]:
    """Read one profile: a text, or texts by view."""
    if isinstance(views, str):
        views = {SINGLE_VIEW: views}
    if not isinstance(views, Mapping):
        raise BadInputError(f"{what} is neither a string nor a mapping of views", fix="pass {view: text} or a string")
    texts = {str(name): _text(text, f"{what}, view {name!r}") for name, text in views.items()}
    return {name: text for name, text in sorted(texts.items()) if text}


def _rows(source: Any, columns: tuple[str, ...], what: str) -> Iterator[Mapping[str, Any]]:
    if isinstance(source, (str, Path)):
        source = _file(Path(source), what)
    elif hasattr(source, "to_pylist"):  # pyarrow
        source = source.to_pylist()
    elif hasattr(source, "to_dicts"):  # polars
        source = source.to_dicts()
    elif hasattr(source, "to_dict"):  # pandas
        source = source.to_dict("records")
    if not isinstance(source, Iterable):
        raise BadInputError(
            f"the {what} are of type {type(source).__name__}, not a table", fix="pass a path, a table or rows"
        )
    for place, row in enumerate(source, start=1):
        if isinstance(row, Mapping):
            if columns[0] not in row:
                names = ", ".join(map(str, row))
                raise BadInputError(
                    f'row {place} of the {what} has no "{columns[0]}"', fix=f"its columns are {names}; rename one"
                )
            yield row
        elif isinstance(row, (tuple, list)) and 2 <= len(row) <= len(columns):
            yield dict(zip(columns, row, strict=False))
        else:
            wanted = ", ".join(columns)
            raise BadInputError(
                f"row {place} of the {what} is {row!r:.80}", fix=f"pass mappings, or tuples of {wanted}"
            )


def _file(path: Path, what: str) -> Iterable[Mapping[str, Any]]:
    kind = path.suffix.lower()
    try:
        if kind in (".csv", ".tsv"):
            with path.open(encoding="utf-8-sig", newline="") as lines:
                return list(csv.DictReader(lines, delimiter="," if kind == ".csv" else "\t"))
        if kind == ".jsonl":
            return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        if kind == ".parquet":
            return _parquet(path)
    except (OSError, ValueError, csv.Error) as error:
        raise BadInputError(f"the {what} in {path} can't be read: {error}", fix="check the file") from error
    raise BadInputError(f"unknown file type: {path}", fix="pass a .csv, .tsv, .jsonl or .parquet file")


def _parquet(path: Path) -> list[Mapping[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("reading Parquet", "rewardmodels", module="pyarrow") from None
    rows: list[Mapping[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def _name(row: Mapping[str, Any], column: str, what: str, place: int) -> str:
    value = row.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # pandas converts a column of integers with gaps to floats
    name = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not name:
        raise BadInputError(
            f"row {place} of the {what} has no valid {column}: {value!r:.80}", fix=f"use a name or a number as {column}"
        )
    return name


def _number(row: Mapping[str, Any], column: str, what: str, place: int, default: float) -> float:
    value = row.get(column)
    if value is None or value == "":
        return default
    if hasattr(value, "timestamp"):
        value = value.timestamp()
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadInputError(
            f"row {place} of the {what} has an invalid {column}: {value!r:.80}", fix=f"use a finite {column}, or none"
        )
    return number


def _text(value: Any, where: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):  # how data frames write missing values
        return ""
    if not isinstance(value, str):
        raise BadInputError(
            f"{where} has a value of type {type(value).__name__} instead of a text", fix="pass a string"
        )
    if len(value) > MAXIMUM_TEXT_LENGTH:
        raise BadInputError(
            f"{where} has a text of {len(value)} characters", fix=f"use at most {MAXIMUM_TEXT_LENGTH} characters"
        )
    return value.strip()
