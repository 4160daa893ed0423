"""Memories that hear what users say: one that keeps its promises, and some that break one each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentfw import Memory
from agentfw.errors import UnknownNameError
from agentfw.memory import Query, Recollection, Remembered, Saying


class Ears(Memory):
    """Keeps all that users say."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Remembered] = {}

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return [Recollection(one.text) for one in await self.remembered(query.user)][: query.limit]

    async def hear(self, saying: Saying) -> None:
        self.kept[saying.user, saying.id] = Remembered(saying.id, saying.text, saying.at)

    async def remembered(self, user: str) -> Sequence[Remembered]:
        return [one for (owner, _), one in reversed(self.kept.items()) if owner == user]

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        self._check(user, item)
        self.kept[user, item] = corrected = replace(self.kept[user, item], text=text)
        return corrected

    async def forget_one(self, user: str, item: str) -> None:
        self._check(user, item)
        del self.kept[user, item]

    def _check(self, user: str, item: str) -> None:
        if (user, item) not in self.kept:
            raise UnknownNameError("remembered item", item, [])


class Doubling(Ears):
    async def hear(self, saying: Saying) -> None:
        await super().hear(replace(saying, id=str(len(self.kept))))


class Stubborn(Ears):
    async def correct(self, user: str, item: str, text: str) -> Remembered:
        self._check(user, item)
        return self.kept[user, item]


class Keeping(Ears):
    async def forget_one(self, user: str, item: str) -> None:
        self._check(user, item)


class Public(Ears):
    async def remembered(self, user: str) -> Sequence[Remembered]:
        return [one for _, one in reversed(self.kept.items())]
