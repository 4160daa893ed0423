"""The promises of a memory that serves several users: it neither mixes them up nor loses one for another."""

from __future__ import annotations

from ..episode import Task
from ..memory import Memory, Query
from .checks import DoesNotApply, require
from .memory_sessions import Memories, Shown, open_memory, used
from .samples import sample_episode

__all__ = ["users_do_not_overwrite_each_other", "users_do_not_see_each_other"]

USERS = (("ann", "bob"), ("a/b", "a_b"), ("ann lee", "ann-lee"), ("Ann", "ann"), ("user:1", "user"))
"""Pairs of users; names that a careless file name or key would take for one."""


async def users_do_not_see_each_other(subject: Memories) -> None:
    """It shows no user what it learned with another."""
    for number, (user, other) in enumerate(USERS):
        async with open_memory(subject, f"memory-{number}") as memory:
            if memory.shared:
                raise DoesNotApply("it says that its users share what it knows")
            if any("quokka" in str(shown) for _, shown in await _shown_to(memory, other, "quokka")):
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
            seen = await _shown_to(memory, user, "quokka")
            require(
                any("quokka" in str(shown) for _, shown in seen),
                f'what it learned with "{user}" was gone after it had learned with "{other}"',
            )


async def _learned_with(memory: Memory, user: str, word: str) -> bool:
    """Let it learn an episode of a user, who keeps using a word; whether it shows them that word from then on."""
    episode = sample_episode(Task(0, 7, user=user), text=word)
    memory.begin(episode.task)
    for query in (Query(word, episode.task, 0.0, 1), Query(f"a guest asks for {word}", episode.task, 3.0, 2)):
        await memory.recall(query)
    await used(memory, episode.task, seed=7, word=word)
    await memory.learn(episode, 1.0)
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
