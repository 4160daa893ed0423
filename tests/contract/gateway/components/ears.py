"""A memory in one file that writes down what it hears, and recalls all of it to the same user.

A saying with `hear=FILE` is heard when FILE exists. `heard.log` in the memory's folder has each call of `hear`, and
`kept.json` what is kept.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentfw import Memory
from agentfw.errors import UnknownNameError
from agentfw.memory import Query, Recollection, Remembered, Saying


class Ears(Memory):
    """Keeps all that users say, word for word."""

    def open(self, folder: Path) -> None:
        self.folder, self.kept = folder, dict[str, list[Remembered]]()
        if (folder / "kept.json").exists():
            for user, rows in json.loads((folder / "kept.json").read_text("utf-8")).items():
                self.kept[user] = [Remembered(*row) for row in rows]

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return [Recollection(one.text) for one in self.kept.get(query.user, [])][: query.limit]

    async def hear(self, saying: Saying) -> None:
        for file in re.findall(r"hear=(\S+)", saying.text):
            while not Path(file).exists():
                await asyncio.sleep(0.01)
        with (self.folder / "heard.log").open("a", encoding="utf-8") as log:
            log.write(json.dumps({"id": saying.id, "user": saying.user, "text": saying.text}) + "\n")
        if all(one.id != saying.id for one in self.kept.get(saying.user, ())):
            self.kept.setdefault(saying.user, []).insert(0, Remembered(saying.id, saying.text, saying.at))
        self._write()

    async def remembered(self, user: str) -> Sequence[Remembered]:
        return self.kept.get(user, [])

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        place = self._place(user, item)
        self.kept[user][place] = corrected = replace(self.kept[user][place], text=text)
        self._write()
        return corrected

    async def forget_one(self, user: str, item: str) -> None:
        place = self._place(user, item)
        del self.kept[user][place]
        self._write()

    async def forget(self, user: str) -> dict[str, int]:
        gone = self.kept.pop(user, [])
        self._write()
        return {"sayings": len(gone)}

    def _place(self, user: str, item: str) -> int:
        for place, one in enumerate(self.kept.get(user, [])):
            if one.id == item:
                return place
        raise UnknownNameError("remembered item", item, [])

    def _write(self) -> None:
        rows = {user: [[one.id, one.text, one.since] for one in kept] for user, kept in self.kept.items()}
        (self.folder / "kept.new").write_text(json.dumps(rows), encoding="utf-8")
        (self.folder / "kept.new").replace(self.folder / "kept.json")  # a copy has the one or the other
