"""Using a memory for a check as a run does: opened in a folder of its own, asked, and its tools called."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..episode import Task
from ..memory import Memory, Query, Recollection
from .checks import Subject, require, working_folder
from .schemas import drawn

__all__ = ["Memories", "Shown", "asked", "next_task", "open_memory", "queries", "run_folder", "used"]

Memories = Subject[Memory]

Shown = list[tuple[str, object]]
"""What an agent got to see, each with the occasion."""


@asynccontextmanager
async def open_memory(subject: Memories, name: str = "memory") -> AsyncIterator[Memory]:
    """A memory in a folder of its own."""
    with working_folder(subject.folder / name):
        memory = subject.make()
        memory.open(run_folder(subject, name))
        try:
            yield memory
        finally:
            await memory.close()


def run_folder(subject: Memories, name: str) -> Path:
    folder = subject.folder / f"run-{name}"
    folder.mkdir()
    return folder


def next_task(subject: Memories) -> Task:
    """A task that comes after the episodes, for the same user."""
    last = subject.episodes[-1].task
    return replace(last, index=last.index + 1, sample=0, seed=last.seed + 1)


def queries(subject: Memories, *, limit: int = 5) -> list[Query]:
    """What may be asked in the first two rounds of the next episode."""
    task = next_task(subject)
    texts = ["", "a guest who likes mint tea comes in"]
    for episode in subject.episodes[-2:]:
        texts += [str(event.data.get("text", "")) for event in episode.events if event.kind == "observation"][:2]
    return [Query(text, task, float(index), index // 3 + 1, limit) for index, text in enumerate(texts)]


async def asked(memory: Memory, asking: Sequence[Query]) -> list[list[Recollection]]:
    found = [await memory.recall(query) for query in asking]
    for query, answer in zip(asking, found, strict=True):
        _check_answer(query, answer)
    return [list(answer) for answer in found]


def _check_answer(query: Query, answer: Sequence[Recollection]) -> None:
    require(isinstance(answer, Sequence), f"recall gives a {type(answer).__name__}, which is no sequence")
    require(len(answer) <= query.limit, f"asked for {query.limit} at most, it recalled {len(answer)}")
    for found in answer:
        require(isinstance(found, Recollection), f"it recalled a {type(found).__name__}")
        require(isinstance(found.text, str), f"the text of a recollection is a {type(found.text).__name__}")


async def used(memory: Memory, task: Task, *, seed: int, word: str = "") -> Shown:
    """Its tools, each called a few times with arguments that fit; `word` stands in all their text."""
    generator = random.Random(seed)
    seen: Shown = []
    for tool in memory.tools(task):
        for _ in range(6):
            arguments = _saying(drawn(tool.action.parameters, generator), tool.action.parameters, word)
            seen.append((f"the tool {tool.action.name}({arguments})", await tool.answer(arguments)))
    return seen


def _saying(arguments: dict[str, Any], schema: Mapping[str, Any], word: str) -> dict[str, Any]:
    """The arguments with a word in every text that may be any text."""
    for name, inner in schema.get("properties", {}).items():
        free = inner.get("type") == "string" and not inner.keys() & {"enum", "const", "maxLength", "pattern", "format"}
        if word and free and name in arguments:
            arguments[name] += f" {word}"
    return arguments
