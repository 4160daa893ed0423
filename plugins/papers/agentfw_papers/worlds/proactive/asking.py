"""Puts questions to a policy, several at a time, and keeps every answer on disk.

An answer goes to a journal before it counts, under a key made of the policy and of everything that it was asked. So the
same command resumes, asks nothing twice, and never mixes answers to different questions. An answer that can't be used
is asked for again, with what was wrong with it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw import Message, Moment, Observation, Policy, Request
from agentfw.errors import RequestRefusedError
from agentfw.request import Brief
from agentfw.runs import Journal, SamplingSettings, read_journal

SAMPLING = SamplingSettings(temperature=0.1, max_tokens=4000)
Progress = Callable[[int, int], None]
"""Is told how many answers there are, and how many there will be."""


@dataclass(frozen=True)
class Question:
    """A question about some turns of a dialogue."""

    dialogue: str
    turns: tuple[int, ...]
    messages: tuple[Message, ...]
    failures: Callable[[str], Sequence[str]]
    """Says what is wrong with an answer."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How the asking went."""

    answers: int
    retried: int
    from_before: int
    """Answers that the journal had already."""
    unused: int
    """Answers in the journal to other questions, for example with another catalog."""
    seconds: float
    tokens: int


class Asker:
    """Asks one policy."""

    def __init__(
        self,
        policy: Policy,
        *,
        name: str,
        jobs: int = 4,
        retries: int = 3,
        sampling: SamplingSettings = SAMPLING,
    ) -> None:
        """`name` identifies the policy with its version and settings: answers of another one are not used."""
        self.policy, self.name, self.jobs, self.retries, self.sampling = policy, name, jobs, retries, sampling

    async def ask(
        self, questions: Sequence[Question], journal: Path, progress: Progress = lambda done, all: None
    ) -> tuple[list[dict[str, Any]], Asked]:
        """The records of the questions in their order, whichever was answered first.

        A record has the `answer`, and the `failure` if it can't be used.
        """
        journal.parent.mkdir(parents=True, exist_ok=True)
        keys = [self._key(one) for one in questions]
        known = {record["key"]: record for record in read_journal(journal)}
        wanted = set(keys)
        before = len(wanted & known.keys())
        left = iter([(key, one) for key, one in zip(keys, questions, strict=True) if key not in known])
        with Journal.open(journal) as file:

            async def work() -> None:
                for key, one in left:  # shared by all workers
                    if key not in known:  # two dialogues may be the same, word for word
                        known[key] = file.append(await self._answer(key, one))
                    progress(len(wanted & known.keys()), len(wanted))

            workers = [asyncio.create_task(work()) for _ in range(self.jobs)]
            try:
                await asyncio.gather(*workers)
            finally:
                # Where one failed, the others may not write to a journal that is closed.
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        used = [known[key] for key in wanted]
        asked = Asked(
            answers=len(used),
            retried=sum(record["attempts"] > 1 for record in used),
            from_before=before,
            unused=len(known) - len(used),
            seconds=sum(record["seconds"] for record in used),
            tokens=sum(record["tokens"] for record in used),
        )
        return [known[key] for key in keys], asked

    def _key(self, one: Question) -> str:
        contents = [message.content for message in one.messages]
        asked = [self.name, self.retries, self.sampling.model_dump(), one.dialogue, contents]
        return hashlib.sha256(json.dumps(asked).encode("utf-8", "backslashreplace")).hexdigest()

    async def _answer(self, key: str, one: Question) -> dict[str, Any]:
        """Ask until the answer can be used or the retries are spent. Returns the record for the journal."""
        messages, tokens, start = list(one.messages), 0, time.monotonic()
        record: dict[str, Any] = {"key": key, "dialogue": one.dialogue, "turns": list(one.turns)}
        failures: Sequence[str] = ()
        for attempt in range(self.retries + 1):
            about = {"dialogue": one.dialogue, "turns": one.turns, "attempt": attempt}
            try:
                generation = await self.policy.generate(
                    Request(
                        messages,
                        sampling=self.sampling.sampling(int(key[:8], 16) + attempt),
                        # The same content, for a policy that is a program.
                        moment=Moment(0, (Observation(0, "question", about, messages[-1].content),)),
                        brief=Brief(messages[0].content),
                    )
                )
            except RequestRefusedError as error:
                failures = (str(error),)
                break
            tokens += generation.length
            record["answer"] = generation.text
            failures = one.failures(generation.text)
            if generation.finish == "length":
                failures = ("it was cut off; write less",)
            if not failures:
                break
            messages += [Message("assistant", generation.text), _correction(failures)]
        facts = {"attempts": attempt + 1, "seconds": round(time.monotonic() - start, 3), "tokens": tokens}
        return {**record, **facts, "failure": "; ".join(failures[:3])}


def _correction(failures: Sequence[str]) -> Message:
    """Ask again, with what was wrong with the answer."""
    listed = "\n".join(f"- {failure}" for failure in failures)
    return Message("user", f"That answer can't be used:\n{listed}\nAnswer again with JSON alone.")
