"""Which episodes are shown: a filter that is kept in the address of the page, and the rows that it finds."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from agentfw.errors import UnknownNameError, UsageError
from agentfw.runs import EPISODE_FIGURES, Figure

from .index_rows import words_to_find

Row = dict[str, Any]  # what the index says of an episode, with the names of its run and its place

_PAGE = 50
_CHOICES = 300  # maximum number of values of a list to choose from. More are found by typing

FAILURES = {
    "any": ("any failure", "e.failures > 0"),
    "failed": ("a request that failed", "e.failed > 0"),
    "refused": ("refused or failed call", "e.refused > 0"),
    "not_understood": ("an answer not understood", "e.not_understood > 0"),
    "empty": ("an empty answer", "e.empty > 0"),
    "cut_off": ("cut off", "e.cut_off > 0"),
    "left_out": ("left out after an error", "e.state = 'left out'"),
    "damaged": ("damaged", "e.state = 'damaged'"),
    "none": ("no failure", "e.failures = 0"),
}
MARKS = {"star": "star", "note": "note", "rated": "rating", "unrated": "rating"}
"""What episodes can be marked with, as the filter calls it. Tags come as `tag NAME`."""
_COUNTED = ("reward", "turns", "calls", "prompt_tokens", "cached_tokens", "tokens", "seconds", "cost")
"""Figures that the index has as columns of their own, also of sessions in progress."""
_LISTED = (
    *(
        replace(figure, title="tokens out") if name == "tokens" else figure
        for name, figure in EPISODE_FIGURES.items()
        if figure.listed or name == "prompt_tokens"
    ),
    Figure("seconds", "time", lambda record: None, unit="s"),
)
"""The figures that lists of episodes have as columns, where any episode has them."""
SORTS = {
    **{name: f"json_extract(e.figures, '$.{name}')" for name in EPISODE_FIGURES},
    **{name: f"e.{name}" for name in (*_COUNTED, "began", "headline", "failures", "user")},
}
_OUTCOME = re.compile(r"\s*(.+?)\s*(<=|>=|<|>|=)\s*(-?[\d.]+(?:e-?\d+)?)\s*", re.I)
_PHRASE = re.compile(r'"([^"]*\w[^"]*)"')
_COLUMNS = (
    "e.*, r.name AS run_name, r.folder AS run_folder, p.stage, p.number, p.folder,"
    " json_extract(r.about, '$.headline') AS figure"
)
_SUMS = (
    "count(*) AS episodes, sum(e.failures > 0) AS failed, avg(e.reward) AS reward, avg(e.headline) AS headline,"
    " sum(e.tokens) AS tokens"
)
_FROM = "FROM episodes e JOIN runs r ON r.id = e.run JOIN places p ON p.id = e.place"


@dataclass(frozen=True)
class Filter:
    """What was asked for. Everything is a text, as in the address."""

    run: str = ""
    stage: str = ""
    user: str = ""
    least: str = ""
    most: str = ""
    outcome: str = ""
    ended: str = ""
    tool: str = ""
    failure: str = ""
    version: str = ""
    mark: str = ""
    text: str = ""
    sort: str = ""
    order: str = ""
    page: str = ""

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Filter:
        return cls(**{item.name: values.get(item.name, "").strip() for item in fields(cls)})

    def address(self, **changes: str) -> str:
        """The query of the address, without what isn't set."""
        values = asdict(replace(self, **changes))
        return "?" + urlencode({name: value for name, value in values.items() if value})

    def sorted_by(self, name: str) -> str:
        """The address that sorts by this column, or the other way round if it is sorted so already."""
        down = "up" if self.sort == name and self.order != "up" else ""
        return self.address(sort=name, order=down, page="")

    @property
    def is_set(self) -> bool:
        return any(getattr(self, item.name) for item in fields(self) if item.name not in ("sort", "order", "page"))

    def conditions(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """The conditions in SQL, with their values."""
        asked = ((self.user, "e.user = ?"), (self.version, "e.version = ?"), (self.ended, "e.finish = ?"))
        of_run = (self.run, "e.run IN (SELECT id FROM runs WHERE name = ?)")
        yield from ((sql, (value,)) for value, sql in (*asked, of_run) if value)
        if self.stage:
            stage, _, number = self.stage.partition(" ")
            yield "e.place IN (SELECT id FROM places WHERE stage = ?)", (stage if stage != "run" else "",)
            if number:
                yield "e.place IN (SELECT id FROM places WHERE number = ?)", (_number(number, "stage"),)
        for limit, sql, what in ((self.least, ">= ?", "the lowest reward"), (self.most, "<= ?", "the highest reward")):
            if limit:
                yield f"e.reward {sql}", (_number(limit, what),)
        if self.outcome:
            if (named := _OUTCOME.fullmatch(self.outcome)) is None:
                fix = "use a figure, < or >, and a number: error>0.5"
                raise UsageError(f'can\'t read the outcome "{self.outcome}"', fix=fix)
            name, comparison, number = named.groups()
            yield f"json_extract(e.figures, ?) {comparison} ?", (f'$."{name}"', _number(number, "the outcome"))
        if self.tool:
            escaped = re.sub(r"([\\%_])", r"\\\1", self.tool)
            yield "e.tools LIKE ? ESCAPE '\\'", (f"% {escaped} %",)
        if self.failure:
            if self.failure not in FAILURES:
                raise UsageError(f"there is no failure {self.failure}", fix=f"use one of: {', '.join(FAILURES)}")
            yield FAILURES[self.failure][1], ()
        if self.mark:
            what, _, tag = self.mark.partition(" ")
            if not tag and what not in MARKS:
                raise UsageError(f"nothing has the mark {what}", fix=f"use one of: {', '.join(MARKS)}, tag NAME")
            yield f"{'NOT ' if what == 'unrated' else ''}marked(e.place, e.episode, ?)", (tag or MARKS[what],)
        if self.text:
            words = words_to_find(self.text)
            if not words:
                raise UsageError(f"there is no word in {self.text}", fix="search for words, names or numbers")
            matching = "SELECT episode FROM texts WHERE id IN (SELECT rowid FROM said WHERE said MATCH ?)"
            # All of them, each also as the beginning of a longer one.
            yield f"e.id IN ({matching})", (" ".join(f'"{word}"*' for word in words),)
            for phrase in _PHRASE.findall(self.text):
                yield "says(e.id, ?)", (phrase,)


@dataclass(frozen=True)
class Found:
    """A page of episodes."""

    rows: list[Row]
    count: int
    page: int
    pages: int
    failed: int  # how many of them have a request that failed, unless that was asked for


def find(rows: sqlite3.Connection, wanted: Filter) -> Found:
    """The episodes of one page, and how many there are."""
    # Looking for words costs more than putting all that have them in order, so it is done once.
    said = ordered(rows, wanted) if wanted.text else []
    number = len(said) if wanted.text else count(rows, wanted)
    pages = max(1, -(-number // _PAGE))
    page = min(pages, max(1, int(wanted.page) if wanted.page.isdecimal() else 1))
    since = (page - 1) * _PAGE
    ids = said[since : since + _PAGE] if wanted.text else ordered(rows, wanted, _PAGE, since)
    if wanted.failure:
        failed = 0
    elif wanted.text:
        failed = len({one for (one,) in rows.execute("SELECT id FROM episodes WHERE failed > 0")} & set(said))
    else:
        failed = count(rows, replace(wanted, failure="failed"))
    return Found(shown_rows(rows, ids), number, page, pages, failed)


def count(rows: sqlite3.Connection, wanted: Filter) -> int:
    """How many episodes are wanted."""
    where, values = _where(wanted)
    [number] = rows.execute(f"SELECT count(*) FROM episodes e {where}", values).fetchone()
    return int(number)


def select(rows: sqlite3.Connection, wanted: Filter) -> list[Row]:
    """All episodes that are wanted."""
    return shown_rows(rows, ordered(rows, wanted))


def address(row: Row) -> str:
    """What names an episode in the address of a page: its folder below the runs, and its id."""
    return "/".join(filter(None, (row["folder"], row["episode"])))


def episode_at(rows: sqlite3.Connection, name: str) -> Row:
    """The episode of this name: its folder below the runs, and its id."""
    folder, _, episode = name.rpartition("/")
    found = _rows(rows, "p.folder = ? AND e.episode = ?", folder, episode)
    if not found:
        raise UnknownNameError("episode", name, (), fix="go back to the list; its run may have been deleted")
    return found[0]


def listed_figures(rows: Sequence[Row], sort: str = "") -> list[Figure]:
    """The figures that a list of these episodes has as columns: those that any of them has."""
    return [one for one in _LISTED if one.name == sort or any(row["figures"].get(one.name) is not None for row in rows)]


def run_at(rows: sqlite3.Connection, folder: str) -> dict[str, Any]:
    """The run in this folder below the runs."""
    row = rows.execute("SELECT * FROM runs WHERE folder = ?", (folder,)).fetchone()
    if row is None:
        raise UnknownNameError("run", folder, (), fix="go back to the list; it may have been deleted")
    return dict(row)


def ordered(rows: sqlite3.Connection, wanted: Filter, limit: int = -1, offset: int = 0) -> list[int]:
    """The ids of the episodes that are wanted, in their order."""
    where, values = _where(wanted)
    column = SORTS.get(wanted.sort) if wanted.sort else "e.broken DESC, e.began"
    if column is None:
        raise UsageError(f"can't sort by {wanted.sort}", fix=f"use one of: {', '.join(SORTS)}")
    way = "ASC" if wanted.order == "up" else "DESC"
    order = f"ORDER BY {column} {way} NULLS LAST, e.id {way} LIMIT ? OFFSET ?"
    found = rows.execute(f"SELECT e.id FROM episodes e {where} {order}", (*values, limit, offset))
    return [number for (number,) in found]


def shown_rows(rows: sqlite3.Connection, ids: Sequence[int]) -> list[Row]:
    """These episodes, in this order."""
    found = _rows(rows, "e.id IN (SELECT value FROM json_each(?))", json.dumps(list(ids)))
    known = {row["id"]: row for row in found}
    return [known[number] for number in ids]


def of_task(rows: sqlite3.Connection, row: Row) -> list[Row]:
    """The episodes of the same task in all runs, in the order in which they were played."""
    if row["task"] is None:
        return [row]
    same = "e.task = ? AND e.environment = ? ORDER BY e.began, p.number, p.stage, e.sample LIMIT 500"
    return _rows(rows, same, row["task"], row["environment"])


def parts_of(rows: sqlite3.Connection, row: Row) -> list[Row]:
    """The sessions of the sub-agents of a session, in the order in which they began."""
    below = "e.parent > '' AND e.parent = ? AND e.run = ? ORDER BY e.began LIMIT 20"
    return _rows(rows, below, row["query"], row["run"])


def run_rows(rows: sqlite3.Connection, limit: int = -1) -> list[dict[str, Any]]:
    """The runs, the newest first, with how many of their episodes failed."""
    found = rows.execute("SELECT * FROM runs ORDER BY began DESC, name DESC LIMIT ?", (limit,)).fetchall()
    counted = "count(*) AS episodes, sum(failures > 0) AS failed, avg(reward) AS reward"
    counts = [rows.execute(f"SELECT {counted} FROM episodes WHERE run = ?", (run["id"],)).fetchone() for run in found]
    return [{**dict(run), "about": json.loads(run["about"]), **dict(of)} for run, of in zip(found, counts, strict=True)]


def divided(rows: sqlite3.Connection, run: int) -> dict[str, list[dict[str, Any]]]:
    """The episodes of a run by user and by version, those with most failures and the least reward first."""
    found = {}
    for name in ("user", "version"):
        of_run = f"FROM episodes e WHERE run = ? AND {name} > '' GROUP BY {name}"
        worst = "ORDER BY avg(failures > 0) DESC, avg(reward) LIMIT 12"
        found[name] = [dict(row) for row in rows.execute(f"SELECT {name} AS value, {_SUMS} {of_run} {worst}", (run,))]
    return {name: values for name, values in found.items() if len(values) > 1}


def trainings(rows: sqlite3.Connection) -> list[str]:
    """The names of the trainings, the newest first."""
    trained = "json_extract(about, '$.updates') > 0"
    return [name for (name,) in rows.execute(f"SELECT name FROM runs WHERE {trained} ORDER BY began DESC LIMIT 50")]


def stage_rows(rows: sqlite3.Connection, run: int) -> list[dict[str, Any]]:
    """The evaluations and rollouts of a run in their order, with how many episodes each has and how they did."""
    of_run = "FROM episodes e JOIN places p ON p.id = e.place WHERE e.run = ?"
    sql = f"SELECT p.stage, p.number, {_SUMS} {of_run} GROUP BY p.id ORDER BY p.number DESC, p.stage DESC"
    return [dict(row) for row in rows.execute(sql, (run,))]


def choices(rows: sqlite3.Connection) -> dict[str, list[str]]:
    """The values that each list of the filter offers."""
    asked = {
        "run": "SELECT name FROM runs ORDER BY began DESC",
        "user": "SELECT DISTINCT user FROM episodes WHERE user > '' ORDER BY user",
        "ended": "SELECT DISTINCT finish FROM episodes WHERE finish > ''",
        "tool": "SELECT name FROM tools ORDER BY name",
        "version": "SELECT DISTINCT version FROM episodes WHERE version > '' ORDER BY version",
        "stage": "SELECT DISTINCT stage || ' ' || number FROM places WHERE stage > '' ORDER BY stage, number",
    }
    return {name: [row[0] for row in rows.execute(f"{sql} LIMIT {_CHOICES}")] for name, sql in asked.items()}


def _rows(rows: sqlite3.Connection, where: str, *values: object) -> list[Row]:
    """Episodes of the index, with their figures as numbers."""
    found = [dict(row) for row in rows.execute(f"SELECT {_COLUMNS} {_FROM} WHERE {where}", values)]
    for row in found:
        row["figures"] = json.loads(row["figures"] or "{}") | {name: row[name] for name in _COUNTED}
    return found


def _where(wanted: Filter) -> tuple[str, list[object]]:
    found = list(wanted.conditions())
    if not found:
        return "", []
    return "WHERE " + " AND ".join(sql for sql, _ in found), [value for _, values in found for value in values]


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f'"{text}" is no number', fix=f"use a number for {what}") from None
