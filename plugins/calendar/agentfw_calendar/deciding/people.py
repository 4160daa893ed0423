"""Whose calendar it is, and the relation of everybody else in it to that person.

It uses what an .ics file can say. An address shows that somebody is a colleague; it doesn't show that somebody is the
boss, a client or a report. These come from a file instead of a guess:

    # people.toml
    "maria@lab.example" = "superior"
    "acme.example" = "client"

    [me]
    travel = 45           # minutes between events at different places
    country = "DE-BY"     # whose public holidays are days off
    language = "de"       # what is said to the person is in this language
    family = ["Lily"]     # others whose events are in the calendar

    agentfw run calendar --ics my.ics --people people.toml

Without it, whoever shares the person's mail domain is a peer, and everybody else a partner. At a provider of private
mailboxes (gmail.com ...) a domain says nothing: there everybody is a peer, for somebody with an address at work a
friend, and with the person's surname family.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentfw.errors import SettingsError, UsageError
from agentfw_plugins.worlds.calendar.event_attributes import PRIVATE, RELATIONS

from ..ics.ics_events import Party, address_of
from ..ics.ics_lines import FileLines, decoded
from ..language.texts import LANGUAGES

_MAILTO = re.compile(rb"mailto:([^\s;:,\"]+@[^\s;:,\"]+)", re.I)
_ADDRESS = re.compile(r"[\w.+-]+@[\w.-]+\.\w+")
_PRIVATE = re.compile(
    r"(?:gmail|googlemail|outlook|hotmail|live|icloud|me|yahoo|aol|mail|protonmail)\.com|proton\.me|gmx\.(?:de|net)|web\.de"
)
_COUNTRY = re.compile(r"[A-Z]{2}(?:-[A-Z0-9]{1,3})?")
_NAME = re.compile(r';CN=(?:"([^"]*\w)[^"]*"|([^";:]*\w))', re.I)
_SHORTEST_NAME = 3
_LONGEST_WAY = 24 * 60
TRAVEL = timedelta(minutes=30)
"""Default time between events at different places."""
_FEWEST = 2
"""Minimum number of events that the owner must be in."""


@dataclass(frozen=True, slots=True)
class About:
    """What a person says in their file."""

    relations: Mapping[str, str] = field(default_factory=dict)
    """Relations of people to the person, by address or domain."""
    travel: timedelta = TRAVEL
    country: str = ""
    """Country with an optional state or province, such as DE-BY. Its public holidays are days off."""
    language: str = ""
    """What is said to the person is in this language. Default: that of the calendar."""
    family: tuple[str, ...] = ()
    """Names of others whose events are in the person's calendar."""


@dataclass(frozen=True, slots=True)
class People:
    """The owner and the known relations."""

    owner: str
    """The owner's address; empty if unknown."""
    said: Mapping[str, str]
    """Relations by address or domain, from the person's file."""
    surname: str = ""
    """The owner's, as their calendar writes it."""

    def is_owner(self, party: Party) -> bool:
        return bool(self.owner) and party.address == self.owner

    def relation(self, party: Party) -> str:
        """The relation of somebody to the owner."""
        domain = party.address.rpartition("@")[2]
        told = self.said.get(party.address) or self.said.get(domain)
        if told is not None:
            return told
        own = self.owner.rpartition("@")[2]
        if _PRIVATE.fullmatch(domain) and _same_surname(party, self.surname or _surname(self.owner)):
            return "family"
        if own and not _PRIVATE.fullmatch(own) and _PRIVATE.fullmatch(domain):
            return "friend"  # whoever writes to somebody's work from a private mailbox is no partner of it
        return "peer" if not own or _PRIVATE.fullmatch(own) or domain in ("", own) else "partner"


def surname_of(lines: FileLines, owner: str) -> str:
    """The owner's surname, from their own line in an event."""
    for event in lines.blocks("VEVENT"):
        for line in event.own:
            if owner and line.name in ("ATTENDEE", "ORGANIZER") and line.text.lower().endswith(f"mailto:{owner}"):
                name = _NAME.search(line.text)
                if name:
                    return (name[1] or name[2]).split()[-1].casefold()
    return ""


def _same_surname(party: Party, surname: str) -> bool:
    words = re.findall(r"\w+", f"{party.name} {party.address.partition('@')[0]}".casefold())
    return len(surname) >= _SHORTEST_NAME and surname in words


def _surname(address: str) -> str:
    """The last part of ana.costa@lab.example."""
    parts = address.partition("@")[0].split(".")
    return parts[-1] if len(parts) > 1 else ""


def owner_of(lines: FileLines, given: str) -> str:
    """The owner's address: as given, else the calendar's name (as Google sets it), else whoever is in most events."""
    if given:
        return address_of(given)
    for block in lines.top:
        for name in ("X-WR-CALNAME", "X-WR-RELCALID", "X-OWNER", "X-PRIMARY-CALENDAR"):
            found = _ADDRESS.search(block.first_text(name))
            if found:
                return found[0].lower()
    counted: Counter[str] = Counter()
    shared = 0
    for event in lines.blocks("VEVENT"):
        parties = b"\n".join(line.content for line in event.own if line.name in ("ATTENDEE", "ORGANIZER"))
        addresses = {address_of(decoded(found)) for found in _MAILTO.findall(parties)}
        shared += bool(addresses)
        counted.update(addresses)
    (first, count), (_, second) = [*counted.most_common(2), ("", 0), ("", 0)][:2]
    # Two people who are always together can't be distinguished, so neither is chosen.
    return first if count >= _FEWEST and count * 2 > shared and count > second else ""


def read_people(path: Path | None) -> About:
    """Read the person's TOML file."""
    if path is None:
        return About()
    try:
        given = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"can't read {path}: {error}", fix="pass a TOML file in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            f"{path} isn't valid TOML: {error}", fix='write lines such as "acme.example" = "client"'
        ) from None
    me = given.pop("me", {})
    given.pop("block", None)  # see `blocks.wanted`
    for address, relation in given.items():
        if relation not in (*RELATIONS, *PRIVATE):
            raise SettingsError(
                f'{path}: {address} = "{relation}" is no relation',
                fix=f"use one of {', '.join((*RELATIONS, *PRIVATE))}",
            )
    relations = {address_of(address): relation for address, relation in given.items()}
    return replace(_about_me(me, path), relations=relations)


def _about_me(me: Any, path: Path) -> About:
    """What is under [me]."""
    if not isinstance(me, dict) or not me.keys() <= {"travel", "country", "language", "family"}:
        raise SettingsError(
            f"{path}: [me] has unknown settings",
            fix='use travel = 30, country = "DE", language = "de" and family = ["Lily"]',
        )
    family = me.get("family", [])
    if not isinstance(family, list) or not all(isinstance(name, str) for name in family):
        raise SettingsError(f"{path}: family = {family!r} are no names", fix='write family = ["Lily", "Tom"]')
    minutes, country = me.get("travel", TRAVEL // timedelta(minutes=1)), me.get("country", "")
    language = me.get("language", "")
    if not isinstance(minutes, int) or isinstance(minutes, bool) or not 0 <= minutes <= _LONGEST_WAY:
        raise SettingsError(f"{path}: travel = {minutes!r} isn't a number of minutes", fix="write travel = 30")
    if country and not (isinstance(country, str) and _COUNTRY.fullmatch(country)):
        raise SettingsError(f"{path}: country = {country!r} is no country", fix='write country = "DE" or "DE-BY"')
    if language and language not in LANGUAGES:
        raise SettingsError(f"{path}: language = {language!r} is unknown", fix=f"use one of {', '.join(LANGUAGES)}")
    return About({}, timedelta(minutes=minutes), country, language, tuple(family))
