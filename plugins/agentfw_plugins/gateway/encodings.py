"""Unpacks the bodies of requests that programs send compressed, never to more than a body may have.

unpacked(raw, "gzip", 64_000_000)
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from importlib import import_module

from ..protocols import BadRequest


def unpacked(raw: bytes, encodings: str, most: int) -> bytes:
    """The body as it was before it was packed in these encodings, as its header lists them."""
    for name in reversed([part.strip().lower() for part in encodings.split(",") if part.strip()]):
        if name == "identity":
            continue
        unpack = _KNOWN.get(name)
        if unpack is None:
            raise _unknown(name)
        try:
            raw = unpack(raw, most + 1)
        except BadRequest:
            raise
        except (ImportError, TypeError):  # the library isn't there, or too old
            raise _unknown(name) from None
        except Exception:  # each library has errors of its own
            raise BadRequest(f"the body is not in {name}, as its header says", field="content-encoding") from None
        if len(raw) > most:
            raise too_large(most)
    return raw


def too_large(most: int) -> BadRequest:
    return BadRequest(f"the body has more than {most:,} bytes", 413, code="body_too_large")


def _unknown(name: str) -> BadRequest:
    return BadRequest(f'the encoding "{name[:40]}" can\'t be read here; send gzip', 415, field="content-encoding")


def _gzip(raw: bytes, most: int) -> bytes:
    return _inflated(raw, most, zlib.MAX_WBITS | 16)


def _deflate(raw: bytes, most: int) -> bytes:
    try:
        return _inflated(raw, most, zlib.MAX_WBITS)
    except zlib.error:  # some leave the header out
        return _inflated(raw, most, -zlib.MAX_WBITS)


def _inflated(raw: bytes, most: int, bits: int) -> bytes:
    reader = zlib.decompressobj(bits)
    found = reader.decompress(raw, most)
    if not reader.eof and len(found) < most:
        raise zlib.error("it breaks off")
    return found


def _brotli(raw: bytes, most: int) -> bytes:
    reader, found = import_module("brotli").Decompressor(), bytearray()
    given = raw
    while len(found) < most and not reader.is_finished():
        # Versions before 1.2 can't be told where to stop, and then nothing is read.
        found += reader.process(given, output_buffer_limit=most - len(found))
        if not given and reader.can_accept_more_data():
            raise ValueError("it breaks off")
        given = b""
    return bytes(found)


def _zstd(raw: bytes, most: int) -> bytes:
    import zstandard

    with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(io.BytesIO(raw)) as reader:
        return bytes(reader.read(most))


_KNOWN: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
