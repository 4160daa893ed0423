"""The environment `from_feedback`: conversations that were recorded, and the answers that people wanted.

    agentfw train --from RUN --set policy.model=path/to/model --set learner.model=path/to/model

An episode is one conversation, up to the answer that was rated. A teacher gives the answer that was wanted: the one
with good feedback, or the correction. The policy that is trained is measured on conversations that were held out: how
much its answer agrees with the wanted one, from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from agentfw import Seeds, Session, SessionEnvironment, Settings, Task

from .examples import Example, read_examples, split_of

__all__ = ["FromFeedback", "FromFeedbackSettings"]

_LONGEST = 10_000
"""Characters that are compared."""


class FromFeedbackSettings(Settings):
    runs: tuple[str, ...] = Field(min_length=1, description="Directories of the runs to learn from.")
    good: float = Field(0.5, ge=-1, le=1, description="Minimum feedback of an answer to learn from.")


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

    def scene(self, tasks: Sequence[Task]) -> str:
        return f"{len(_examples(self.settings))} rated answers"

    async def play(self, session: Session) -> None:
        task = session.episode.task
        example = self._examples(task.split)[task.index]
        reply = await session.answer(example.messages, example.actions, demonstration=lambda moment: [example.text])
        given, wanted = reply.turn.text[:_LONGEST], example.text[:_LONGEST]
        agreement = SequenceMatcher(None, given, wanted, autojunk=False).ratio()
        session.episode.utility = agreement
        session.end("finished", agreement=agreement, same=float(given == wanted))

    def _examples(self, split: str) -> list[Example]:
        return split_of(_examples(self.settings), split)


def _examples(settings: FromFeedbackSettings) -> list[Example]:
    return _read(settings.runs, settings.good)


@lru_cache(maxsize=4)
def _read(runs: tuple[str, ...], good: float) -> list[Example]:
    return read_examples([Path(run) for run in runs], good)
