"""Plain values on a pipe: a frame is a JSON text, followed by the bytes that it refers to.

>>> import io
>>> stream = io.BytesIO(encode({"weights": bytes(3), "step": 1}))
>>> read(stream)
{'weights': b'\\x00\\x00\\x00', 'step': 1}
>>> read(stream) is None
True
"""

from __future__ import annotations

import json
import struct
from typing import IO

from .interface import Plain

__all__ = ["encode", "read"]

_HEAD = struct.Struct(">QI")
"""Length of the JSON text, and number of the byte strings that follow."""
_LENGTH = struct.Struct(">Q")
_BYTES = "$bytes"


def encode(value: Plain) -> bytes:
    """A value as one frame. Raises TypeError if it is not plain."""
    parts: list[bytes] = []

    def referred(other: object) -> dict[str, int]:
        if not isinstance(other, (bytes, bytearray, memoryview)):
            raise TypeError(f"{type(other).__name__} is not a plain value: {other!r:.80}")
        parts.append(bytes(other))
        return {_BYTES: len(parts) - 1}

    text = json.dumps(value, default=referred, separators=(",", ":")).encode()
    lengths = b"".join(_LENGTH.pack(len(part)) for part in parts)
    return b"".join([_HEAD.pack(len(text), len(parts)), lengths, text, *parts])


def read(stream: IO[bytes]) -> Plain | None:
    """The next value, or None at the end of the stream."""
    try:
        size, count = _HEAD.unpack(_exactly(stream, _HEAD.size))
        lengths = [_LENGTH.unpack(_exactly(stream, _LENGTH.size))[0] for _ in range(count)]
        text = _exactly(stream, size)
        parts = [_exactly(stream, length) for length in lengths]
    except EOFError:
        return None
    return json.loads(text, object_hook=lambda found: parts[found[_BYTES]] if found.keys() == {_BYTES} else found)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    pieces = []
    while size:
        piece = stream.read(size)
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
