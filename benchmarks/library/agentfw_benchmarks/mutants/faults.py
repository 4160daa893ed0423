"""The planted faults: where each is, what it changes, and how it is written into a source text.

A fault names a definition (`Class.method`, a function, a class or a variable of a module) and a piece of code in it: an
expression, statements, or a part of a string such as an SQL statement. Both are found by syntax in any file of the
packages, so a fault survives the moves of its file and any change of layout. It must fit exactly once: one that fits
nowhere, or twice, is an error.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from pathlib import Path

FOLDERS = ("framework", "plugins", "memory", "rewardmodels", "cli")
"""Where faults are looked for."""
_DEFINITION = re.compile(r"^ *(?:(?:async )?def|class) (\w+)|^ *(\w+) *(?::|=(?!=))", re.MULTILINE)
_NO_SOURCES = {"tests", "templates", "benchmarks", "model_making"}
AREAS = Path(__file__).parent / "faults"
"""A file for each area."""


class UnfitFaultError(Exception):
    """Raised when a fault doesn't fit exactly once, or when what it makes isn't Python."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A slip that somebody could make."""

    name: str
    where: str
    """The qualified name of the definition it is in. It doesn't have to be unique if the code in it is."""
    suffers: str
    """What it does to a user."""
    new: str
    """What stands there instead. Nothing deletes statements."""
    old: str = ""
    """An expression or statements."""
    text: str = ""
    """Instead of `old`: a part of a string literal, as it is written in the source."""


@dataclass(frozen=True, slots=True)
class Area:
    """Faults that the same tests should notice."""

    name: str
    tests: tuple[str, ...]
    """Files and folders of tests, as patterns, in the order in which they run."""
    faults: tuple[Fault, ...]

    def files(self, root: Path) -> list[Path]:
        """The files of its tests, each once."""
        found: dict[Path, None] = {}
        for pattern in self.tests:
            for path in sorted(root.glob(pattern)):
                found |= dict.fromkeys(sorted(path.rglob("test_*.py")) if path.is_dir() else [path])
        return list(found)


@dataclass(frozen=True, slots=True)
class Planted:
    """A file with a fault in it."""

    path: Path
    text: str
    lines: range
    """Those of the source that do something else with the fault: from the beginning of its statement to its end."""


def read_areas(folder: Path = AREAS) -> list[Area]:
    """All areas with their faults. A name that stands twice is an error."""
    areas = []
    for path in sorted(folder.glob("*.toml")):
        content = tomllib.loads(path.read_text("utf-8"))
        faults = tuple(Fault(**values) for values in content["fault"])
        areas.append(Area(path.stem, tuple(content["tests"]), faults))
    names = [fault.name for area in areas for fault in area.faults]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UnfitFaultError(f"more than one fault has the name {', '.join(twice)}")
    return areas


class Sources:
    """The source files of a tree, read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts = {
            path: path.read_text("utf-8")
            for folder in FOLDERS
            for path in sorted((root / folder).rglob("*.py"))
            if _NO_SOURCES.isdisjoint(path.relative_to(root).parts)
        }
        self._trees: dict[Path, ast.Module] = {}
        self._defining: dict[str, dict[Path, None]] = {}
        """The files that may define a name."""
        for path, text in self.texts.items():
            for found in _DEFINITION.finditer(text):
                self._defining.setdefault(found[1] or found[2], {})[path] = None

    def definitions(self, where: str) -> Iterator[tuple[Path, ast.AST]]:
        """What has this qualified name, in any file."""
        for path in self._defining.get(where.rpartition(".")[2], ()):
            if path not in self._trees:
                self._trees[path] = ast.parse(self.texts[path])
            yield from ((path, definition) for definition in _definitions(self._trees[path], where))


def plant(fault: Fault, sources: Sources) -> Planted:
    """The file with the fault in it. Nothing is written."""
    definitions = list(sources.definitions(fault.where))
    if not definitions:
        raise UnfitFaultError(f"{fault.name}: nothing is called {fault.where}")
    found = [
        (path, span, definition)
        for path, definition in definitions
        for span in (_in_strings(sources.texts[path], definition, fault) if fault.text else _in_code(definition, fault))
    ]
    if len(found) != 1:
        places = ", ".join(f"{path.relative_to(sources.root)}:{span.line}" for path, span, _ in found)
        raise UnfitFaultError(
            f"{fault.name}: in {fault.where}, this stands {len(found)} times instead of once: {places}\n"
            + textwrap.indent(fault.text or fault.old, "    ")
        )
    path, span, definition = found[0]
    text = sources.texts[path]
    changed = span.replaced(text)
    try:
        ast.parse(changed)
    except SyntaxError as error:
        raise UnfitFaultError(f"{fault.name}: what it makes of {path.name} isn't Python: {error}") from None
    if changed == text:
        raise UnfitFaultError(f"{fault.name}: it changes nothing")
    statements = (node for node in ast.walk(definition) if isinstance(node, ast.stmt))
    first = max(one.lineno for one in statements if one.lineno <= span.line <= (one.end_lineno or one.lineno))
    return Planted(path, changed, range(first, span.end_line + 1))


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of source and what it becomes. Lines count from 1, columns in bytes, as those of nodes."""

    line: int
    column: int
    end_line: int
    end_column: int
    new: str

    def replaced(self, text: str) -> str:
        data = text.encode()
        lines = data.splitlines(keepends=True)
        start = sum(map(len, lines[: self.line - 1])) + self.column
        end = sum(map(len, lines[: self.end_line - 1])) + self.end_column
        return (data[:start] + self.new.encode() + data[end:]).decode()


def _definitions(tree: ast.Module, where: str) -> Iterator[ast.AST]:
    """What has this qualified name: classes, functions, and variables of a module or a class."""

    def below(node: ast.AST, prefix: str) -> Iterator[ast.AST]:
        fields = ("body", "orelse", "finalbody", "handlers", "cases")
        for child in chain.from_iterable(getattr(node, field, ()) for field in fields):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{prefix}{child.name}"
                if name == where:
                    yield child
                yield from below(child, f"{name}.")
            elif isinstance(child, ast.Assign | ast.AnnAssign) and not isinstance(node, ast.FunctionDef):
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                if any(isinstance(target, ast.Name) and f"{prefix}{target.id}" == where for target in targets):
                    yield child
            else:
                yield from below(child, prefix)

    return below(tree, "")


def _in_code(definition: ast.AST, fault: Fault) -> Iterator[_Span]:
    """Where a definition has the fault's expression, or its statements in one block."""
    pattern, new = ast.parse(textwrap.dedent(fault.old)).body, textwrap.dedent(fault.new).strip()
    only = pattern[0]
    if len(pattern) == 1 and isinstance(only, ast.Expr) and _is_expression(new):
        kind, wanted = type(only.value), ast.dump(only.value)
        for node in ast.walk(definition):
            if type(node) is kind and isinstance(node, ast.expr) and ast.dump(node) == wanted:
                yield _span(node, node, f"({new})")
        return
    kinds, several = [type(one) for one in pattern], [ast.dump(one) for one in pattern]
    for node in ast.walk(definition):
        for _, block in ast.iter_fields(node):
            if not isinstance(block, list) or not block or not isinstance(block[0], ast.stmt):
                continue
            for start in range(len(block) - len(several) + 1):
                some = block[start : start + len(several)]
                if [type(one) for one in some] == kinds and [ast.dump(one) for one in some] == several:
                    indented = (new or "pass").replace("\n", "\n" + " " * some[0].col_offset)
                    yield _span(some[0], some[-1], indented)


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _span(first: ast.stmt | ast.expr, last: ast.stmt | ast.expr, new: str) -> _Span:
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    return _Span(first.lineno, first.col_offset, last.end_lineno, last.end_col_offset, new)


def _in_strings(text: str, definition: ast.AST, fault: Fault) -> Iterator[_Span]:
    """Where a string literal in a definition has the fault's text, in one line."""
    assert isinstance(definition, ast.stmt)
    first, last = definition.lineno, definition.end_lineno or definition.lineno
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if tokenize.tok_name[token.type] not in ("STRING", "FSTRING_MIDDLE") or not first <= token.start[0] <= last:
            continue
        for place in re.finditer(re.escape(fault.text), token.string):
            before = token.string[: place.start()]
            line = token.start[0] + before.count("\n")
            column = len(before.rpartition("\n")[2].encode())
            if "\n" not in before:
                column += len(token.line.splitlines()[0][: token.start[1]].encode())
            yield _Span(line, column, line, column + len(fault.text.encode()), fault.new)
