"""What crosses between a run and a remote process: frames on a pipe, and answers and errors as plain values.

A frame is a JSON text, followed by the bytes that it refers to. An error keeps its class, its fix and its traceback. It
is sent as plain values, because exceptions with keyword arguments don't survive the usual ways of sending them.

>>> import io
>>> stream = io.BytesIO(encode({"weights": bytes(3), "step": 1}))
>>> read_frame(stream)
{'weights': b'\\x00\\x00\\x00', 'step': 1}
>>> read_frame(stream) is None
True
"""

from __future__ import annotations

import asyncio
import importlib
import json
import secrets
import struct
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import IO, Any

from .. import errors
from ..errors import AgentfwError, PluginError, is_failure
from .interface import Plain

_HEAD = struct.Struct(">QI")  # length of the JSON text, and number of the byte strings that follow
_LENGTH = struct.Struct(">Q")
_DRAWN = 8  # bytes of the key, drawn for each frame, by which its JSON text refers to bytes: no value can look like it


def encode(value: Plain) -> bytes:
    """A value as one frame. Raises TypeError if it is not plain."""
    parts, key = list[bytes](), secrets.token_hex(_DRAWN)

    def referred(other: object) -> dict[str, int]:
        if not isinstance(other, (bytes, bytearray, memoryview)):
            raise TypeError(f"{type(other).__name__} is not a plain value: {other!r:.80}")
        parts.append(bytes(other))
        return {key: len(parts) - 1}

    text = f"{key}{json.dumps(value, default=referred, separators=(',', ':'))}".encode()
    lengths = b"".join(_LENGTH.pack(len(part)) for part in parts)
    return b"".join([_HEAD.pack(len(text), len(parts)), lengths, text, *parts])


def read_frame(stream: IO[bytes]) -> Plain | None:
    """The next value, or None at the end of the stream."""
    try:
        size, count = _HEAD.unpack(_exactly(stream, _HEAD.size))
        lengths = [_LENGTH.unpack(_exactly(stream, _LENGTH.size))[0] for _ in range(count)]
        text = _exactly(stream, size).decode()
        parts = [_exactly(stream, length) for length in lengths]
    except EOFError:
        return None
    key, text = text[: 2 * _DRAWN], text[2 * _DRAWN :]
    return json.loads(text, object_hook=lambda found: parts[found[key]] if found.keys() == {key} else found)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)  # a buffered stream reads as often as it takes
    if len(data) < size:
        raise EOFError
    return data


class Served:
    """Makes the object and calls its methods. Never raises: an error is an answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._object: Any = None
        self._made = asyncio.Event()
        self._beginning: Plain = {}

    async def make(self, factory: str, arguments: Sequence[Plain]) -> Plain:
        async def made() -> None:
            self._check()
            module, _, attribute = factory.partition(":")
            self._object = getattr(importlib.import_module(module), attribute)(*arguments)

        self._beginning = await self._answered(made, "could not be started")
        self._made.set()
        return self._beginning

    def _check(self) -> None:
        """Raise if the object can't be made here."""

    async def call(self, method: str, arguments: Sequence[Plain]) -> Plain:
        await self._made.wait()  # Ray may begin calls in another order
        if "error" in self._beginning:
            return self._beginning
        return await self._answered(lambda: getattr(self._object, method)(*arguments), f"failed in {method}")

    async def close(self) -> None:
        close = getattr(self._object, "close", None)
        if close is not None:
            await close()

    async def _answered(self, answer: Callable[[], Awaitable[Plain]], failing: str) -> Plain:
        try:
            return {"value": await answer()}
        except AgentfwError as error:
            return {"error": type(error).__name__, "message": error.message, "fix": error.fix, "change": error.change}
        except BaseException as error:
            if not is_failure(error):
                raise
            text = f"{self.name} {failing}: {type(error).__name__}: {error}"
            fix = "fix the plugin; its traceback is shown with --debug"
            return {"error": "PluginError", "message": text, "fix": fix, "traceback": traceback.format_exc()}


def answer_of(answered: Plain) -> Plain:
    """The value of an answer. Raises its error, if it is one."""
    if "value" in answered:
        return answered["value"]
    kind = getattr(errors, answered["error"], AgentfwError)
    error: AgentfwError = kind.__new__(kind)
    AgentfwError.__init__(error, answered["message"], fix=answered["fix"], change=answered.get("change", ""))
    if isinstance(error, PluginError) and "traceback" in answered:
        error.add_note(answered["traceback"])
    raise error
