"""The blocks that a person wants, in the file that they give with `--people`.

[[block]]
title = "Focus"
minutes = 90
times = 2                 # a week; default 1
hours = "09:00-12:00"     # default: working hours
days = ["MO", "TU", "WE"] # default: Monday to Friday
place = "Library"         # so that the way there is free, too

[[block]]
title = "Tax return"
minutes = 120
until = 2026-11-27        # once, at the latest on this day
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from agentfw.errors import SettingsError, UsageError

from ..deciding.free_times import Hours
from .arranging import Wanted

_SETTINGS = ("title", "minutes", "times", "until", "hours", "days", "place")
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_LONGEST = 12 * 60


def read_wanted(path: Path | None) -> list[Wanted]:
    """The blocks in the file, which `read_people` has read before."""
    given = tomllib.loads(path.read_text("utf-8-sig")).get("block", []) if path is not None else []
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise SettingsError(f"{path}: block isn't a list of tables", fix="begin each block with [[block]]")
    found = [_wanted(one, f"{path}, block {number}") for number, one in enumerate(given, start=1)]
    titles = [one.title.casefold() for one in found]
    if twice := sorted({title for title in titles if titles.count(title) > 1}):
        raise SettingsError(f'{path}: several blocks are called "{twice[0]}"', fix="give each its own title")
    return found


def _wanted(given: Mapping[str, Any], where: str) -> Wanted:
    if unknown := [name for name in given if name not in _SETTINGS]:
        raise SettingsError(f"{where} has the unknown setting {unknown[0]}", fix=f"use {', '.join(_SETTINGS)}")
    title, minutes, times, until = (given.get(name) for name in ("title", "minutes", "times", "until"))
    if not isinstance(title, str) or not title.strip():
        raise SettingsError(f"{where} has no title", fix='write title = "Focus"')
    where = f'{where} ("{title}")'
    if type(minutes) is not int or not 5 <= minutes <= _LONGEST:
        raise SettingsError(f"{where}: minutes = {minutes!r} isn't 5 to {_LONGEST}", fix="write minutes = 90")
    if until is not None and (not isinstance(until, date) or isinstance(until, datetime) or times is not None):
        raise SettingsError(f"{where}: a task has until = YYYY-MM-DD and no times", fix="write until = 2026-11-27")
    days = given.get("days", _DAYS[:5])
    if not isinstance(days, list | tuple) or not days or not set(days) <= set(_DAYS):
        raise SettingsError(f"{where}: days = {days!r} are no days", fix='write days = ["MO", "WE"]')
    times = 1 if times is None else times
    if type(times) is not int or not 1 <= times <= len(set(days)):
        raise SettingsError(
            f"{where}: times = {times!r} isn't 1 to {len(set(days))}, as each is on a day of its own",
            fix="write fewer times, or more days",
        )
    try:
        hours = Hours.parse(str(given["hours"])) if "hours" in given else None
    except UsageError:
        raise SettingsError(f"{where}: hours = {given['hours']!r} are no hours", fix='write "09:00-12:00"') from None
    numbers = tuple(sorted(_DAYS.index(day) for day in set(days)))
    return Wanted(title.strip(), timedelta(minutes=minutes), times, until, hours, numbers, str(given.get("place", "")))
