"""What was recorded, as text for programs and agents: an outline first, then any part by its address.

    agentfw view --text last                          the run, its failures first
    agentfw view --text 'last?text=dentist&user=ada'  those episodes of it that a filter of the page finds
    agentfw view --text last:00003-0                  an episode, a line for each turn
    agentfw view --text last:rollouts/00002/00003-0:4 a turn, word for word

An answer keeps within a budget of tokens, at four characters each, and says what it left out and how to get it.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import yaml

from agentfw.episode import Event
from agentfw.errors import UnknownNameError, UsageError

from .episode_view import EpisodeView, ShownCall, ShownTurn
from .index import Index
from .search import Filter, Row, count, episode_at, ordered, run_rows, shown_rows, stage_rows

_CHARACTERS = 4  # of a token, about
_LINE = 160
_FACTS = ("user", "version", "finish", "reward", "headline", "turns", "calls", "prompt_tokens", "tokens", "cost")
_FAILURES = ("failed", "refused", "not_understood", "empty", "cut_off", "problem")


def part_at(index: Index, address: str, tokens: int) -> dict[str, Any]:
    """The part at an address RUN[:EPISODE[:TURN]] or RUN?FILTER, as JSON values."""
    name, _, query = address.partition("?")
    run, _, rest = name.partition(":")
    episode, _, turn = rest.partition(":")
    budget = tokens * _CHARACTERS
    with index.reading() as rows:
        if not episode:
            return _of_run(rows, Filter.of({**dict(parse_qsl(query)), "run": run}), budget)
        folders = rows.execute("SELECT folder FROM runs WHERE name = ?", (run,)).fetchall()
        if not folders:
            raise UnknownNameError("run", run, [], fix="list them: agentfw runs list")
        view = EpisodeView.read(index, episode_at(rows, f"{folders[0]['folder']}/{episode}".strip("/")), rows)
    here = f"{run}:{episode}"
    if not turn:
        return _of_episode(view, here, budget)
    if not (turn.isdecimal() and 1 <= int(turn) <= len(view.turns)):
        raise UsageError(f"{here} has no turn {turn}", fix=f"it has turns 1 to {len(view.turns)}")
    return _of_turn(view, view.turns[int(turn) - 1], f"{here}:{turn}", budget)


def _of_run(rows: sqlite3.Connection, wanted: Filter, budget: int) -> dict[str, Any]:
    run = next((one for one in run_rows(rows) if one["name"] == wanted.run), None)
    if run is None:
        raise UnknownNameError("run", wanted.run, [], fix="list them: agentfw runs list")
    about, whole = run["about"], count(rows, wanted)
    stages = [f"{one['stage'] or 'run'} {one['number']}: {one['episodes']}" for one in stage_rows(rows, run["id"])]
    found: dict[str, Any] = {
        "run": run["name"],
        "began": run["began"],
        "policy": about.get("spec", {}).get("policy", {}).get("name", ""),
        "episodes": whole,
        "failed": count(rows, replace(wanted, failure="any")),
        "reward": run["reward"],
        "stages": stages[:50] if len(stages) > 1 else [],
        "listed": [],
    }
    if not wanted.sort:  # those that went wrong first
        wanted = replace(wanted, sort="failures")
    for row in shown_rows(rows, ordered(rows, wanted, min(whole, budget // 40))):
        place = str(row["folder"]).removeprefix(str(run["folder"])).strip("/")
        address = f"{row['run_name']}:{'/'.join(filter(None, (place, row['episode'])))}"
        line = {"address": address, **_facts(row), "begins": _short(row["problem"] or row["begins"] or "")}
        budget -= len(str(line))
        if budget < 0:
            break
        found["listed"].append(line)
    return found | {"left_out": whole - len(found["listed"])}


def _errors(failed: Sequence[Event]) -> list[str]:
    return [str(event.data.get("error")) for event in failed]


def _facts(row: Row) -> dict[str, Any]:
    """What is known of an episode, without what is empty or 0."""
    return {name: row[name] for name in (*_FACTS, *_FAILURES) if row[name]}


def _of_episode(view: EpisodeView, here: str, budget: int) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    found = {"episode": here, "began": view.row["began"], "state": view.row["state"], **_facts(view.row)}
    found |= {"findings": view.marks().findings, "outcome": view.outcome, "failures": _errors(view.failed)}
    for shown in view.turns:
        line = {
            "address": f"{here}:{shown.turn.index + 1}",
            "asked": _short(shown.read[-1].content if shown.read else ""),
            "said": _short(shown.said),
            "calls": [_call(call, _LINE) for call in shown.calls],
            "failures": [*shown.turn.failures, *_errors(shown.failed)],
        }
        budget -= len(str(line))
        if budget < 0:
            break
        turns.append({name: value for name, value in line.items() if value})
    return found | {"turns": turns, "left_out": len(view.turns) - len(turns)}


def _of_turn(view: EpisodeView, shown: ShownTurn, here: str, budget: int) -> dict[str, Any]:
    turn, marks = shown.turn, view.marks(shown.turn.index)
    # The most characters of each text, so that all of them fit.
    texts = [*(one.content for one in shown.read), shown.said, *(call.answer or "" for call in shown.calls)]
    lengths = sorted(map(len, texts))
    cut = lengths[-1]
    for place, length in enumerate(lengths):
        left = len(lengths) - place
        if length * left > budget:
            cut = max(1, budget // left)
            break
        budget -= length
    return {
        "turn": here,
        "version": turn.version,
        "at": None if turn.at is None else datetime.fromtimestamp(turn.at, UTC).isoformat(timespec="seconds"),
        "seconds": None if turn.at is None else turn.ended - turn.started,
        "tokens": {"in": turn.usage.prompt, "cached": turn.usage.cached, "out": turn.count},
        "recalled": [str(one.get("text", "")) for one in shown.recalled],
        "read": [{"role": one.role, "content": _cut(one.content, cut)} for one in shown.read],
        "said": _cut(shown.said, cut),
        "calls": [_call(call, cut) for call in shown.calls],
        "failures": list(turn.failures),
        "scores": [f"{one.component} ({one.track}): {one.value:.3g} x {one.weight:.3g}" for one in shown.scores],
        "rated": marks.rating,
        "note": marks.note,
        "correction": marks.correction,
        "cut_at": cut,
    }


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # yaml has no types
    """Writes texts of several lines as such."""


_Dumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)
)


def as_text(part: dict[str, Any]) -> str:
    """A part to read, as YAML, without what is empty."""
    told = {name: value for name, value in part.items() if value not in (None, "", [], {})}
    return str(yaml.dump(told, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf))


def _call(call: ShownCall, limit: int) -> dict[str, Any]:
    found = {"call": _cut(str(call), limit), "problem": call.problem, "answer": call.answer or ""}
    return {name: _cut(value, limit) for name, value in found.items() if value}


def _short(text: str) -> str:
    """The beginning of a text in one line."""
    return _cut(" ".join(text.split()), _LINE)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"
