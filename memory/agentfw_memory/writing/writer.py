"""What a writer is asked and answers, and how its answer is checked.

An answer is never trusted: evidence must be a span of what the person said, and a memory that changes or goes one that
was shown, that may be changed and that the evidence is about. What fails is left out and told. What the model of a
`ModelWriter` can't answer is an exception, and the caller keeps what was said.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Literal, Protocol, get_args

from ..errors import WriterError
from ..graph.records import day
from .secrets import has_secret

NEAREST = 10  # number of memories that a writer is shown
LONGEST_TEXT = 1_000  # maximum number of characters of what a writer remembers in one memory

Action = Literal["ADD", "UPDATE", "DELETE", "NONE"]
ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """A memory that the person may see."""

    id: str
    text: str
    owner: str
    shared: bool
    since: float


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said."""

    text: str
    user: str
    at: float
    before: tuple[tuple[str, str], ...] = ()
    """The turns before it in the conversation, oldest first: who spoke (`user` or `assistant`), and what they said."""
    known: tuple[KnownMemory, ...] = ()
    """The memories nearest to it."""
    own: tuple[str, ...] = ()
    """The sentences that the person wrote, without what was pasted or quoted. Evidence has to lie in one of them."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing to do."""

    action: Action
    text: str = ""
    """What to remember."""
    evidence: str = ""
    """The span of what the person said that says so."""
    id: str = ""
    """The memory to update or to delete."""
    about: str = ""
    """Whom or what it is about, unless that is the person."""
    since: float | None = None
    """Since when it holds. None: since it was said."""
    shared: bool = False
    """Whether everybody of the tenant may know it."""
    always: bool = False
    """Whether it matters to every answer, such as a name or a language."""


class Writer(Protocol):
    """Decides what to write down."""

    async def write(self, sayings: Sequence[Said]) -> Sequence[object]:
        """Return for each saying a list of decisions, as objects with the fields of `Decision`."""


def checked(said: Said, answer: object, related: Callable[[str, str], bool]) -> tuple[list[Decision], list[str]]:
    """Return the decisions of an answer that hold, and what is wrong with the others. `related` returns whether two
    texts are about the same thing."""
    if not isinstance(answer, list) or not all(isinstance(one, dict) for one in answer):
        return [], ["the answer is no list of decisions"]
    good, wrong = [], []
    for given in answer:
        try:
            good.append(_decision(given, said, related))
        except ValueError as error:
            wrong.append(str(error))
    return [one for one in good if one.action != "NONE"], wrong


def _decision(given: dict[str, Any], said: Said, related: Callable[[str, str], bool]) -> Decision:
    action = next((one for one in ACTIONS if one == given.get("action")), None)
    if action is None:
        raise ValueError(f"{given.get('action')!r} is no action")
    texts = {name: given.get(name) or "" for name in ("text", "evidence", "id", "about", "since")}
    if wrong := [name for name, text in texts.items() if not isinstance(text, str)]:
        raise ValueError(f"{wrong[0]} is no text")
    since = None
    if date := texts.pop("since"):
        try:
            since = min(said.at, datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp())
        except ValueError:
            raise ValueError(f"{date!r} is no date") from None
    shared, always = (given.get(name) is True for name in ("shared", "always"))
    decision = Decision(action, **texts, since=since, shared=shared, always=always)
    if action == "NONE":
        return decision
    evidence = _folded(decision.evidence)
    if not evidence or not any(evidence in _folded(one) for one in (*said.own, " ".join(said.own))):
        raise ValueError(f"the evidence {decision.evidence[:80]!r} wasn't said")
    if action != "DELETE":
        if not decision.text.strip() or len(decision.text) > LONGEST_TEXT:
            raise ValueError(f"there is no text to remember, or it has more than {LONGEST_TEXT:,} characters")
        if has_secret(decision.text):
            raise ValueError("the text to remember has a secret in it")
    if action == "ADD":
        return decision
    known = next((one for one in said.known if one.id == decision.id), None)
    if known is None:
        raise ValueError(f"{decision.id!r} is none of the memories that were shown")
    if known.owner != said.user and (not known.shared or action == "DELETE"):
        raise ValueError(f"{decision.id} is {known.owner}'s")
    if not related(f"{decision.evidence} {decision.text}", known.text):
        raise ValueError(f"what was said isn't about {decision.id}")
    return decision


def _folded(text: str) -> str:
    """Return a text so that spans are compared without case, spaces and the marks at their ends."""
    return re.sub(r"\s+", " ", text.casefold().replace("’", "'")).strip(" .!?,;:。！？،؟।\"'")


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with just these keys."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_DECISION = {
    "action": {"type": "string", "enum": list(ACTIONS)},
    **{key: {"type": "string"} for key in ("text", "evidence", "id", "about", "since")},
    **{key: {"type": "boolean"} for key in ("shared", "always")},
}
_DECISIONS = {"type": "array", "items": _object(_DECISION)}
SCHEMA: Mapping[str, Any] = _object({"messages": {"type": "array", "items": _DECISIONS}})


class CompletingModel(Protocol):
    """A model that answers in a form."""

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        """Return the answer to a conversation as JSON of this schema."""


class ModelWriter:
    """Asks a model. `asked` is the number of requests so far, and `characters` the size of requests and answers."""

    def __init__(self, model: CompletingModel, *, timeout: float = 30.0, most_characters: int = 0) -> None:
        """`most_characters` is the budget of requests and answers together, 0 for no limit."""
        self._model, self._timeout, self._most = model, timeout, most_characters
        self._prompt = files("agentfw_memory.writing").joinpath("prompt.md").read_text("utf-8")
        self.asked = self.characters = 0

    async def write(self, sayings: Sequence[Said]) -> Sequence[object]:
        told = [
            {
                "date": day(said.at),
                "user": said.user,
                "before": [{"role": role, "text": text} for role, text in said.before],
                "own_sentences": list(said.own),
                "memories": [{**asdict(one), "since": day(one.since)} for one in said.known],
            }
            for said in sayings
        ]
        task = json.dumps({"messages": told}, ensure_ascii=False)
        messages = [{"role": "system", "content": self._prompt}, {"role": "user", "content": task}]
        size = sum(len(one["content"]) for one in messages)
        if self._most and self.characters + size > self._most:
            problem = f"the budget of {self._most:,} characters is used up"
            raise WriterError(problem, fix="raise the budget, or go on without a model")
        self.asked, self.characters = self.asked + 1, self.characters + size
        try:
            answer = await asyncio.wait_for(self._model.complete(messages, SCHEMA), self._timeout)
        except TimeoutError:
            raise WriterError(f"no answer within {self._timeout:g} s", fix="raise the timeout") from None
        self.characters += len(answer)
        try:
            found = json.loads(answer)["messages"]
        except (ValueError, TypeError, KeyError):
            found = None
        if not isinstance(found, list) or len(found) != len(sayings):
            raise WriterError("the model answered in another form", fix="use a model with structured output")
        return found
