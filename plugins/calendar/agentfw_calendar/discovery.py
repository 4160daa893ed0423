"""Finds the calendars at an address of a CalDAV server: a calendar itself, a home, a person's address, or the server's.

    found = calendars_at(CalDavSource("caldavs://ana@dav.example/ana/"))
    found[0].name, found[0].address

An address without any calendar for events is an error, because it is probably not the one that was meant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from agentfw.errors import EndpointError
from agentfw.runs import write_whole

from .caldav_source import CalDavSource
from .ics_events import printable

__all__ = ["Found", "calendars_at", "chosen_before", "remember"]

_PROPERTIES = """<?xml version="1.0" encoding="utf-8"?>
<D:propfind xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><D:prop>
  <D:resourcetype/><D:displayname/><D:current-user-principal/><C:calendar-home-set/>
  <C:supported-calendar-component-set/>
</D:prop></D:propfind>"""
_DAV, _CALDAV = "{DAV:}", "{urn:ietf:params:xml:ns:caldav}"


@dataclass(frozen=True, slots=True)
class Found:
    """A calendar on a server."""

    name: str
    address: str
    """As `caldavs://`."""


def calendars_at(source: CalDavSource) -> list[Found]:
    """The calendars at an address, the address itself if it is one."""
    looked: set[str] = set()
    waiting = [source.base, urljoin(source.base, "/.well-known/caldav")]
    while waiting:
        address = waiting.pop(0)
        elsewhere = urlsplit(address).netloc != urlsplit(source.base).netloc
        if address in looked or (elsewhere and not address.startswith("https://")):
            continue  # another host gets the password encrypted, or not at all
        looked.add(address)
        tree = source.properties(address, _PROPERTIES, depth=1)
        if tree is None:
            continue
        found = list(_calendars(source, tree, address))
        if found:
            own = [one for one in found if one.address == source.address_of(address)]
            return own or found
        # A person's address says where their calendars are, and a server's who the person is.
        for name in (f"{_CALDAV}calendar-home-set", f"{_DAV}current-user-principal"):
            waiting += [urljoin(address, href.text) for href in tree.iterfind(f".//{name}/{_DAV}href") if href.text]
    raise EndpointError(
        f"there is no calendar at {source.name}",
        fix="pass the address of a calendar or of your account; the settings of most services show it",
    )


def _calendars(source: CalDavSource, tree: Any, address: str) -> Iterator[Found]:
    for reply in tree.iter(f"{_DAV}response"):
        href = reply.findtext(f"{_DAV}href")
        if href is None or reply.find(f".//{_DAV}resourcetype/{_CALDAV}calendar") is None:
            continue
        kinds = [
            one.get("name") for one in reply.iterfind(f".//{_CALDAV}supported-calendar-component-set/{_CALDAV}comp")
        ]
        if not kinds or "VEVENT" in kinds:
            name = printable(reply.findtext(f".//{_DAV}displayname") or href.rstrip("/").rpartition("/")[2])
            yield Found(name, source.address_of(urljoin(address, href)))


def chosen_before(path: Path, address: str) -> list[str]:
    """The calendars that were chosen at this address in an earlier session."""
    try:
        found = json.loads(path.read_text("utf-8")).get(address, [])
    except (OSError, ValueError, AttributeError):
        return []
    return [one for one in found if isinstance(one, str)]


def remember(path: Path, address: str, chosen: Sequence[str]) -> None:
    """Keep a choice for the next sessions."""
    try:
        kept = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        kept = {}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, json.dumps({**kept, address: list(chosen)}, indent=1) + "\n")
