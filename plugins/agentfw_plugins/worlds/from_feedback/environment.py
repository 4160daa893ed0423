"""The environment `from_feedback`: conversations that were recorded, and the answers that people rated.

    agentfw train --from RUN --set policy.model=path/to/model

An episode is one conversation, up to the answer that was rated. A teacher gives that answer again, or the correction,
and gets the feedback that it got. A policy gives an answer of its own. It is measured on conversations that were held
out: how much its answer agrees with the wanted one, from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from agentfw import Session, Settings, Task
from agentfw.printing.out import counted
from agentfw.report.statistics import LEAST_PAIRS
from agentfw.request import Sampling
from agentfw.seeds import Seeds
from agentfw.turns.session import SessionEnvironment

from .examples import Example, read_examples, split_of

__all__ = ["FromFeedback", "FromFeedbackSettings"]

_LONGEST = 10_000
"""Characters that are compared."""


class FromFeedbackSettings(Settings):
    runs: tuple[str, ...] = Field(min_length=1, description="Directories of the runs to learn from.")
    good: float = Field(
        0.5, gt=0, le=1, description="Minimum feedback of a good answer. A bad one has at most minus that."
    )
    answers: Literal["wanted", "rated"] = Field(
        "wanted",
        description="Answers to train on: good ones and corrections, or bad ones as well, which is for optimizers that "
        "learn from both.",
    )


class FromFeedback(SessionEnvironment):
    """Answer as the users wanted it."""

    headline = "agreement"

    def __init__(self, settings: FromFeedbackSettings) -> None:
        self.settings = settings

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        seeds = Seeds(seed).child(split)
        return [
            Task(index, seeds.integer("task", index), user=example.user or "user", split=split)
            for index, example in enumerate(self._examples(split)[:count])
        ]

    def describe(self, tasks: Sequence[Task]) -> str:
        examples = _examples(self.settings)
        wanted = sum(example.wanted for example in examples)
        held_out = len({task.index for task in tasks})
        few = f", too few to tell a change from chance ({LEAST_PAIRS} are the least)" if held_out < LEAST_PAIRS else ""
        return (
            f"{counted(len(examples), 'rated answer')}: {wanted} good or corrected, {len(examples) - wanted} bad   "
            f"{held_out} held out{few}"
        )

    async def play(self, session: Session) -> None:
        task = session.episode.task
        example = self._examples(task.split)[task.index]
        reply = await session.answer(
            example.messages,
            example.actions,
            Sampling(max_tokens=example.max_tokens),
            stop=example.stop,
            demonstration=lambda moment: [example.text],
        )
        same = reply.turn.text == example.text
        if same:
            session.feedback(example.value)
        if not example.wanted:
            session.end("finished")
            return
        agreement = SequenceMatcher(None, reply.turn.text[:_LONGEST], example.text[:_LONGEST], autojunk=False).ratio()
        session.episode.utility = agreement
        session.end("finished", agreement=agreement, same=float(same))

    def _examples(self, split: str) -> list[Example]:
        found = split_of(_examples(self.settings), split)
        # What is held out has a wanted answer to compare with.
        bad_too = split == "train" and self.settings.answers == "rated"
        return [example for example in found if example.wanted or bad_too]


def _examples(settings: FromFeedbackSettings) -> list[Example]:
    return _read(settings.runs, settings.good)


@lru_cache(maxsize=4)
def _read(runs: tuple[str, ...], good: float) -> list[Example]:
    return read_examples([Path(run) for run in runs], good)
