"""Annotates dialogues with a policy: it knows the whole dialogue and writes the reference actions of each turn.

The order of the output is that of the dialogues, whichever is finished first. Answers are kept in a journal, so the
same command resumes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agentfw import Message
from agentfw_papers.timing import (
    STATUSES,
    Annotation,
    Catalog,
    Dialogue,
    Domain,
    Opportunity,
    TurnOpportunities,
    read_answer,
    read_value,
)
from agentfw_rewardmodels import json_values

from .asking import Asked, Asker, Progress, Question

_ROLE = (
    "You annotate a finished conversation between a customer and a professional. You know how it went on, and say for"
    " {unit} which actions of the catalog would have been worth preparing there, so that an assistant can learn to"
    " prepare them in time."
)
_RULES = (
    "Name only what matters at this turn. An action that was carried out before does not matter any more.",
    "Give an input a value only if it has been said up to this turn; otherwise leave it as null.",
    "The status is ready_to_trigger only on clear grounds: the wish is plain, and every required input is known.",
    "The status is pending while something is missing, and triggered at the turn at which the action happens.",
    "Nothing is a fine answer: use an empty list.",
    "Answer with JSON alone.",
)
_UNOBSERVED = (
    "Nobody recorded which actions happened. Call an action ready only if the words are clear evidence for it.",
    "Keep track of every required input and of the turn at which it becomes known.",
    "Weigh both: how plain the wish is, and how complete the information is.",
)
_SHAPE = {
    "name": "NAME OF AN ACTION",
    "status": " | ".join(STATUSES),
    "required": {"INPUT": "VALUE or null"},
    "optional": {"INPUT": "VALUE or null"},
    "maturity": "low | medium | high",
    "confidence": "low | medium | high",
}


def question(domain: Domain, dialogue: Dialogue, turns: Sequence[int], *, observed: bool) -> list[Message]:
    """Ask about one turn, or about several at once. `observed` shows the entries of triggered actions."""
    single = len(turns) == 1
    rules = (*_RULES, *(() if domain.observed else _UNOBSERVED))
    answer = {"opportunities": [_SHAPE]}
    shape = answer if single else {"turns": [{"turn": "NUMBER", **answer}]}
    system = "\n\n".join(
        [
            _ROLE.format(unit="one turn" if single else "each turn"),
            "\n".join(f"- {rule}" for rule in rules),
            f"Shape of the answer:\n{json.dumps(shape)}",
            f"Catalog:\n{domain.catalog.render('full')}",
        ]
    )
    lines = [
        f"{number}. {turn.speaker}: {turn.text}"
        for number, turn in enumerate(dialogue.turns, start=1)
        if observed or turn.speaker != "action"
    ]
    about = f"turn {turns[0]}" if single else f"turns {', '.join(map(str, turns))}"
    talk = "\n".join(lines)
    return [Message("system", system), Message("user", f"Conversation:\n{talk}\n\nAnnotate {about}.")]


Unit = Literal["turn", "dialogue"]
JOURNAL = "answers.jsonl"


@dataclass(frozen=True, kw_only=True)
class Annotations(Asked):
    """What came out, in the order of the dialogues."""

    complete: tuple[Annotation, ...]
    failed: dict[str, str]
    """Dialogues that are left out, with what was wrong with the first unusable answer."""

    def facts(self) -> dict[str, Any]:
        return {
            "answers": self.answers,
            "retried": self.retried,
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "tokens": self.tokens,
        }


class Annotator:
    """Asks a policy about dialogues of one domain."""

    def __init__(self, domain: Domain, asker: Asker, *, unit: Unit = "turn", observed: bool = False) -> None:
        """`observed` shows the annotator which actions were triggered."""
        self.domain, self.asker, self.unit, self.observed = domain, asker, unit, observed

    async def annotate(
        self, dialogues: Sequence[Dialogue], folder: Path, progress: Progress = lambda done, all: None
    ) -> Annotations:
        """Annotate the dialogues, with the journal in `folder`."""
        questions = [one for dialogue in dialogues for one in self._questions(dialogue)]
        records, asked = await self.asker.ask(questions, folder / JOURNAL, progress)
        found: dict[str, dict[int, tuple[Opportunity, ...]]] = {one.id: {} for one in dialogues}
        failed = dict[str, str]()
        for one, record in zip(questions, records, strict=True):
            if record["failure"]:
                failed.setdefault(one.dialogue, record["failure"])
            else:
                found[one.dialogue] |= _read(record["answer"], one.turns, self.domain.catalog)[0]
        complete = tuple(
            Annotation(one.id, len(one.turns), _turns(one.id, found[one.id]))
            for one in dialogues
            if one.id not in failed
        )
        return Annotations(complete=complete, failed=failed, **vars(asked))

    def _questions(self, dialogue: Dialogue) -> Iterator[Question]:
        spoken = tuple(number for number, turn in enumerate(dialogue.turns, start=1) if turn.speaker != "action")
        for turns in [spoken] if self.unit == "dialogue" else [(number,) for number in spoken]:
            messages = tuple(question(self.domain, dialogue, turns, observed=self.observed))
            yield Question(dialogue.id, turns, messages, partial(self._failures, turns))

    def _failures(self, turns: Sequence[int], text: str) -> Sequence[str]:
        return _read(text, turns, self.domain.catalog)[1]


def _turns(dialogue: str, found: dict[int, tuple[Opportunity, ...]]) -> tuple[TurnOpportunities, ...]:
    return tuple(TurnOpportunities(dialogue, turn, found[turn]) for turn in sorted(found) if found[turn])


def _read(
    text: str, turns: Sequence[int], catalog: Catalog
) -> tuple[dict[int, tuple[Opportunity, ...]], tuple[str, ...]]:
    """The opportunities of each turn in an answer, and what is wrong with it."""
    if len(turns) == 1:
        answer = read_answer(text, catalog)
        return {turns[0]: answer.opportunities}, answer.failures
    rows = next((value.get("turns") for value, _ in json_values(text) if isinstance(value, dict)), None)
    if not isinstance(rows, list):
        return {}, ('there is no JSON object with the key "turns"',)
    found: dict[int, tuple[Opportunity, ...]] = {}
    failures: list[str] = []
    for row in rows:
        number = row.get("turn") if isinstance(row, dict) else None
        if not isinstance(number, int) or number not in turns:
            failures.append(f"{json.dumps(number)} is not a turn to annotate")
            continue
        answer = read_value({"opportunities": row.get("opportunities", [])}, catalog)
        failures += [f"turn {number}: {failure}" for failure in answer.failures]
        found[number] = answer.opportunities
    return found, tuple(failures)
