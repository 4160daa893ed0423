"""YAML that remembers line numbers, so that errors can name the line of a value.

Every error names the file, the line and the reason. Reading is strict: an unknown key is an error with the nearest
known one, and so is a key that is written twice, of which plain YAML silently drops the first.

    >>> sheet = read_text("a: 1\\nb: [x, y]", "small.yaml")
    >>> table = sheet.table(required=("a", "b"))
    >>> table["a"].integer(0, 9), [item.text() for item in table["b"].items()], table["b"].line
    (1, ['x', 'y'], 2)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from agentfw.errors import SettingsError, nearest

# libyaml is ten times faster and comes with nearly every PyYAML.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Sheet:
    """One value of a YAML file and its line."""

    __slots__ = ("file", "key", "line", "node")

    def __init__(self, node: Any, file: str, key: str = "", line: int | None = None) -> None:
        self.node, self.file, self.key = node, file, key
        self.line: int = node.start_mark.line + 1 if line is None else line

    def error(self, reason: str, *, fix: str = "") -> SettingsError:
        """An error about this value, to be raised."""
        subject = f"{self.key}: " if self.key else ""
        return SettingsError(
            f"{self.file}, line {self.line}: {subject}{reason}",
            fix=fix or "fix that line; see docs/guides/organisations.md",
        )

    # -- tables and lists ----------------------------------------------------------------------------------------------

    def entries(self) -> list[tuple[str, Sheet]]:
        """The keys and values of a table, in order."""
        if self.node.id != "mapping":
            raise self.error(f"must be a table of keys and values, not {self._kind()}")
        found: dict[str, Sheet] = {}
        for key_node, value_node in self.node.value:
            if key_node.id != "scalar":
                raise Sheet(key_node, self.file, self.key).error("a key must be a plain word")
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            value = Sheet(value_node, self.file, f"{self.key}.{key}" if self.key else key, line)
            if key in found:
                raise value.error(f"appears twice; the first is in line {found[key].line}")
            found[key] = value
        return list(found.items())

    def table(self, required: Sequence[str] = (), optional: Sequence[str] = ()) -> dict[str, Sheet]:
        """Read a table with these keys and no others."""
        found = dict(self.entries())
        known = (*required, *optional)
        for key, value in found.items():
            if key not in known:
                guess = nearest(key, known)
                hint = f'did you mean "{guess}"?' if guess else f"there is: {', '.join(known)}"
                raise value.error(f"no such key; {hint}")
        for key in required:
            if key not in found:
                raise self.error(f'"{key}" is missing')
        return found

    def items(self, *, least: int = 0) -> list[Sheet]:
        """The items of a list."""
        if self.node.id != "sequence":
            raise self.error(f"must be a list, not {self._kind()}")
        found = [Sheet(node, self.file, f"{self.key}[{index}]") for index, node in enumerate(self.node.value)]
        if len(found) < least:
            raise self.error(f"must have at least {least} items (it has {len(found)})")
        return found

    @property
    def is_table(self) -> bool:
        return bool(self.node.id == "mapping")

    @property
    def is_list(self) -> bool:
        return bool(self.node.id == "sequence")

    # -- single values -------------------------------------------------------------------------------------------------

    def text(self, *, longest: int = 80) -> str:
        if self.node.id != "scalar":
            raise self.error(f"must be text, not {self._kind()}")
        value = str(self.node.value).strip()
        if not value:
            raise self.error("must not be empty")
        if len(value) > longest:
            raise self.error(f"must be at most {longest} characters long (it has {len(value)})")
        return value

    def texts(self, *, least: int = 1, longest: int = 80) -> tuple[str, ...]:
        """A list of different texts."""
        found = [item.text(longest=longest) for item in self.items(least=least)]
        for index, value in enumerate(found):
            if value in found[:index]:
                raise self.items()[index].error(f'"{value}" appears twice')
        return tuple(found)

    def one_of(self, choices: Collection[str]) -> str:
        value = self.text()
        if value not in choices:
            guess = nearest(value, choices)
            hint = f'did you mean "{guess}"?' if guess else f"it is one of {', '.join(choices)}"
            raise self.error(f'"{value}" is not known here; {hint}')
        return value

    def integer(self, low: int, high: int) -> int:
        return int(self._number(low, high, whole=True))

    def number(self, low: float, high: float) -> float:
        return self._number(low, high, whole=False)

    def span(self, low: int, high: int) -> tuple[int, int]:
        """A number, or a span such as 2-5."""
        first, dash, last = self.text().partition("-")
        try:
            bounds = (int(first), int(last) if dash else int(first))
        except ValueError:
            raise self.error(f'must be a number or a span such as 2-5 (got "{self.node.value}")') from None
        if not low <= bounds[0] <= bounds[1] <= high:
            raise self.error(f"must be ascending and between {low} and {high} (got {self.node.value})")
        return bounds

    def _number(self, low: float, high: float, *, whole: bool) -> float:
        words = "a whole number" if whole else "a number"
        if self.node.id != "scalar":
            raise self.error(f"must be {words}, not {self._kind()}")
        try:
            value = int(self.node.value) if whole else float(self.node.value)
        except ValueError:
            raise self.error(f'must be {words} (got "{self.node.value}")') from None
        if not low <= value <= high:
            raise self.error(f"must be between {low:g} and {high:g} (got {value:g})")
        return value

    def _kind(self) -> str:
        kinds = {"mapping": "a table", "sequence": "a list"}
        return kinds.get(self.node.id) or (f'"{self.node.value}"' if self.node.value else "nothing")


def read_text(text: str, file: str) -> Sheet:
    """Parse a YAML text."""
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise SettingsError(
            f"{file}, line {line}: this isn't valid YAML: {error.problem or error}",
            fix="look for an unclosed bracket or quote, or a tab, in or just above that line",
        ) from None
    except yaml.YAMLError as error:
        raise SettingsError(
            f"{file}, line 1: this isn't valid YAML: {error}", fix="save the file as UTF-8 text"
        ) from None
    if node is None:
        raise SettingsError(f"{file}, line 1: the file is empty", fix="see docs/guides/organisations.md")
    _refuse_cycles(node, file, [])
    return Sheet(node, file)


def read_file(path: Path) -> Sheet:
    try:
        return read_text(path.read_text("utf-8"), path.name)
    except OSError as error:
        raise SettingsError(f"can't read {path}: {error.strerror or error}", fix="pass a YAML file") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise SettingsError(f"{path.name}, line {line}: this isn't UTF-8 text", fix="save the file as UTF-8") from None


def _refuse_cycles(node: Any, file: str, above: list[Any]) -> None:
    """Refuse an anchor that contains itself, which would loop forever."""
    if any(node is other for other in above):
        raise Sheet(node, file).error("contains itself by an anchor")
    children: Iterable[Any] = ()
    if node.id == "sequence":
        children = node.value
    elif node.id == "mapping":
        children = [part for pair in node.value for part in pair]
    for child in children:
        if child.id != "scalar":
            _refuse_cycles(child, file, [*above, node])
