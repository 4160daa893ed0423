"""Reading predicted actions and questions out of what a model wrote.

An answer is JSON, in whatever wrapping it came, or lines of the form `NAME STATUS input=value input=?`. What can't be
read is a failure in words that the model itself can read. No text raises an error.

An action that the catalog doesn't know stays in the prediction, so that inventing names costs agreement, and is a
failure as well. An opportunity with an unknown status is left out.

    >>> answer = read_answer("send-link Ready_To_Trigger email=jwu@email.com phone=?")
    >>> answer.opportunities[0].status, answer.opportunities[0].inputs["email"].value, answer.failures
    ('ready_to_trigger', 'jwu@email.com', ())
    >>> read_answer('{"opportunities": [{"name": "send-link", "status": "soon"}]}').failures
    ('"soon" is not a status; use one of pending, ready_to_trigger, triggered, repeatable, dismissed',)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from agentfw_papers.timing.actions import STATUSES, Input, Level, Opportunity, is_level, is_status
from agentfw_papers.timing.catalog import Action, Catalog
from agentfw_rewardmodels import json_values, without_thought

MOST_OPPORTUNITIES = 64
"""Opportunities of one answer that are read."""
_MOST_FAILURES = 20
_LISTS = ("opportunities", "proactive_action_opportunities", "proactive_annotations")
_QUESTIONS = ("questions", "raised_questions")
_STATUS = ("status", "action_trigger_status")
_MATURITY = ("maturity", "readiness_maturity", "parameters_readiness_maturity")
_CONFIDENCE = ("confidence", "trigger_confidence")
_NAME = ("name", "input_name")
_NOTHING = frozenset({"nothing", "none", "[]"})
_ACTION_PART = re.compile(r".*<action>(.*?)(?:</action>|\Z)", re.S)
_LINE = re.compile(r"(\S+)\s+(\S+)(?:\s+(.*))?")
_INPUT = re.compile(r"(?:^|\s)([\w.-]+)=")
_QUESTION = re.compile(r"question:\s*(\S.*)", re.I)
_UNREADABLE = "there is no JSON and no line such as NAME STATUS input=value in it"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an answer says, and what is wrong with it."""

    opportunities: tuple[Opportunity, ...] = ()
    questions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    unknown_names: tuple[str, ...] = ()
    """Names of predicted actions that the catalog doesn't have."""
    left_out: int = 0
    """Opportunities beyond the maximum of 64."""
    repaired: bool = False
    """Whether quotes, commas or brackets had to be repaired."""


def read_answer(text: str, catalog: Catalog | None = None) -> Answer:
    """The opportunities and questions in a model's answer. Names are resolved through the catalog if there is one."""
    part = _ACTION_PART.match(without_thought(text))
    readable = part[1] if part else without_thought(text)
    for value, repaired in json_values(readable):
        if (found := _sections(value)) is not None:
            return _Reader(catalog, repaired).answer(*found)
    return _read_lines(readable, catalog)


def read_value(value: object, catalog: Catalog | None = None) -> Answer:
    """The same for JSON that is decoded already, such as the arguments of a call."""
    found = _sections(value)
    if found is None:
        return Answer(failures=('it is not a list of opportunities, nor an object with the key "opportunities"',))
    return _Reader(catalog).answer(*found)


def _sections(value: object) -> tuple[list[object], list[object]] | None:
    """The raw opportunities and questions in a JSON value of a known shape."""
    if isinstance(value, list):
        return (value, []) if all(isinstance(row, dict) for row in value) else None
    if not isinstance(value, dict):
        return None
    call = value.get("arguments")
    row: dict[str, object] = call if isinstance(call, dict) else value
    rows, questions = _first(row, _LISTS), _first(row, _QUESTIONS)
    if rows is None and questions is None:
        return ([row], []) if "action_opportunity" in row or _first(row, _STATUS) is not None else None
    return _as_list(rows), _as_list(questions)


def _is_input(row: Mapping[str, object]) -> bool:
    """Whether this is one input, and not a mapping from names to values."""
    return "input_name" in row or ("name" in row and not row.keys().isdisjoint({"provided", "value"}))


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _first(row: Mapping[str, object], keys: tuple[str, ...]) -> object:
    return next((row[key] for key in keys if row.get(key) is not None), None)


class _Reader:
    """Collects the opportunities of one answer with what is wrong with them."""

    def __init__(self, catalog: Catalog | None, repaired: bool = False) -> None:
        self.catalog, self.repaired = catalog, repaired
        self.opportunities, self.failures, self.unknown = list[Opportunity](), list[str](), list[str]()

    def answer(self, rows: list[object], questions: list[object]) -> Answer:
        for row in rows[:MOST_OPPORTUNITIES]:
            self.add(row)
        texts = tuple(one.strip() for one in questions if isinstance(one, str) and one.strip())
        return self.finished(texts, len(rows) - MOST_OPPORTUNITIES)

    def finished(self, questions: tuple[str, ...], left_out: int) -> Answer:
        if left_out > 0:
            self.failures.append(f"only the first {MOST_OPPORTUNITIES} opportunities are read")
        return Answer(
            tuple(self.opportunities),
            questions,
            tuple(self.failures[:_MOST_FAILURES]),
            tuple(self.unknown),
            max(0, left_out),
            self.repaired,
        )

    def add(self, row: object) -> None:
        """Read one JSON opportunity."""
        if isinstance(row, dict) and isinstance(row.get("action_opportunity"), dict):
            row = row["action_opportunity"]
        if not isinstance(row, dict):
            self.failures.append(f"{_quoted(row)} is not an object with name and status")
            return
        inputs = row.get("inputs")
        if not isinstance(inputs, dict) or not inputs.keys() <= {"required", "optional"}:
            inputs = {
                "required": inputs if inputs is not None else row.get("required"),
                "optional": row.get("optional"),
            }
        required, optional = (list(self.inputs(inputs.get(kind))) for kind in ("required", "optional"))
        self.add_opportunity(
            row.get("name"),
            _first(row, _STATUS),
            required,
            optional,
            maturity=_level(_first(row, _MATURITY)),
            confidence=_level(_first(row, _CONFIDENCE)),
            description=_text(row.get("description", "")),
        )

    def add_opportunity(
        self,
        name: object,
        status: object,
        required: list[Input],
        optional: list[Input],
        *,
        maturity: Level = "medium",
        confidence: Level = "medium",
        description: str = "",
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            self.failures.append("an opportunity has no name")
            return
        name = name.strip()
        written = re.sub(r"[\s-]+", "_", _text(status).strip()).casefold()
        if not is_status(written):
            self.failures.append(f"{_quoted(status)} is not a status; use one of {', '.join(STATUSES)}")
            return
        action = self.catalog.find(name) if self.catalog else None
        if action is not None:
            name = action.name
            required, optional = self.sorted_by(action, [*required, *optional])
        elif self.catalog:
            self.unknown.append(name)
            self.failures.append(f"there is no action {_quoted(name)}")
        # Of an input that is listed twice, the first counts.
        taken = {one.name: one for one in reversed((*required, *optional))}
        self.opportunities.append(
            Opportunity(
                name,
                written,
                tuple(one for one in required if taken.get(one.name) is one),
                tuple(one for one in optional if taken.get(one.name) is one),
                maturity,
                confidence,
                description,
            )
        )

    def inputs(self, value: object) -> Iterator[Input]:
        """The inputs in a mapping from name to value, or in a list of objects. What isn't known is null, "" or "?"."""
        if isinstance(value, dict) and not _is_input(value):
            value = [
                {**(row if isinstance(row, dict) else {"value": row}), "name": name} for name, row in value.items()
            ]
        for row in _as_list(value):
            name = _first(row, _NAME) if isinstance(row, dict) else row
            if not isinstance(name, str) or not name.strip():
                self.failures.append("an input has no name")
                continue
            facts = row if isinstance(row, dict) else {}
            raw = facts.get("value")
            provided = facts.get("provided", raw not in (None, "", "?"))
            provided = provided.strip().casefold() in ("true", "yes") if isinstance(provided, str) else bool(provided)
            yield Input(name.strip(), provided, _text(raw) if provided and raw is not None else None)

    def sorted_by(self, action: Action, inputs: list[Input]) -> tuple[list[Input], list[Input]]:
        """The inputs as required and optional ones, as the catalog has it. Unknown ones are left out."""
        required, optional = list[Input](), list[Input]()
        for one in inputs:
            parameter = action.find(one.name)
            if parameter is None:
                self.failures.append(f'"{action.name}" has no input {_quoted(one.name)}')
                continue
            (required if parameter.required else optional).append(Input(parameter.name, one.provided, one.value))
        return required, optional


def _read_lines(text: str, catalog: Catalog | None) -> Answer:
    reader, questions, rows = _Reader(catalog), list[str](), 0
    lines = [line.strip().lstrip("-*•").strip().strip("`").strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("<")]
    for line in lines:
        if line.casefold().rstrip(".") in _NOTHING:
            continue
        if question := _QUESTION.match(line):
            questions.append(question[1])
            continue
        rows += 1
        if rows > MOST_OPPORTUNITIES:
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            reader.failures.append(f"{_quoted(line)} is not of the form NAME STATUS input=value")
            continue
        # Which inputs are required is known to the catalog only; without one all of them are.
        reader.add_opportunity(found[1], found[2], list(_line_inputs(found[3] or "")), [])
    if not lines or (rows and not questions and not reader.opportunities):
        return Answer(failures=(_UNREADABLE,))
    return reader.finished(tuple(questions), rows - MOST_OPPORTUNITIES)


def _line_inputs(text: str) -> Iterator[Input]:
    found = list(_INPUT.finditer(text))
    for one, following in zip_longest(found, found[1:]):
        end = following.start() if following else len(text)
        value = text[one.end() : end].strip().strip("\"'")
        known = value not in ("", "?")
        yield Input(one[1], known, value if known else None)


def _level(value: object) -> Level:
    text = _text(value).casefold()
    return text if is_level(text) else "medium"


def _text(value: object) -> str:
    """A JSON value as the text that it would have in a dialogue."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and math.isfinite(value):
        value = int(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "..."


def _quoted(value: object) -> str:
    return f'"{_text(value)[:80]}"'
