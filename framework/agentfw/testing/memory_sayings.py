"""The promises of a memory that hears what users say, and of one whose users may see and change what it keeps.

They apply only to memories that have these methods.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UnknownNameError
from ..memory import Memory, Remembered, Saying
from .checks import DoesNotApply, require
from .memory_sessions import Memories, open_memory
from .memory_users import USERS

__all__ = [
    "hearing_twice_is_hearing_once",
    "users_change_only_their_own",
    "what_is_corrected_is_replaced",
    "what_is_deleted_is_gone",
]

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
        _require_method(memory, "correct")
        kept = await _heard(memory, "ann")
        corrected = await memory.correct("ann", kept[0].id, "I moved to Vannes in May.")
        held = {one.id: one.text for one in await memory.remembered("ann") if one.until is None}
        require("Vannes" in held.get(corrected.id, ""), f"after a correction, it keeps {sorted(held.values())}")
        require(kept[0].text not in held.values(), f"after a correction, {kept[0].text!r} still holds")


async def what_is_deleted_is_gone(subject: Memories) -> None:
    """A user can delete an item, with the words that it was learned from, and the others stay."""
    async with open_memory(subject) as memory:
        _require_method(memory, "forget_one")
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
            for method in ("correct", "forget_one"):
                if getattr(type(memory), method) is getattr(Memory, method):
                    continue
                arguments = (other, kept[0].id, *(["mine"] if method == "correct" else []))
                try:
                    await getattr(memory, method)(*arguments)
                except UnknownNameError:
                    continue
                require(False, f'{method}() takes an item of "{user}" from "{other}"')
            require(await memory.remembered(user) == kept, f'"{other}" has changed what is kept of "{user}"')


def _saying(user: str, number: int) -> Saying:
    return Saying(f"{user}/conversation/{number}", user, WORDS[number], "conversation", 1_700_000_000.0 + number)


async def _heard(memory: Memory, user: str) -> Sequence[Remembered]:
    """Let it hear what a user says. Returns what it keeps of it."""
    if type(memory).hear is Memory.hear:
        raise DoesNotApply("it doesn't learn from single sayings")
    _require_method(memory, "remembered")
    for number in range(len(WORDS)):
        await memory.hear(_saying(user, number))
    kept = list(await memory.remembered(user))
    if not kept:
        raise DoesNotApply("it keeps nothing of what it heard")
    require(all(isinstance(one, Remembered) for one in kept), "what it keeps is not made of Remembered")
    require(len({one.id for one in kept}) == len(kept), "two of its items have one id")
    return kept


def _require_method(memory: Memory, name: str) -> None:
    if getattr(type(memory), name) is getattr(Memory, name):
        raise DoesNotApply(f"it has no method {name}()")


def _texts(kept: Sequence[Remembered]) -> list[str]:
    return sorted(one.text for one in kept)
