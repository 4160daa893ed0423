"""The contract of memories.

A memory is judged by what an agent gets to see of it: what it recalls, and what its tools answer. Each check works in
an empty folder. Don't set an absolute path to a memory that matters: it is written to.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from ..episode import Episode, Task
from ..errors import InterventionRefused
from ..memory import Memory, Query, Recollection
from .checks import DoesNotApply, require, sample_episode, working_folder
from .tools import check_tools, drawn
from .users_of_memories import (
    Memories,
    Shown,
    asked,
    learned,
    next_task,
    open_memory,
    queries,
    require_method,
    run_folder,
    used,
)


async def the_best_match_comes_first(subject: Memories) -> None:
    """If what it recalls depends on the query, the best match comes first."""
    texts = {"quokka": "quokka marzipan zeppelin", "marzipan": "marzipan", "zeppelin": "zeppelin"}
    orders: dict[str, list[str]] = {}
    async with open_memory(subject) as memory:
        for number, text in enumerate(texts.values()):
            episode = sample_episode(Task(number, 7), text=text)
            memory.begin(episode.task)
            await memory.learn(episode, 1.0)
        task = Task(len(texts), 7)
        memory.begin(task)
        for query in texts.values():
            found = [one.text for one in await memory.recall(Query(query, task, 0.0, 1, 20))]
            orders[query] = [next((word for word in texts if word in text), "") for text in found]
            if len(set(orders[query])) < len(found) or "" in orders[query]:
                raise DoesNotApply("what it recalls isn't one item for each episode")
        short = await memory.recall(Query(texts["quokka"], task, 0.0, 1, 1))
    before = {(one, other) for order in orders.values() for place, one in enumerate(order) for other in order[place:]}
    if not any((other, one) in before for one, other in before if one != other):
        raise DoesNotApply("its order doesn't depend on the query")
    for query, order in orders.items():
        wrong = f'asked for "{query}", it recalls first what it learned with "{texts[order[0]]}"; put the best first'
        require(query in texts[order[0]], wrong)
    require("quokka" in short[0].text, "asked for one item, it doesn't recall the best match; sort before you cut")


async def it_embeds_each_text(subject: Memories) -> None:
    """If it embeds texts for others, each text gets its vector, all of one length."""
    async with open_memory(subject) as memory:
        require_method(memory, "embed")
        found = await memory.embed(["tea", "coffee", ""])
    lengths = {len(vector) for vector in found.vectors}
    numbers = all(math.isfinite(value) for vector in found.vectors for value in vector)
    require(len(found.vectors) == 3, f"of three texts it makes {len(found.vectors)} vectors")
    require(len(lengths) == 1 and 0 not in lengths and numbers, f"its vectors have {sorted(lengths)} numbers, or NaN")
    require(found.model, "it doesn't name its embedding model")


ODD_TEXTS = {
    "no text": "",
    "100 kB of text": "tea and " * 12_500,
    "control characters": "\x01\x02\x07\x1b[31m\r\n\t\x7f\u2028",
    "emoji": "🫖👩‍👩‍👧‍👦🇪🇺",
    "a NUL": "before\x00after",
    "half a character, as JSON can hold it": "tea \ud83e",
    "quotes": "'; DROP TABLE notes; -- \" * ( ) AND NOT NEAR",
}


async def an_empty_memory_answers(subject: Memories) -> None:
    """A memory that has learned nothing yet can be asked."""
    async with open_memory(subject) as memory:
        memory.begin(next_task(subject))
        await asked(memory, queries(subject))


async def it_keeps_to_the_limit(subject: Memories) -> None:
    """It never recalls more than it was asked for."""
    async with open_memory(subject) as memory:
        await learned(memory, subject.episodes)
        memory.begin(next_task(subject))
        for limit in (0, 1, 3):
            await asked(memory, queries(subject, limit=limit))


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
        await learned(memory, subject.episodes)
        return seen

    await _same(subject, once, each_twice, "after each episode was learned twice")
    await _same(subject, once, all_twice, "after all episodes were learned twice")


async def two_runs_are_strangers(subject: Memories) -> None:
    """Two runs in one folder are strangers: the second neither sees what the first has learned, nor loses its own."""
    task, asking = next_task(subject), queries(subject, limit=20)
    both: list[Shown] = []
    with working_folder(subject.folder / "both"):
        for name in ("first", "second"):
            memory = subject.make()
            memory.open(run_folder(subject, name))
            seen = [shown for episode in subject.episodes for shown in await _gone_through(memory, episode)]
            both.append(seen + await _answered(memory, task, asking))
            await memory.close()
    for (occasion, first), (_, second) in zip(*both, strict=True):
        wrong = f"in a second run, {occasion} says {second}, not {first}; keep notes in open()'s folder"
        require(first == second, wrong)


async def a_broken_off_attempt_is_forgotten(subject: Memories) -> None:
    """An episode that begins again leaves no trace of the interrupted attempt."""
    *before, last = subject.episodes

    async def undisturbed(memory: Memory) -> Shown:
        await learned(memory, before)
        return await _gone_through(memory, last)

    async def broken_off(memory: Memory) -> Shown:
        await learned(memory, before)
        memory.begin(last.task)
        for seed in range(10, 18):
            await used(memory, last.task, seed=seed)
        for number, text in enumerate(("something else entirely", "mint tea", "a guest")):
            await memory.recall(Query(text, last.task, float(number), number + 1))
        return await _gone_through(memory, last)

    await _same(subject, undisturbed, broken_off, "after an attempt at the last episode was broken off")


async def other_users_do_no_harm(subject: Memories) -> None:
    """Several users may be served by one memory."""
    async with open_memory(subject) as memory:
        for episode in subject.episodes:
            await memory.learn(episode, episode.utility)
            other = Episode.from_record(episode.to_record())
            other.task = replace(other.task, user="another user: ünï/../'x'")
            memory.begin(other.task)
            await memory.learn(other, -1.0)
        await asked(memory, queries(subject))
        stranger = replace(next_task(subject), user="a user nobody has seen")
        await asked(memory, [replace(query, task=stranger) for query in queries(subject)])


async def any_text_will_do(subject: Memories) -> None:
    """Text of any kind can be learned and asked about."""
    for number, (name, text) in enumerate(ODD_TEXTS.items()):
        try:
            async with open_memory(subject, f"memory-{number}") as memory:
                episode = sample_episode(Task(number, 7), text=text)
                await memory.learn(episode, 0.5)
                await asked(memory, [Query(text, Task(number + 1, 8), 0.0, 1)])
        except Exception as error:
            error.add_note(f"with {name}")
            raise


async def odd_episodes_will_do(subject: Memories) -> None:
    """It can learn from an episode in which nothing happened, and from one that went badly."""
    async with open_memory(subject) as memory:
        await memory.learn(Episode(Task(90, 7), finish="quiet"), 0.0)
        await memory.learn(sample_episode(Task(91, 7), turns=1), -1000.0)
        await asked(memory, queries(subject))


async def two_at_once_will_do(subject: Memories) -> None:
    """Two of them can be at work at once, also on the same files."""
    async with open_memory(subject) as first:
        second = subject.make()
        second.open(run_folder(subject, "second"))
        try:
            half = len(subject.episodes) // 2

            async def work(memory: Memory, episodes: Sequence[Episode]) -> None:
                for episode in episodes:
                    memory.begin(episode.task)
                    await asked(memory, queries(subject))
                    await memory.learn(episode, episode.utility)

            await asyncio.gather(work(first, subject.episodes[:half]), work(second, subject.episodes[half:]))
            await asyncio.gather(asked(first, queries(subject)), asked(second, queries(subject)))
        finally:
            await second.close()


async def its_tools_can_be_offered(subject: Memories) -> None:
    """What an agent can do with the memory itself can be offered to a model."""
    async with open_memory(subject) as memory:
        task = next_task(subject)
        memory.begin(task)
        if not (tools := memory.tools(task)):
            raise DoesNotApply("it offers no tools")
        check_tools(tools)


async def its_tools_work(subject: Memories) -> None:
    """Its tools take arguments that fit: they answer, or refuse with a reason."""
    async with open_memory(subject) as memory:
        for episode in subject.episodes:
            memory.begin(episode.task)
            await learned(memory, [episode])
        task, generator = next_task(subject), random.Random(7)
        memory.begin(task)
        if not (tools := memory.tools(task)):
            raise DoesNotApply("it offers no tools")
        for tool in tools:
            for _ in range(6):
                arguments = drawn(tool.action.parameters, generator)
                try:
                    answer = await asyncio.wait_for(tool.call(arguments), tool.timeout)
                except InterventionRefused:
                    continue
                except Exception as error:
                    error.add_note(f"called as {tool.action.name}({arguments})")
                    raise
                require(isinstance(answer, str), f"{tool.action.name} answers with a {type(answer).__name__}, not text")


async def _gone_through(memory: Memory, episode: Episode) -> Shown:
    """One episode from its beginning to what is learned from it, with all that the memory showed in between."""
    memory.begin(episode.task)
    query = Query("a guest who likes green tea", episode.task, 0.0, 1)
    seen: Shown = [("the first recollection of an episode", _plain(await memory.recall(query)))]
    seen += await used(memory, episode.task, seed=7)
    await memory.learn(episode, episode.utility)
    return seen


async def _same(
    subject: Memories, one: Callable[[Memory], Awaitable[Shown]], other: Callable[[Memory], Awaitable[Shown]], when: str
) -> None:
    """Broken where an agent can tell two histories apart."""
    task, asking = next_task(subject), queries(subject, limit=20)
    both: list[Shown] = []
    for name, history in (("one", one), ("other", other)):
        async with open_memory(subject, f"{name}-{when.replace(' ', '-')}") as memory:
            seen = await history(memory)
            seen += await _answered(memory, task, asking)
            both.append(seen + await used(memory, task, seed=9))
    if not any(shown for seen in both for _, shown in seen):
        raise DoesNotApply("it shows nothing of these episodes, so nobody can tell; give the check others: episodes=")
    for (occasion, first), (_, second) in zip(*both, strict=True):
        require(first == second, f"{when}, {occasion} says {second}, not {first}")


async def _answered(memory: Memory, task: Task, asking: Sequence[Query]) -> Shown:
    memory.begin(task)
    answers = zip(asking, await asked(memory, asking), strict=True)
    return [(f"asked about {query.text!r}, it", _plain(answer)) for query, answer in answers]


def _plain(recalled: Sequence[Recollection]) -> list[tuple[str, float]]:
    return [(found.text, round(float(found.score), 6)) for found in recalled]
