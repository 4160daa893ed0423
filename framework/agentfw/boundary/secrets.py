"""Strikes secrets out of everything that leaves a run: what is written, printed, shown, or sent to a model.

A host knows the secrets of the settings that it has checked. While it exists, nothing that passes one of these points
has any of them: journals and files of runs, errors, stdout and stderr, log records, what an agent is told, what a
policy is sent.

A secret is found in whatever form it has: as it is, in a URL, in JSON, HTML or a repr, in base64 (also of
`user:secret`), or in one of these within another, and in a stream also where it comes in pieces. One with less than six
characters is not struck, because short texts occur everywhere: an error without the letter "a" would help nobody.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from ..errors import strike_with

__all__ = ["MASK", "SHORTEST", "Pieces", "Secrets", "is_secret_name", "secrets_in", "strike", "struck"]

Value = TypeVar("Value")

MASK = "**********"
"""Stands where a secret was."""
SHORTEST = 6
"""Number of characters that a secret must have to be struck out of texts."""
_SHORTEST_UNASKED = 12
"""The same for environment variables that only look like secrets: "postgres" may well be a password."""

_NAMES = re.compile(
    r"(?<!pad)(?<!eos)(?<!bos)(?<!unk)(?<!sep)(?<!cls)(?<!end)(?<!stop)(?<!mask)(?<!start)"
    r"(?<!sort)(?<!group)(?<!public)(?<!primary)(?<!foreign)"
    r"(^|[_.\s-])(key|apikey|token|secret|password|passwd|passphrase|credentials?|authorization)$",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[A-Za-z0-9._~-]+")  # letters that every encoding leaves as they are
_HTML = {'"': "&quot;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}


def is_secret_name(name: str) -> bool:
    """Whether a setting or a variable of this name is a secret.

    >>> is_secret_name("api_key"), is_secret_name("GITHUB_TOKEN"), is_secret_name("max_tokens")
    (True, True, False)
    """
    return _NAMES.search(name) is not None


class _Spelling:
    """A text with all forms that each of its letters may have."""

    __slots__ = ("_forms", "_found", "first", "longest", "needle")

    def __init__(self, text: str) -> None:
        self._forms = [_forms(letter) for letter in text]
        self._found = re.compile("".join(f"(?:{'|'.join(map(re.escape, forms))})" for forms in self._forms))
        self.first = {form[:1] for form in self._forms[0]}
        self.longest = sum(max(map(len, forms)) for forms in self._forms)
        # A text without this part has no form of the whole: most texts are passed with one search.
        self.needle = max(_PLAIN.findall(text), key=len, default="")

    def strike(self, text: str) -> str:
        return self._found.sub(MASK, text) if self.needle in text else text

    def begins(self, rest: str) -> bool:
        """Whether more text could make `rest` a form of this."""
        places = {0}
        for forms in self._forms:
            if any(form.startswith(rest[place:]) for place in places for form in forms):
                return True
            places = {place + len(form) for place in places for form in forms if rest.startswith(form, place)}
        return False


class Secrets:
    """The secrets of one host. They are struck everywhere in the process as long as this object exists."""

    def __init__(self) -> None:
        self._values = set[str]()
        self.spellings: tuple[_Spelling, ...] = ()
        found = {value for name, value in os.environ.items() if is_secret_name(name)}
        self.add(*(value for value in found if len(value) >= _SHORTEST_UNASKED))
        global _alive
        # A new tuple, and no callback: one that took a dead reference out of a list while the list was copied would
        # crash Python 3.11, whose collector runs in the middle of an allocation.
        _alive = (*(reference for reference in _alive if reference() is not None), weakref.ref(self))

    def add(self, *values: str) -> None:
        """Strike these, too. Too short ones are left out."""
        new = {value.strip() for value in values} - self._values
        new = {value for value in new if len(value) >= SHORTEST and value.strip("*")}
        if new:
            self._values |= new
            # The longest first: one may be a part of another.
            texts = sorted({text for value in self._values for text in _spellings(value)}, key=len, reverse=True)
            self.spellings = tuple(map(_Spelling, texts))

    @property
    def values(self) -> frozenset[str]:
        """All of them, for a process that is to strike them, too."""
        return frozenset(self._values)


_alive: tuple[weakref.ref[Secrets], ...] = ()


def _known() -> list[_Spelling]:
    return [one for reference in _alive if (secrets := reference()) is not None for one in secrets.spellings]


def strike(text: str) -> str:
    """The text without secrets."""
    for spelling in _known():
        text = spelling.strike(text)
    return text


def struck(value: Value) -> Value:
    """A plain value, or a dataclass of such, without secrets. What has none is returned as it is."""
    return cast(Value, _struck(value)) if _known() else value


def _struck(value: Any) -> Any:
    from dataclasses import fields, is_dataclass, replace

    if isinstance(value, str):
        return strike(value)
    if isinstance(value, Mapping):
        items = {_struck(key): _struck(inner) for key, inner in value.items()}
        unchanged = all(key in items and items[key] is inner for key, inner in value.items())
        return value if unchanged else items
    if isinstance(value, (list, tuple)):
        inner = [_struck(one) for one in value]
        unchanged = all(one is other for one, other in zip(inner, value, strict=True))
        return value if unchanged else tuple(inner) if isinstance(value, tuple) else inner
    if is_dataclass(value) and not isinstance(value, type):
        changed = {each.name: _struck(getattr(value, each.name)) for each in fields(value)}
        new = {name: inner for name, inner in changed.items() if inner is not getattr(value, name)}
        return replace(value, **new) if new else value
    return value


def secrets_in(value: object, name: str = "", default: object = None) -> Iterator[str]:
    """The secrets in validated settings, as text: also those in environment variables that a setting names."""
    from pydantic import BaseModel, Secret, SecretBytes, SecretStr

    if isinstance(value, (SecretStr, SecretBytes, Secret)):
        revealed = value.get_secret_value()
        yield revealed.decode(errors="replace") if isinstance(revealed, bytes) else str(revealed)
    elif isinstance(value, str):
        if is_secret_name(name) and value != default and value:
            yield value
        elif name.endswith("_env") and (is_secret_name(name.removesuffix("_env")) or is_secret_name(value)):
            yield from filter(None, [os.environ.get(value)])
    elif isinstance(value, BaseModel):
        fields = type(value).model_fields
        for key, inner in value:
            yield from secrets_in(inner, key, fields[key].default if key in fields else None)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from secrets_in(inner, str(key))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from secrets_in(inner, name)


class Pieces:
    """Strikes secrets out of a text that comes in pieces. Only what may be the beginning of a secret is held back."""

    def __init__(self) -> None:
        self.held = ""

    def feed(self, piece: str) -> str:
        """What can be passed on now."""
        text = self.held + piece
        place = _beginning(text)
        if strike(text[:place]) + strike(text[place:]) != strike(text):  # a whole secret goes on beyond this place
            text = strike(text)
            place = _beginning(text)
        self.held = text[place:]
        return strike(text[:place])

    def end(self) -> str:
        """What was held back, when nothing else comes."""
        held, self.held = self.held, ""
        return strike(held)


def _beginning(text: str) -> int:
    """Where a secret may begin that goes on after this text."""
    first = len(text)
    for spelling in _known():
        for place in range(max(0, len(text) - spelling.longest), first):
            if text[place] in spelling.first and spelling.begins(text[place:]):
                first = place
                break
    return first


def _spellings(value: str) -> Iterator[str]:
    """The texts that contain a secret: itself, and what base64 makes of it wherever it stands among other bytes."""
    from base64 import b64encode

    yield value
    yield value.lower()  # as a part of a host's name
    octets = value.encode(errors="surrogatepass")
    for before in range(3):
        # The first and the last letters depend on what stands beside it.
        coded = b64encode(bytes(before) + octets).rstrip(b"=").decode()
        core = coded[(0, 2, 3)[before] : len(coded) - ((before + len(octets)) % 3 > 0)]
        if len(core) >= SHORTEST:
            yield core
            yield core.replace("+", "-").replace("/", "_")


def _forms(letter: str) -> tuple[str, ...]:
    """A letter as it is, and in a URL, JSON, HTML, or the repr of a text or of bytes; also in one within another."""
    if _PLAIN.fullmatch(letter):
        return (letter,)
    import json
    from urllib.parse import quote

    octets, number = letter.encode(errors="surrogatepass"), ord(letter)
    html = {letter, f"&#{number};", f"&#x{number:x};", f"&#x{number:X};", _HTML.get(letter, letter)}
    escaped = {json.dumps(letter)[1:-1], repr(letter)[1:-1], repr(octets)[2:-1], *(f"\\{each}" for each in html)}
    # Each further time that it is escaped, there are more backslashes.
    forms = html | escaped | {form.replace("\\", "\\" * more) for form in escaped for more in (2, 3, 4)}
    if letter.isspace():  # errors are on one line
        forms |= {" ", "+"}
    for _ in range(3):
        forms |= {quote(form, safe="", errors="surrogatepass") for form in forms}
    forms |= {form.lower() for form in forms if "%" in form and form != letter}
    return tuple(sorted(forms, key=len, reverse=True))


strike_with(strike)
