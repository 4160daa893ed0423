"""Events as the tests write them, and the types of the fixtures that read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

IcsFile = Callable[..., Path]
Calendar = Callable[..., Any]


def event(uid: str, start: str, title: str, *lines: str, length: str = "PT1H") -> str:
    """The lines of an event; it starts at this time in Berlin, or in UTC where that ends with a Z."""
    zone = "" if start.endswith("Z") else ";TZID=Europe/Berlin"
    clock = f"{start.rstrip('Z')}00{'Z' if start.endswith('Z') else ''}"
    return "\n".join([f"UID:{uid}", f"DTSTART{zone}:{clock}", f"DURATION:{length}", f"SUMMARY:{title}", *lines])
