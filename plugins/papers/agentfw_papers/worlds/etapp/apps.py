"""What the tools of one episode work on: the person's tables, which calls really change.

A tool of which the copy has no data answers so, and is counted. An answer has at most 8,192 characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from agentfw.errors import InterventionRefused

from .copy_of_etapp import Copy, Person
from .queries import column_of, search, select, time_of
from .reading import parse_time
from .schemas import Schema, words_of

NO_DATA = "no data here"
_LONGEST = 8192
_MOST_ROWS = 50
_HOUR = timedelta(hours=1)
_NUMBER = re.compile("[0-9]{1,9}")


class Apps:
    """The apps of one person at one time."""

    def __init__(self, copy: Copy, person: Person, now: datetime) -> None:
        self.copy, self.person, self.now = copy, person, now
        self.tables: dict[str, list[dict[str, str]]] = {
            name: [dict(row) for row in table.rows] for name, table in person.tables.items()
        }
        self.devices: dict[str, dict[str, Any]] = {}
        self.playing = ""
        self.effects: list[dict[str, str]] = []
        self.without_data: set[str] = set()
        """Tools of whose table the copy has nothing."""

    def call(self, schema: Schema, arguments: Mapping[str, Any]) -> tuple[str, dict[str, str] | None]:
        """Carry out one call. Returns the answer, and what took hold."""
        _check_arguments(schema, arguments)
        effect: dict[str, str] | None = None
        if schema.work.verb == "read":
            answer = self._read(schema, arguments)
        else:
            change = {
                "add": self._add,
                "remove": self._remove,
                "send": self._send,
                "play": self._play,
                "control": self._control,
            }[schema.work.verb]
            text = change(schema, arguments)
            effect = {"item": f"{schema.work.table} {text}", "text": text, "verdict": ""}
            self.effects.append(effect)
            answer = json.dumps({"done": text}, ensure_ascii=False)
        return answer[:_LONGEST], effect

    # Reading

    def _read(self, schema: Schema, arguments: Mapping[str, Any]) -> str:
        table = schema.work.table
        if table == "devices":
            return json.dumps({"devices": self.devices}, ensure_ascii=False)
        if table == "weather":
            return self._weather(schema, arguments)
        rows = self._rows(table)
        if not rows and not self._has(table):
            return self._nothing(schema)
        words = words_of(schema.name)
        if "today" in words:
            rows = [row for row in rows if (time := time_of(row)) and time.date() == self.now.date()]
        if {"now", "current", "recent"} & set(words):
            rows = [row for row in rows if (time := time_of(row)) is None or time <= self.now]
        found, unused = select(rows, arguments, self.now)
        answer: dict[str, Any] = {"count": len(found), "rows": found[:_MOST_ROWS]}
        if unused:
            answer["not_used"] = unused
        return json.dumps(answer, ensure_ascii=False)

    def _rows(self, table: str) -> list[dict[str, str]]:
        if table in self.tables:
            return self.tables[table]
        if table == "news":
            return _news(self.copy.documents.get("news"))
        return list(self.copy.shared[table].rows)

    def _has(self, table: str) -> bool:
        """Whether the copy has this table, even if it has no rows."""
        if table == "news":
            return isinstance(self.copy.documents.get("news"), dict)
        return bool(self.person.tables[table].columns if table in self.tables else self.copy.shared[table].columns)

    def _weather(self, schema: Schema, arguments: Mapping[str, Any]) -> str:
        known = self.copy.documents.get("weather")
        if not isinstance(known, dict):
            return self._nothing(schema)
        texts = [str(value).casefold() for value in arguments.values()]
        asked = [place for place in known if place.casefold() in texts or any(place.casefold() in one for one in texts)]
        place = (
            asked[0] if asked else next((one for one in known if one.casefold() in self.person.city.casefold()), None)
        )
        if place is None or not isinstance(known[place], dict):
            return json.dumps({"count": 0, "rows": []})
        dates = [date for date in known[place] if any(date in one for one in texts)] or [self.now.date().isoformat()]
        return json.dumps({"place": place, **{date: known[place].get(date) for date in dates}}, ensure_ascii=False)

    def _nothing(self, schema: Schema) -> str:
        self.without_data.add(schema.name)
        return NO_DATA

    # Changing

    def _add(self, schema: Schema, arguments: Mapping[str, Any]) -> str:
        table = schema.work.table
        rows = self.tables[table]
        columns = list(self.person.tables[table].columns) or list(arguments)
        row = dict.fromkeys(columns, "")
        for name, value in arguments.items():
            row[column_of(name, columns) or name] = str(value)
        if table == "events":
            self._check_event(row)
        elif table == "alarms":
            self._check_alarm(row)
        elif table == "carts":
            row |= self._product(arguments)
        if "id" in row and not row["id"]:
            numbers = [int(one["id"]) for one in rows if _NUMBER.fullmatch(one.get("id", ""))]
            row["id"] = str(max(numbers, default=0) + 1)
        rows.append(row)
        return f"added to {table}: {_named(row)}"

    def _check_event(self, row: dict[str, str]) -> None:
        start = parse_time(row.get("start_time"))
        if start is None:
            raise InterventionRefused("start_time must be a time such as 2024-09-06 08:30:00")
        end = parse_time(row.get("end_time")) or start + _HOUR
        if end <= start:
            raise InterventionRefused("the event ends before it starts")
        for other in self.tables["events"]:
            since, until = parse_time(other.get("start_time")), parse_time(other.get("end_time"))
            if since and until and since < end and start < until:
                raise InterventionRefused(
                    f'there is "{other.get("title", "an event")}" from {since} to {until} already'
                )
        row["start_time"], row["end_time"] = str(start), str(end)

    def _check_alarm(self, row: dict[str, str]) -> None:
        time = parse_time(row.get("alarm_time"))
        if time is None:
            raise InterventionRefused("alarm_time must be a time such as 2024-09-06 07:00:00")
        if any(parse_time(other.get("alarm_time")) == time for other in self.tables["alarms"]):
            raise InterventionRefused(f"there is an alarm at {time} already")
        row["alarm_time"] = str(time)

    def _product(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        products = [dict(row) for row in self.copy.shared["products"].rows]
        asked = {name: value for name, value in arguments.items() if "quantity" not in words_of(name)}
        found, _ = select(products, asked, None)
        if not products or not asked or not found:
            raise InterventionRefused("there is no such product; search for products first")
        return {name: found[0][name] for name in ("asin", "product_title", "product_price") if name in found[0]}

    def _remove(self, schema: Schema, arguments: Mapping[str, Any]) -> str:
        table = schema.work.table
        found, unused = select(self.tables[table], arguments, None)
        if not arguments or unused or not found:
            raise InterventionRefused(f"nothing in {table} fits these arguments")
        exact = [row for row in found if any(str(value) == row.get("id") for value in arguments.values())]
        gone = (exact or found)[0]
        self.tables[table] = [row for row in self.tables[table] if row is not gone]
        return f"removed from {table}: {_named(gone)}"

    def _send(self, schema: Schema, arguments: Mapping[str, Any]) -> str:
        columns = list(self.person.tables["emails"].columns) or ["receiver", "subject", "content"]
        row = dict.fromkeys(columns, "")
        row |= {column_of(name, columns) or name: str(value) for name, value in arguments.items()}
        if not row.get("receiver", "").strip():
            raise InterventionRefused("there is no receiver")
        row |= {"sender": self.person.name, "timestamp": str(self.now), "status": "sent"}
        self.tables["emails"].append(row)
        return f"sent to {row['receiver']}: {row.get('subject') or row.get('content', '')}"

    def _play(self, schema: Schema, arguments: Mapping[str, Any]) -> str:
        wanted = " ".join(str(value) for value in arguments.values()).strip()
        if not wanted:
            raise InterventionRefused("say what to play")
        known = [dict(row) for row in self.copy.shared["music"].rows] + self.tables["favorites"]
        exact = [row for row in known if row.get("title", "").casefold() == wanted.casefold()]
        found = exact or search(known, wanted, 1)
        if not found:
            raise InterventionRefused(f"there is no music like {wanted[:100]!r}")
        self.playing = _named(found[0])
        return f"playing {self.playing}"

    def _control(self, schema: Schema, arguments: Mapping[str, Any]) -> str:
        if not arguments:
            raise InterventionRefused("say what to set")
        device = " ".join(words_of(schema.name)[1:]).removesuffix(" in home")
        self.devices.setdefault(device, {}).update(arguments)
        return f"{device}: {', '.join(f'{name} {value}' for name, value in arguments.items())}"


def _check_arguments(schema: Schema, arguments: Mapping[str, Any]) -> None:
    """Check names and required arguments against the schema of the copy."""
    known = schema.parameters.get("properties")
    known = known if isinstance(known, dict) else {}
    required = schema.parameters.get("required")
    unknown = [name for name in arguments if name not in known]
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    missing = [name for name in needed if name not in arguments]
    if unknown or missing:
        what = f"has no argument {unknown[0][:100]}" if unknown else f"needs the argument {missing[0]}"
        raise InterventionRefused(f"{schema.name} {what}; it has: {', '.join(known) or 'none'}")
    for name, value in arguments.items():
        kind = known[name].get("type") if isinstance(known[name], dict) else None
        fits = {
            "string": isinstance(value, str),
            "integer": isinstance(value, int) and not isinstance(value, bool),
            "number": isinstance(value, (int, float)) and not isinstance(value, bool),
            "boolean": isinstance(value, bool),
            "array": isinstance(value, list),
            "object": isinstance(value, dict),
        }
        if not fits.get(kind, True) if isinstance(kind, str) else False:
            raise InterventionRefused(f"{schema.name}: {name} must be of type {kind}")


def _news(document: object) -> list[dict[str, str]]:
    """The news of all categories as rows."""
    if not isinstance(document, dict):
        return []
    return [
        {"category": str(category), **{str(name): str(value) for name, value in one.items()}}
        for category, some in document.items()
        if isinstance(some, list)
        for one in some
        if isinstance(one, dict)
    ]


def _named(row: Mapping[str, str]) -> str:
    """A row in a few words."""
    names = ("title", "product_title", "subject", "message", "alarm_time")
    said = [str(row[name]) for name in (*names, "artist", "start_time") if row.get(name)]
    return ", ".join(dict.fromkeys(said)) or ", ".join(value for value in row.values() if value)[:200]
