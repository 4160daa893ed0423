"""Annotates dialogues with a policy: it knows the whole dialogue and writes the reference actions of each turn.

Every answer goes to a journal before it counts, under a key made of the policy and of everything that it was asked. So
the same command resumes, asks nothing twice, and never mixes answers to different questions. The order of the output is
that of the dialogues, whichever is finished first.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentfw import Brief, Message, Moment, Observation, Policy, Request
from agentfw.errors import RequestRefusedError
from agentfw.runs import Journal, SamplingSettings, read_journal
from agentfw_rewardmodels.json_in_text import json_values
from agentfw_rewardmodels.timing import (
    Annotation,
    Catalog,
    Dialogue,
    Domain,
    Opportunity,
    TurnOpportunities,
    read_answer,
    read_value,
)

from .annotator_prompt import correction, question

__all__ = ["Annotations", "Annotator", "Unit"]

Unit = Literal["turn", "dialogue"]
JOURNAL = "answers.jsonl"
SAMPLING = SamplingSettings(temperature=0.1, max_tokens=4000)


@dataclass(frozen=True)
class Annotations:
    """What came out, in the order of the dialogues."""

    complete: tuple[Annotation, ...]
    failed: dict[str, str]
    """Dialogues that are left out, with what was wrong with the first unusable answer."""
    answers: int
    retried: int
    from_before: int
    """Answers that the journal had already."""
    unused: int
    """Answers in the journal to other questions, for example with another catalog."""
    seconds: float
    tokens: int

    def facts(self) -> dict[str, Any]:
        return {
            "answers": self.answers,
            "retried": self.retried,
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "tokens": self.tokens,
        }


@dataclass(frozen=True)
class _Question:
    dialogue: Dialogue
    turns: tuple[int, ...]
    messages: tuple[Message, ...]
    key: str


class Annotator:
    """Asks a policy about dialogues of one domain."""

    def __init__(
        self,
        domain: Domain,
        policy: Policy,
        *,
        name: str,
        jobs: int = 4,
        retries: int = 3,
        unit: Unit = "turn",
        observed: bool = False,
        sampling: SamplingSettings = SAMPLING,
    ) -> None:
        """`name` identifies the policy with its version and settings: answers of another one are not used."""
        self.domain, self.policy, self.name = domain, policy, name
        self.jobs, self.retries, self.unit, self.observed, self.sampling = jobs, retries, unit, observed, sampling

    async def annotate(
        self, dialogues: Sequence[Dialogue], folder: Path, progress: Callable[[int, int], None] = lambda done, all: None
    ) -> Annotations:
        """Annotate the dialogues, with the journal in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        questions = [one for dialogue in dialogues for one in self._questions(dialogue)]
        known = {record["key"]: record for record in read_journal(folder / JOURNAL)}
        wanted = {one.key for one in questions}
        before = len(wanted & known.keys())
        left = iter([one for one in questions if one.key not in known])
        with Journal.open(folder / JOURNAL) as journal:

            async def work() -> None:
                for one in left:  # shared by all workers
                    if one.key not in known:  # two dialogues may be the same, word for word
                        known[one.key] = journal.append(await self._ask(one))
                    progress(len(wanted & known.keys()), len(wanted))

            workers = [asyncio.create_task(work()) for _ in range(self.jobs)]
            try:
                await asyncio.gather(*workers)
            finally:
                # Where one failed, the others may not write to a journal that is closed.
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        return self._gathered(dialogues, questions, known, before)

    def _questions(self, dialogue: Dialogue) -> Iterator[_Question]:
        spoken = tuple(number for number, turn in enumerate(dialogue.turns, start=1) if turn.speaker != "action")
        for turns in [spoken] if self.unit == "dialogue" else [(number,) for number in spoken]:
            messages = tuple(question(self.domain, dialogue, turns, observed=self.observed))
            asked = [
                self.name,
                self.retries,
                self.sampling.model_dump(),
                dialogue.id,
                [one.content for one in messages],
            ]
            key = hashlib.sha256(json.dumps(asked).encode("utf-8", "backslashreplace")).hexdigest()
            yield _Question(dialogue, turns, messages, key)

    async def _ask(self, one: _Question) -> dict[str, Any]:
        """Ask until the answer can be used or the retries are spent. Returns the record for the journal."""
        messages, tokens, start = list(one.messages), 0, time.monotonic()
        record: dict[str, Any] = {"key": one.key, "dialogue": one.dialogue.id, "turns": list(one.turns)}
        failures: tuple[str, ...] = ()
        for attempt in range(self.retries + 1):
            try:
                generation = await self.policy.generate(
                    Request(
                        messages,
                        sampling=self.sampling.sampling(int(one.key[:8], 16) + attempt),
                        # The same content, for a policy that is a program.
                        moment=Moment(
                            0,
                            (
                                Observation(
                                    0,
                                    "question",
                                    {"dialogue": one.dialogue.id, "turns": one.turns, "attempt": attempt},
                                    messages[-1].content,
                                ),
                            ),
                        ),
                        brief=Brief(messages[0].content),
                    )
                )
            except RequestRefusedError as error:
                failures = (str(error),)
                break
            tokens += generation.length
            record["answer"] = generation.text
            failures = _read(generation.text, one.turns, self.domain.catalog)[1]
            if generation.finish == "length":
                failures = ("it was cut off; write less",)
            if not failures:
                break
            messages += [Message("assistant", generation.text), correction(failures)]
        facts = {"attempts": attempt + 1, "seconds": round(time.monotonic() - start, 3), "tokens": tokens}
        return {**record, **facts, "failure": "; ".join(failures[:3])}

    def _gathered(
        self, dialogues: Sequence[Dialogue], questions: Sequence[_Question], known: dict[str, Any], before: int
    ) -> Annotations:
        by_dialogue: dict[str, list[_Question]] = {}
        for one in questions:
            by_dialogue.setdefault(one.dialogue.id, []).append(one)
        complete, failed = list[Annotation](), dict[str, str]()
        for dialogue in dialogues:
            found: dict[int, tuple[Opportunity, ...]] = {}
            for one in by_dialogue.get(dialogue.id, ()):
                record = known[one.key]
                if record["failure"]:
                    failed.setdefault(dialogue.id, record["failure"])
                else:
                    found |= _read(record["answer"], one.turns, self.domain.catalog)[0]
            if dialogue.id not in failed:
                turns = tuple(
                    TurnOpportunities(dialogue.id, turn, found[turn]) for turn in sorted(found) if found[turn]
                )
                complete.append(Annotation(dialogue.id, len(dialogue.turns), turns))
        used = [known[key] for key in {one.key for one in questions}]
        return Annotations(
            tuple(complete),
            failed,
            answers=len(used),
            retried=sum(record["attempts"] > 1 for record in used),
            from_before=before,
            unused=len(known) - len(used),
            seconds=sum(record["seconds"] for record in used),
            tokens=sum(record["tokens"] for record in used),
        )


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
