"""Who sends a request, and what they may see.

Without keys, whoever can log in on this machine is served, as the one who runs the gateway; web pages and other
machines are not. With keys, who has the gateway's own key (the operator) may see everything, and who has a key of the
file sees the sessions of that key only: their names begin with the key's, so no request of another key can name them.

Names are compared exactly as they are, character by character. None is normalised into another's.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..protocols import BadRequest, Body
from .keys import Key, Keys

if TYPE_CHECKING:
    from starlette.requests import Request

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    client: str
    """Whose share of the answers it takes: a key's, or else an address's."""
    user: str = ""
    """The user whom the request is of. Empty if it names none."""
    key: Key | None = None
    """The key of the file that it came with. None for the operator."""

    @property
    def space(self) -> str:
        """What the names of its sessions begin with in the record."""
        return f"{self.key.name}:" if self.key is not None else ""

    def named(self, user: str, hint: str = "") -> Caller:
        """The caller of a request that names this user. A hint counts where nothing else says who the user is."""
        if self.key is None or self.key.user is None:
            return replace(self, user=user or hint)
        if user not in ("", self.key.user):
            raise BadRequest("this key belongs to another user", 403, code="another_user")
        return replace(self, user=self.key.user)

    def may_see(self, user: str) -> bool:
        """Whether a session of this user is the caller's. The operator who names no user sees all."""
        return user in ("", self.user) or (self.key is None and not self.user)

    def check(self, user: str) -> None:
        """Raise BadRequest (403) if a session of this user is none of the caller's."""
        if not self.may_see(user):
            raise BadRequest("this session belongs to another user", 403, code="another_user")


class Callers:
    """Lets requests in."""

    def __init__(self, operators: Sequence[str] = (), keys: Keys | None = None, *, own_header: bool = False) -> None:
        """With `own_header`, keys of the gateway come in `x-agentfw-key` alone, and others are the provider's."""
        self.operators, self.keys, self._own_header = operators, keys, own_header
        self._has_keys = bool(operators)

    @property
    def needs_key(self) -> bool:
        # Keys that were there and are gone don't open the gateway to everybody.
        self._has_keys = self._has_keys or (self.keys is not None and self.keys.exists)
        return self._has_keys

    def admit(self, request: Request, key_header: str) -> Caller:
        """The caller of a request, before its body is read. Raises BadRequest for whoever is not let in.

        The key is in `x-agentfw-key`, in `authorization`, or where the protocol of the request has it.
        """
        address = request.client.host if request.client else ""
        if not self.needs_key:
            # A web page must not get at it: neither under another name of this machine, nor from another site.
            origin = request.headers.get("origin")
            if not _is_local(f"//{request.headers.get('host', '')}") or (origin and not _is_local(origin)):
                raise BadRequest("without a key, only programs of this machine are served", 403, code="not_local")
            return Caller(address)
        given = request.headers.get("x-agentfw-key", "")
        if not (given or self._own_header):
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            given = given.strip() if scheme.lower() == "bearer" else request.headers.get(key_header, "")
        if self.is_operator(given):
            return Caller(address)
        key = self.keys.find(given) if self.keys is not None else None
        if key is None:
            where = "the gateway's key, in x-agentfw-key," if self._own_header else "the key"
            raise BadRequest(f"{where} is missing or wrong", 401, code="invalid_api_key")
        return Caller(f"{key.name}:", key=key)

    def is_operator(self, given: str) -> bool:
        """Whether this is a key of who runs the gateway."""
        right = [secrets.compare_digest(given.encode(), key.encode()) for key in self.operators]  # each, in equal time
        return any(right)

    async def count(self, caller: Caller) -> None:
        """Count a request for an answer. Raises BadRequest (429) beyond the limit of its key."""
        if caller.key is not None and self.keys is not None:
            await self.keys.count(caller.key)


def caller_of(request: Request, body: Body, hint: str = "") -> Caller:
    """Who sends a request: the user is named in its body, in its address, or in a header.

    `safety_identifier` counts, and so does `hint`, where nothing else names a user.
    """
    found = {
        body.name("user", ""),
        Body(dict(request.query_params)).name("user", ""),
        Body({"x-agentfw-user": _header(request, "x-agentfw-user")}).name("x-agentfw-user", ""),
    } - {""}
    if len(found) > 1:
        raise BadRequest("the request names several users", field="user")
    hint = body.name("safety_identifier", "") or hint
    admitted: Caller = request.state.caller
    caller = admitted.named(found.pop() if found else "", hint)
    if "\ufffd" in caller.user:  # what stands for a character that can't be read is nobody's name
        raise BadRequest("the user's name has a character that can't be read", field="user")
    return caller


def _header(request: Request, name: str) -> str:
    """A header's text, so that a name means the same there and in a body."""
    try:
        return request.headers.get(name, "").encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest(f"{name} must be in UTF-8", field=name) from None


def _is_local(address: str) -> bool:
    try:
        return urlsplit(address).hostname in LOOPBACK
    except ValueError:
        return False
