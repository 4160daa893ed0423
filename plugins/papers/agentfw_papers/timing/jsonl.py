"""JSON Lines files of dialogues, annotations and predictions, plain or compressed with gzip.

| file | one line |
| --- | --- |
| predictions | `{"dialogue": "d1", "turn": 4, "opportunities": [...]}` |
| annotations | `{"dialogue": "d1", "length": 20, "turns": [{"turn": 4, "opportunities": [...]}, ...]}` |
| dialogues | `{"id": "d1", "turns": [{"speaker": "customer", "text": "..."}, ...], "triggers": [...]}` |

Opportunities have the keys `name` and `status`, and `required` and `optional` inputs: a mapping from name to value
(null if it is not known yet), or a list of objects with `name`, `provided` and `value`, which is what is written here.
Turns may have `questions` as well. An error names the file and the line.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from agentfw.runs import make_private
from agentfw_papers.timing.actions import Input, Opportunity, TurnOpportunities
from agentfw_papers.timing.dialogues import Annotation, Dialogue
from agentfw_papers.timing.reading import read_value
from agentfw_rewardmodels import BadInputError, StorageError

_T = TypeVar("_T")
_GZIP = b"\x1f\x8b"


def read_predictions(path: str | os.PathLike[str]) -> list[TurnOpportunities]:
    """What was predicted, turn by turn. A turn with an empty list was asked about and got no prediction."""
    return list(_read(path, _turn))


def read_annotations(path: str | os.PathLike[str]) -> list[Annotation]:
    """The references, dialogue by dialogue."""
    return list(_read(path, _annotation))


def read_dialogues(path: str | os.PathLike[str]) -> list[Dialogue]:
    return list(_read(path, Dialogue.from_dict))


def turn_row(turn: TurnOpportunities) -> dict[str, Any]:
    """A prediction as a JSON object, as `read_predictions` reads it."""
    return {"dialogue": turn.dialogue, **_turn_values(turn)}


def annotation_row(annotation: Annotation) -> dict[str, Any]:
    """An annotation as a JSON object, as `read_annotations` reads it."""
    turns = [_turn_values(turn) for turn in annotation.turns]
    return {"dialogue": annotation.dialogue, "length": annotation.length, "turns": turns}


def write_rows(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON objects one a line, compressed if the name ends with .gz.

    The file is written under another name and renamed at the end, so there is never half a file. The same rows always
    give the same bytes.
    """
    path = Path(path)
    # A lone surrogate, which UTF-8 can't hold, becomes its JSON escape.
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "backslashreplace")
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make_private(new)
        with new.open("wb") as file:
            file.write(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise StorageError(
            f"{path} can't be written: {error}", fix="free some space, or choose another path"
        ) from error
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _read(path: str | os.PathLike[str], read: Callable[[Mapping[str, Any]], _T]) -> Iterator[_T]:
    try:
        with Path(path).open("rb") as file:
            # By its content and not by its name: downloads are often renamed.
            compressed = file.read(2) == _GZIP
            file.seek(0)
            with io.TextIOWrapper(gzip.open(file) if compressed else file, "utf-8-sig") as text:
                for number, line in enumerate(text, start=1):
                    if line.strip():
                        yield _read_line(f"{path}, line {number}", line, read)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} can't be read: {error}", fix="check the path, or get the file again") from error


def _read_line(place: str, line: str, read: Callable[[Mapping[str, Any]], _T]) -> _T:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{place} is not JSON: {error}", fix="write one JSON object a line") from None
    if not isinstance(row, dict):
        raise BadInputError(f"{place} is not a JSON object", fix="write one JSON object a line")
    try:
        return read(row)
    except BadInputError as error:
        raise BadInputError(f"{place}: {error.message}", fix=error.fix) from error


def _turn(row: Mapping[str, Any]) -> TurnOpportunities:
    return _turn_of(_value(row, "dialogue", str), row)


def _annotation(row: Mapping[str, Any]) -> Annotation:
    dialogue = _value(row, "dialogue", str)
    turns = _value(row, "turns", list)
    return Annotation(dialogue, _value(row, "length", int), tuple(_turn_of(dialogue, turn) for turn in turns))


def _turn_of(dialogue: str, row: object) -> TurnOpportunities:
    if not isinstance(row, dict):
        raise BadInputError(f"{row!r} is not a turn", fix='write turns as {"turn": 1, "opportunities": []}')
    answer = read_value({"opportunities": _value(row, "opportunities", list), "questions": row.get("questions", [])})
    if answer.failures:
        raise BadInputError(answer.failures[0], fix="give every opportunity a name and a status")
    return TurnOpportunities(dialogue, row.get("turn", 0), answer.opportunities, answer.questions)


def _value(row: Mapping[str, Any], key: str, kind: type[_T]) -> _T:
    value = row.get(key)
    if not isinstance(value, kind):
        raise BadInputError(f'"{key}" is {value!r}, not {_KINDS[kind]}', fix=f'write {_KINDS[kind]} under "{key}"')
    return value


_KINDS: Mapping[type, str] = {str: "a text", list: "a list", int: "a number"}


def _turn_values(turn: TurnOpportunities) -> dict[str, Any]:
    row: dict[str, Any] = {"turn": turn.turn, "opportunities": [_opportunity(one) for one in turn.opportunities]}
    return {**row, "questions": list(turn.questions)} if turn.questions else row


def _opportunity(one: Opportunity) -> dict[str, Any]:
    return {
        "name": one.name,
        "status": one.status,
        "required": [_input(each) for each in one.required],
        "optional": [_input(each) for each in one.optional],
        "maturity": one.maturity,
        "confidence": one.confidence,
        "description": one.description,
    }


def _input(one: Input) -> dict[str, Any]:
    row: dict[str, Any] = {"name": one.name, "provided": one.provided}
    return row if one.value is None else {**row, "value": one.value}
