"""A memory of postcards: one small JSON file an episode, in a folder of the user's own, which is in the run's folder.

A card's name says which episode it is of, so an episode that is handed over twice is one card.

    agentfw run --memory postcards --set memory.postcards.folder=cards
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from agentfw import Episode, Memory, Settings
from agentfw.memory import Query, Recollection
from pydantic import Field


class PostcardsSettings(Settings):
    folder: Path | None = Field(None, description="Where the cards are kept. Default: in the run's folder.")


class Postcards(Memory):
    """Brings up the cards that share the most words with what is going on."""

    def __init__(self, settings: PostcardsSettings) -> None:
        self.settings = settings
        self._cards = settings.folder or Path("postcards")

    def open(self, folder: Path) -> None:
        self._cards = self.settings.folder or folder / "postcards"

    async def recall(self, query: Query) -> Sequence[Recollection]:
        asked = set(query.text.lower().split())
        texts = [json.loads(file.read_text("utf-8")) for file in sorted(self._folder(query.user).glob("*.json"))]
        found = [Recollection(text, float(len(asked & set(text.lower().split())))) for text in texts]
        return sorted(found, key=lambda recollection: -recollection.score)[: query.limit]

    async def learn(self, episode: Episode, reward: float) -> None:
        task, said = episode.task, [turn.text for turn in episode.turns if turn.text]
        folder = self._folder(task.user)
        folder.mkdir(parents=True, exist_ok=True)
        text = f"{reward:.3g} for {' '.join(said[-1:]) or episode.finish}"
        (folder / f"{_hash(f'{episode.environment}/{task.seed}/{task.id}')}.json").write_text(json.dumps(text), "utf-8")

    def _folder(self, user: str) -> Path:
        # A hash: a user's name may hold anything, and must not lead out of the folder.
        return self._cards / _hash(user)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
