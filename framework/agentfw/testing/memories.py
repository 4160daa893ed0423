"""The contract of memories.

A memory is judged by what an agent gets to see of it: what it recalls, and what its tools answer. Where
two histories must have the same effect, both are gone through, each with a memory of its own, and compared.

Each check works in an empty folder, so a memory that keeps its file at a relative path begins empty and leaves
nothing behind. Don't set an absolute path to a memory that matters: it is written to.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ..episode import Episode, Task
from ..memory import Memory, Query, Recollection
from .checks import CheckFunction, DoesNotApply, Subject, require, working_folder
from .samples import sample_episode
from .schemas import drawn
from .tools import check_tools

__all__ = ["MEMORY", "ODD_TEXTS"]

Memories = Subject[Memory]

ODD_TEXTS = {
    "no text": "",
    "100 kB of text": "tea and " * 12_500,
    "control characters": "\x01\x02\x07\x1b[31m\r\n\t\x7f\u2028",
    "emoji": "🫖👩‍👩‍👧‍👦🇪🇺",
    "a NUL": "before\x00after",
    "half a character, as JSON can hold it": "tea \ud83e",
    "quotes": "'; DROP TABLE notes; -- \" * ( ) AND NOT NEAR",
}


@asynccontextmanager
async def _open(subject: Memories, name: str = "memory") -> AsyncIterator[Memory]:
    """A memory in a folder of its own."""
    with working_folder(subject.folder / name):
        memory = subject.make()
        memory.open(_run_folder(subject, name))
        try:
            yield memory
        finally:
            await memory.close()


def _run_folder(subject: Memories, name: str) -> Path:
    folder = subject.folder / f"run-{name}"
    folder.mkdir()
    return folder


def _next_task(subject: Memories) -> Task:
    """A task that comes after the episodes, for the same user."""
    last = subject.episodes[-1].task
    return replace(last, index=last.index + 1, sample=0, seed=last.seed + 1)


def _queries(subject: Memories, *, limit: int = 5) -> list[Query]:
    """What may be asked in the first two rounds of the next episode."""
    task = _next_task(subject)
    texts = ["", "a guest who likes mint tea comes in"]
    for episode in subject.episodes[-2:]:
        texts += [str(event.data.get("text", "")) for event in episode.events if event.kind == "observation"][:2]
    return [Query(text, task, float(index), index // 3 + 1, limit) for index, text in enumerate(texts)]


async def _asked(memory: Memory, queries: Sequence[Query]) -> list[list[Recollection]]:
    found = [await memory.recall(query) for query in queries]
    for query, answer in zip(queries, found, strict=True):
        _check_answer(query, answer)
    return [list(answer) for answer in found]


def _check_answer(query: Query, answer: Sequence[Recollection]) -> None:
    require(isinstance(answer, Sequence), f"recall gives a {type(answer).__name__}, which is no sequence")
    require(len(answer) <= query.limit, f"asked for {query.limit} at most, it recalled {len(answer)}")
    for found in answer:
        require(isinstance(found, Recollection), f"it recalled a {type(found).__name__}")
        require(isinstance(found.text, str), f"the text of a recollection is a {type(found.text).__name__}")


async def an_empty_memory_answers(subject: Memories) -> None:
    """A memory that has learned nothing yet can be asked."""
    async with _open(subject) as memory:
        memory.begin(_next_task(subject))
        await _asked(memory, _queries(subject))


async def it_keeps_to_the_limit(subject: Memories) -> None:
    """It never brings up more than it was asked for."""
    async with _open(subject) as memory:
        for episode in subject.episodes:
            await memory.learn(episode, episode.utility)
        memory.begin(_next_task(subject))
        for limit in (0, 1, 3):
            await _asked(memory, _queries(subject, limit=limit))


async def learning_twice_is_learning_once(subject: Memories) -> None:
    """An episode that is handed over twice is learned once."""

    async def once(memory: Memory) -> Shown:
        return [shown for episode in subject.episodes for shown in await _gone_through(memory, episode)]

    async def each_twice(memory: Memory) -> Shown:
        seen: Shown = []
        for episode in subject.episodes:
            seen += await _gone_through(memory, episode)
            await memory.learn(Episode.from_record(episode.to_record()), episode.utility)
        return seen

    async def all_twice(memory: Memory) -> Shown:
        seen = await once(memory)
        for episode in subject.episodes:
            await memory.learn(episode, episode.utility)
        return seen

    await _same(subject, once, each_twice, "after each episode was learned twice")
    await _same(subject, once, all_twice, "after all episodes were learned twice")


async def a_broken_off_attempt_is_forgotten(subject: Memories) -> None:
    """An episode that begins anew leaves no trace of the attempt that was broken off."""
    *before, last = subject.episodes

    async def undisturbed(memory: Memory) -> Shown:
        for episode in before:
            await memory.learn(episode, episode.utility)
        return await _gone_through(memory, last)

    async def broken_off(memory: Memory) -> Shown:
        for episode in before:
            await memory.learn(episode, episode.utility)
        memory.begin(last.task)
        await _used(memory, last.task, seed=8)
        for number, text in enumerate(("something else entirely", "mint tea", "a guest")):
            await memory.recall(Query(text, last.task, float(number), number + 1))
        return await _gone_through(memory, last)

    await _same(subject, undisturbed, broken_off, "after an attempt at the last episode was broken off")


async def other_users_do_no_harm(subject: Memories) -> None:
    """Several users may be served by one memory."""
    async with _open(subject) as memory:
        for episode in subject.episodes:
            await memory.learn(episode, episode.utility)
            other = Episode.from_record(episode.to_record())
            other.task = replace(other.task, user="another user: ünï/../'x'")
            memory.begin(other.task)
            await memory.learn(other, -1.0)
        await _asked(memory, _queries(subject))
        stranger = replace(_next_task(subject), user="a user nobody has seen")
        await _asked(memory, [replace(query, task=stranger) for query in _queries(subject)])


async def any_text_will_do(subject: Memories) -> None:
    """Text of any kind can be learned and asked about."""
    for number, (name, text) in enumerate(ODD_TEXTS.items()):
        try:
            async with _open(subject, f"memory-{number}") as memory:
                episode = sample_episode(Task(number, 7), text=text)
                await memory.learn(episode, 0.5)
                await _asked(memory, [Query(text, Task(number + 1, 8), 0.0, 1)])
        except Exception as error:
            error.add_note(f"with {name}")
            raise


async def odd_episodes_will_do(subject: Memories) -> None:
    """It can learn from an episode in which nothing happened, and from one that went badly."""
    async with _open(subject) as memory:
        await memory.learn(Episode(Task(90, 7), finish="quiet"), 0.0)
        await memory.learn(sample_episode(Task(91, 7), turns=1), -1000.0)
        await _asked(memory, _queries(subject))


async def two_at_once_will_do(subject: Memories) -> None:
    """Two of them can be at work at once, also on the same files."""
    async with _open(subject) as first:
        second = subject.make()
        second.open(_run_folder(subject, "second"))
        try:
            half = len(subject.episodes) // 2

            async def work(memory: Memory, episodes: Sequence[Episode]) -> None:
                for episode in episodes:
                    memory.begin(episode.task)
                    await _asked(memory, _queries(subject))
                    await memory.learn(episode, episode.utility)

            await asyncio.gather(work(first, subject.episodes[:half]), work(second, subject.episodes[half:]))
            await asyncio.gather(_asked(first, _queries(subject)), _asked(second, _queries(subject)))
        finally:
            await second.close()


async def its_tools_can_be_offered(subject: Memories) -> None:
    """What an agent can do with the memory itself can be offered to a model."""
    async with _open(subject) as memory:
        task = _next_task(subject)
        memory.begin(task)
        tools = memory.tools(task)
        if not tools:
            raise DoesNotApply("it offers no tools")
        check_tools(tools)


Shown = list[tuple[str, object]]
"""What an agent got to see, each with the occasion."""


async def _gone_through(memory: Memory, episode: Episode) -> Shown:
    """One episode from its beginning to what is learned from it, with all that the memory showed in between."""
    memory.begin(episode.task)
    query = Query("a guest who likes green tea", episode.task, 0.0, 1)
    seen: Shown = [("the first recollection of an episode", _plain(await memory.recall(query)))]
    seen += await _used(memory, episode.task, seed=7)
    await memory.learn(episode, episode.utility)
    return seen


async def _used(memory: Memory, task: Task, *, seed: int) -> Shown:
    """Its tools, each called a few times with arguments that fit."""
    generator = random.Random(seed)
    seen: Shown = []
    for tool in memory.tools(task):
        for _ in range(6):
            arguments = drawn(tool.action.parameters, generator)
            seen.append((f"the tool {tool.action.name}({arguments})", await tool.answer(arguments)))
    return seen


async def _same(
    subject: Memories,
    one: Callable[[Memory], Awaitable[Shown]],
    other: Callable[[Memory], Awaitable[Shown]],
    when: str,
) -> None:
    """Broken where an agent can tell two histories apart."""
    task, queries = _next_task(subject), _queries(subject, limit=20)
    both: list[Shown] = []
    for name, history in (("one", one), ("other", other)):
        async with _open(subject, f"{name}-{when.replace(' ', '-')}") as memory:
            seen = await history(memory)
            memory.begin(task)
            for query, answer in zip(queries, await _asked(memory, queries), strict=True):
                seen.append((f"asked about {query.text!r}, it", _plain(answer)))
            both.append(seen + await _used(memory, task, seed=9))
    if not any(shown for seen in both for _, shown in seen):
        raise DoesNotApply("it shows nothing of these episodes, so nobody can tell; give the check others: episodes=")
    for (occasion, first), (_, second) in zip(*both, strict=True):
        require(first == second, f"{when}, {occasion} says {second}, not {first}")


def _plain(recalled: Sequence[Recollection]) -> list[tuple[str, float]]:
    return [(found.text, round(float(found.score), 6)) for found in recalled]


MEMORY: list[CheckFunction] = [
    an_empty_memory_answers,
    it_keeps_to_the_limit,
    learning_twice_is_learning_once,
    a_broken_off_attempt_is_forgotten,
    other_users_do_no_harm,
    any_text_will_do,
    odd_episodes_will_do,
    two_at_once_will_do,
    its_tools_can_be_offered,
]
