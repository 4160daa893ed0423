"""An .ics file as lines and blocks, so that it can be marked without rewriting it.

Every byte of the file is kept. Reading joins folded lines; writing puts the physical lines back unchanged, except for
the few that were replaced.

    lines = FileLines(Path("my.ics").read_bytes())
    for block in lines.blocks("VEVENT"):
        lines.text(block)

Nothing here knows what a property means. A block that doesn't end, or ends inside of another, is told as a problem.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

_NAME = re.compile(rb"[A-Za-z0-9-]+")
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
Changes = Mapping[int, Sequence[bytes]]
"""New lines, by the number of the physical line before which they come."""
_DEEPEST = 16
"""Maximum nesting depth; RFC 5545 needs three."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the file that can't be used, and why. It stays in the file as it is."""

    line: int
    """Line number, from 1."""
    why: str
    what: str = ""
    file: str = ""
    """The calendar, if there are several."""


@dataclass(frozen=True, slots=True)
class Line:
    """One content line, folded or not."""

    name: str
    first: int
    """Its first physical line, from 0."""
    after: int
    """The physical line after its last."""
    content: bytes
    """The joined text without line ends."""

    @property
    def text(self) -> str:
        return decoded(self.content)


@dataclass(slots=True)
class Block:
    """The lines between BEGIN and END."""

    kind: str
    begin: Line
    own: list[Line] = field(default_factory=list)
    """Its content lines, without those of inner blocks."""
    inner: list[Block] = field(default_factory=list)
    end: Line | None = None

    @property
    def number(self) -> int:
        return self.begin.first + 1

    def lines_of(self, name: str) -> list[Line]:
        return [line for line in self.own if line.name == name]

    def first_text(self, name: str) -> str:
        """The value of the first property of this name, or an empty string."""
        for line in self.own:
            if line.name == name:
                return line.text.partition(":")[2].strip()
        return ""


class FileLines:
    """The whole file."""

    def __init__(self, data: bytes) -> None:
        self._encoding = next((name for mark, name in _UTF_16.items() if data.startswith(mark)), "")
        if self._encoding:
            data = data.decode(self._encoding, "replace").encode()
        # Old Macs end lines with CR alone; in other files a lone CR is part of a value.
        self.ending = b"\r\n" if b"\r\n" in data else b"\n" if b"\n" in data else b"\r" if b"\r" in data else b"\r\n"
        separator = b"\r" if self.ending == b"\r" else b"\n"
        self.physical = data.split(separator)
        self._separator = separator
        self.problems: list[Problem] = []
        self.top: list[Block] = []
        """The outermost blocks."""
        self._build(self._logical())

    def blocks(self, kind: str) -> list[Block]:
        """All complete blocks of a kind at any depth, in the order of the file."""
        found: list[Block] = []
        waiting = list(reversed(self.top))
        while waiting:
            block = waiting.pop()
            if block.kind == kind and block.end is not None:
                found.append(block)
            else:
                waiting += reversed(block.inner)
        return found

    def text(self, block: Block) -> str:
        """A block as text with joined lines, including inner blocks."""
        parts = [block.begin.text, *(line.text for line in block.own)]
        parts += [self.text(inner).removesuffix("\r\n") for inner in block.inner if inner.end is not None]
        return "\r\n".join([*parts, f"END:{block.kind}", ""])

    def raw(self, first: int, after: int) -> bytes:
        """Physical lines as they are, without the last line's end."""
        return self._separator.join(self.physical[first:after])

    def changed(self, first: int, after: int, replaced: Changes, removed: Collection[int]) -> list[bytes]:
        """Physical lines with some inserted and some removed."""
        tail = self.ending.removesuffix(self._separator)
        out: list[bytes] = []
        for place in range(first, after):
            out += [new + tail for new in replaced.get(place, ())]
            if place not in removed:
                out.append(self.physical[place])
        return out

    def with_changes(
        self, replaced: Changes, removed: Collection[int], raw: Mapping[int, bytes] | None = None
    ) -> bytes:
        """The file with some physical lines inserted and some removed. Raw lines keep their ends."""
        tail = self.ending.removesuffix(self._separator)
        out: list[bytes] = []
        for place in range(len(self.physical)):
            out += [raw[place]] if raw and place in raw else []
            out += self.changed(place, place + 1, replaced, removed)
        out += [new + tail for new in replaced.get(len(self.physical), ())]
        data = self._separator.join(out)
        return data.decode().encode(self._encoding) if self._encoding else data

    def _logical(self) -> list[Line]:
        found: list[Line] = []
        first, parts = -1, list[bytes]()

        def close(after: int) -> None:
            if parts:
                content = b"".join(parts).removeprefix(b"\xef\xbb\xbf")
                name = _NAME.match(content)
                found.append(Line(name[0].decode().upper() if name else "", first, after, content))

        for place, raw in enumerate(self.physical):
            line = raw.removesuffix(b"\r")
            if line[:1] in (b" ", b"\t") and parts:
                parts.append(line[1:])
            else:
                close(place)
                first, parts = place, [line] if line.strip() else []
        close(len(self.physical))
        return found

    def _build(self, logical: Sequence[Line]) -> None:
        """Build the blocks from the lines."""
        open_blocks: list[Block] = []
        for line in logical:
            if line.name == "BEGIN":
                block = Block(_kind(line), line)
                if len(open_blocks) == _DEEPEST:
                    self.problems.append(Problem(block.number, f"more than {_DEEPEST} blocks within one another"))
                    break
                (open_blocks[-1].inner if open_blocks else self.top).append(block)
                open_blocks.append(block)
            elif line.name == "END":
                kind = _kind(line)
                if kind not in [block.kind for block in open_blocks]:
                    self.problems.append(Problem(line.first + 1, f"END:{kind} without its BEGIN"))
                    continue
                while open_blocks[-1].kind != kind:
                    self._unended(open_blocks.pop())
                open_blocks.pop().end = line
            elif open_blocks:
                open_blocks[-1].own.append(line)
        for block in open_blocks:
            self._unended(block)

    def _unended(self, block: Block) -> None:
        self.problems.append(Problem(block.number, f"BEGIN:{block.kind} without its END"))


def _kind(line: Line) -> str:
    return line.text.partition(":")[2].strip().upper()


def decoded(content: bytes) -> str:
    """Decode as UTF-8, as RFC 5545 requires, or else as Windows-1252."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")
