"""The contract of memories.

A memory is judged by what an agent gets to see of it: what it recalls, and what its tools answer. Each check works in
an empty folder. Don't set an absolute path to a memory that matters: it is written to.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from ..episode import Episode, Task
from ..errors import InterventionRefused, UnknownNameError
from ..memory import Memory, Query, Recollection, Remembered, Saying
from ..tool import Tool
from .checks import BrokenPromise, DoesNotApply, Subject, require, sample_episode, working_folder
from .tools import check_tools, drawn

Memories = Subject[Memory]

Shown = list[tuple[str, object]]
"""What an agent got to see, each with the occasion."""


@asynccontextmanager
async def open_memory(subject: Memories, name: str = "memory", *, folder: str = "") -> AsyncIterator[Memory]:
    """The memory of a run of this name, in a working folder of its own, or in one that several share."""
    run = subject.folder / f"run-{name}"
    run.mkdir(exist_ok=True)
    with working_folder(subject.folder / (folder or name)):
        memory = subject.make()
        memory.open(run)
        try:
            yield memory
        finally:
            await memory.close()


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
    answers = [await memory.recall(query) for query in asking]
    for query, answer in zip(asking, answers, strict=True):
        require(isinstance(answer, Sequence), f"recall gives a {type(answer).__name__}, which is no sequence")
        require(len(answer) <= query.limit, f"asked for {query.limit} at most, it recalled {len(answer)}")
        for found in answer:
            require(isinstance(found, Recollection), f"it recalled a {type(found).__name__}")
            require(isinstance(found.text, str), f"the text of a recollection is a {type(found.text).__name__}")
    return [list(answer) for answer in answers]


async def learned(memory: Memory, episodes: Sequence[Episode]) -> None:
    for episode in episodes:
        await memory.learn(episode, episode.utility)


async def used(memory: Memory, task: Task, *, seed: int, word: str = "") -> Shown:
    """Its tools, each called a few times with arguments that fit; `word` stands in all their text."""
    generator = random.Random(seed)
    seen: Shown = []
    for tool in memory.tools(task):
        schema = tool.action.parameters
        calls = [drawn(schema, generator) for _ in range(6)]
        for name, inner in schema.get("properties", {}).items() if word else ():
            is_bound = inner.keys() & {"enum", "const", "maxLength", "pattern", "format"}
            for arguments in calls if inner.get("type") == "string" and not is_bound else ():
                if name in arguments:
                    arguments[name] += f" {word}"
        # Short ones first: those that only read show what was there before the others have written.
        for arguments in sorted(calls, key=lambda call: len(str(call))):
            seen.append((f"the tool {tool.action.name}({arguments})", await tool.answer(arguments)))
    return seen


def require_method(memory: Memory, name: str) -> None:
    if getattr(type(memory), name) is getattr(Memory, name):
        raise DoesNotApply(f"it has no method {name}()")


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
    for name in ("first", "second"):
        async with open_memory(subject, name, folder="both") as memory:
            seen = [shown for episode in subject.episodes for shown in await _gone_through(memory, episode)]
            both.append(seen + await _answered(memory, task, asking))
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

    async def work(memory: Memory, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            memory.begin(episode.task)
            await asked(memory, queries(subject))
            await memory.learn(episode, episode.utility)

    half = len(subject.episodes) // 2
    async with open_memory(subject, folder="both") as first, open_memory(subject, "second", folder="both") as second:
        await asyncio.gather(work(first, subject.episodes[:half]), work(second, subject.episodes[half:]))
        await asyncio.gather(asked(first, queries(subject)), asked(second, queries(subject)))


async def its_tools_can_be_offered(subject: Memories) -> None:
    """What an agent can do with the memory itself can be offered to a model."""
    async with open_memory(subject) as memory:
        check_tools(_tools_of(memory, next_task(subject)))


async def its_tools_work(subject: Memories) -> None:
    """Its tools take arguments that fit: they answer, or refuse with a reason."""
    async with open_memory(subject) as memory:
        for episode in subject.episodes:
            memory.begin(episode.task)
            await learned(memory, [episode])
        generator = random.Random(7)
        for tool in _tools_of(memory, next_task(subject)):
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


def _tools_of(memory: Memory, task: Task) -> Sequence[Tool]:
    memory.begin(task)
    if not (tools := memory.tools(task)):
        raise DoesNotApply("it offers no tools")
    return tools


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


USERS = (("ann", "bob"), ("a/b", "a_b"), ("ann lee", "ann-lee"), ("Ann", "ann"), ("user:1", "user"))
"""Pairs of users; names that a careless file name or key would take for one."""


async def users_do_not_see_each_other(subject: Memories) -> None:
    """It shows no user what it learned with another."""
    for number, (user, other) in enumerate(USERS):
        async with open_memory(subject, f"memory-{number}") as memory:
            if memory.shared:
                raise DoesNotApply("it says that its users share what it knows")
            if await _shows(memory, other, "quokka"):
                raise DoesNotApply("it repeats what it is asked, so nobody can tell")
            if not await _learned_with(memory, user, "quokka"):
                raise DoesNotApply("it doesn't show the words that it learned with")
            for occasion, shown in await _shown_to(memory, other, "quokka"):
                require("quokka" not in str(shown), f'{occasion} of "{other}" shows what "{user}" said: {shown}')


async def users_do_not_overwrite_each_other(subject: Memories) -> None:
    """What it learned with one user is still there when it has learned with another."""
    for number, (user, other) in enumerate(USERS):
        async with open_memory(subject, f"memory-{number}") as memory:
            if not await _learned_with(memory, user, "quokka"):
                raise DoesNotApply("it doesn't show the words that it learned with")
            await _learned_with(memory, other, "axolotl")
            wrong = f'what it learned with "{user}" was gone after it had learned with "{other}"'
            require(await _shows(memory, user, "quokka"), wrong)


async def _learned_with(memory: Memory, user: str, word: str) -> bool:
    """Let it learn an episode of a user, who keeps using a word; whether it shows them that word from then on."""
    episode = sample_episode(Task(0, 7, user=user), text=word)
    memory.begin(episode.task)
    for query in (Query(word, episode.task, 0.0, 1), Query(f"a guest asks for {word}", episode.task, 3.0, 2)):
        await memory.recall(query)
    await used(memory, episode.task, seed=7, word=word)
    await memory.learn(episode, 1.0)
    return await _shows(memory, user, word)


async def _shows(memory: Memory, user: str, word: str) -> bool:
    return any(word in str(shown) for _, shown in await _shown_to(memory, user, word))


async def _shown_to(memory: Memory, user: str, word: str) -> Shown:
    """What a user gets to see in a new episode, in which nobody but the query says the word."""
    task = Task(1, 8, user=user)
    memory.begin(task)
    seen: Shown = []
    for text in ("", word, "a guest who likes mint tea comes in"):
        found = await memory.recall(Query(text, task, 0.0, 1, 20))
        seen.append(("a recollection", [recalled.text for recalled in found]))
    return seen + await used(memory, task, seed=9)


async def a_restart_changes_nothing(subject: Memories) -> None:
    """What it learned and heard is still there after a restart."""
    async with open_memory(subject) as memory:
        opened = type(memory).open is not Memory.open
        learned = await _learned_with(memory, "ann", "quokka")
        heard = _texts(await _heard(memory, "ann")) if _hears(memory) else []
    files = [path for path in subject.folder.rglob("*") if path.is_file()]
    if not (opened or files):
        raise DoesNotApply("it has no open() and writes no files; a run that is resumed teaches it again")
    if not (learned or heard):
        raise DoesNotApply("it doesn't show the words that it learned with")
    async with open_memory(subject) as memory:
        if learned:
            wrong = "what it had learned is gone after a restart; write it in learn(), and read it in open(folder)"
            require(await _shows(memory, "ann", "quokka"), wrong)
        if heard:
            kept = _texts(await memory.remembered("ann"))
            require(kept == heard, f"before a restart it kept {heard}, and {kept} after it")


async def forgetting_a_user_is_complete(subject: Memories) -> None:
    """After forget(user), nothing of that user is left, also after a restart, and others keep theirs."""
    async with open_memory(subject) as memory:
        require_method(memory, "forget")
        ann, bob = [await _learned_with(memory, user, word) for user, word in (("ann", "quokka"), ("bob", "axolotl"))]
        heard = _hears(memory)
        for user in ("ann", "bob") if heard else ():
            await _heard(memory, user)
        if not (ann or heard):
            raise DoesNotApply("it shows nothing of what it learned with a user")
        counts = await memory.forget("ann")
        wrong = f"forget() returns {counts!r}; it should say how much of what was deleted, such as {{'notes': 3}}"
        require(isinstance(counts, Mapping) and all(isinstance(count, int) for count in counts.values()), wrong)
        require(any(counts.values()), f"forget() of a user whom it knew says {dict(counts)}: nothing was deleted")
        await _check_forgotten(memory, "", ann=ann, bob=bob, heard=heard)
    async with open_memory(subject) as memory:
        # What is only in this process is gone after a restart, of everybody.
        kept = bob and await _shows(memory, "bob", "axolotl")
        still = heard and bool(await memory.remembered("bob"))
        await _check_forgotten(memory, " after a restart", ann=ann, bob=kept, heard=still)


async def _check_forgotten(memory: Memory, when: str, *, ann: bool, bob: bool, heard: bool) -> None:
    if ann:
        for occasion, shown in await _shown_to(memory, "ann", "quokka"):
            wrong = f"after forget(user), {occasion} still shows what they said{when}: {shown}"
            require("quokka" not in str(shown), wrong)
    if bob:
        require(await _shows(memory, "bob", "axolotl"), f"forget(user) deleted what another user said{when}")
    if heard:
        require(not await memory.remembered("ann"), f"after forget(user), remembered() still has items of theirs{when}")
        require(await memory.remembered("bob"), f"forget(user) deleted what another user said{when}")


WORDS = ("I moved to Quimper last year.", "My dog is called Biscuit.", "Please write to me in the mornings.")


async def hearing_twice_is_hearing_once(subject: Memories) -> None:
    """A saying that is handed over twice is learned once."""
    async with open_memory(subject) as memory:
        before = await _heard(memory, "ann")
        for number in range(len(WORDS)):
            await memory.hear(_saying("ann", number))
        require(_texts(await memory.remembered("ann")) == _texts(before), "it keeps more after it heard the same twice")


async def what_is_corrected_is_replaced(subject: Memories) -> None:
    """A user can replace the text of an item."""
    async with open_memory(subject) as memory:
        require_method(memory, "correct")
        kept = await _heard(memory, "ann")
        corrected = await memory.correct("ann", kept[0].id, "I moved to Vannes in May.")
        held = {one.id: one.text for one in await memory.remembered("ann") if one.until is None}
        require("Vannes" in held.get(corrected.id, ""), f"after a correction, it keeps {sorted(held.values())}")
        require(kept[0].text not in held.values(), f"after a correction, {kept[0].text!r} still holds")


async def what_is_deleted_is_gone(subject: Memories) -> None:
    """A user can delete an item, with the words that it was learned from, and the others stay."""
    async with open_memory(subject) as memory:
        require_method(memory, "forget_one")
        kept = await _heard(memory, "ann")
        await memory.forget_one("ann", kept[0].id)
        left = await memory.remembered("ann")
        require(kept[0].id not in [one.id for one in left], "what was deleted is still there")
        require(all(kept[0].text not in f"{one.text}\n{one.source}" for one in left), "its words are still there")
        gone = [one.text for one in kept[1:] if one.text != kept[0].text and one.id not in [each.id for each in left]]
        require(not gone, f"with it, these are gone: {gone}")


async def users_change_only_their_own(subject: Memories) -> None:
    """A user can neither see nor change what it keeps of another."""
    for number, (user, other) in enumerate(USERS):
        async with open_memory(subject, f"memory-{number}") as memory:
            kept = await _heard(memory, user)
            require(not await memory.remembered(other), f'"{other}" is shown what is kept of "{user}"')
            for method, *words in (("correct", "mine"), ("forget_one",)):
                if getattr(type(memory), method) is getattr(Memory, method):
                    continue
                with suppress(UnknownNameError):
                    await getattr(memory, method)(other, kept[0].id, *words)
                    raise BrokenPromise(f'{method}() takes an item of "{user}" from "{other}"')
            require(await memory.remembered(user) == kept, f'"{other}" has changed what is kept of "{user}"')


async def what_it_remembers_is_the_newest_first(subject: Memories) -> None:
    """What it keeps of a user is shown the newest first."""
    async with open_memory(subject) as memory:
        times = [one.since for one in await _heard(memory, "ann") if one.since is not None]
        require(times == sorted(times, reverse=True), f"remembered() gives items of the times {times}, in this order")


def _hears(memory: Memory) -> bool:
    kind = type(memory)
    return kind.hear is not Memory.hear and kind.remembered is not Memory.remembered


def _saying(user: str, number: int) -> Saying:
    return Saying(f"{user}/conversation/{number}", user, WORDS[number], "conversation", 1_700_000_000.0 + number)


async def _heard(memory: Memory, user: str) -> Sequence[Remembered]:
    """Let it hear what a user says. Returns what it keeps of it."""
    if type(memory).hear is Memory.hear:
        raise DoesNotApply("it doesn't learn from single sayings")
    require_method(memory, "remembered")
    for number in range(len(WORDS)):
        await memory.hear(_saying(user, number))
    if not (kept := list(await memory.remembered(user))):
        raise DoesNotApply("it keeps nothing of what it heard")
    require(all(isinstance(one, Remembered) for one in kept), "what it keeps is not made of Remembered")
    require(len({one.id for one in kept}) == len(kept), "two of its items have one id")
    return kept


def _texts(kept: Sequence[Remembered]) -> list[str]:
    return sorted(one.text for one in kept)
