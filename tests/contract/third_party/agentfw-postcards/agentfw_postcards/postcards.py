"""A memory of postcards: one small JSON file an episode, in a folder of the user's own, which is in the run's folder.

The one rule: a card's name says which episode it is of. So an episode that is handed over twice is one card, two runs
that share the folder never get in each other's way, and a card that somebody deletes is forgotten.

    agentfw run --memory postcards --set memory.postcards.folder=cards
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw import Episode, Memory, Settings
from agentfw.memory import Query, Recollection
from pydantic import Field


class PostcardsSettings(Settings):
    folder: Path | None = Field(
        default=None, description="Where the cards are kept; several runs may share it. Default: in the run's folder."
    )
    words: int = Field(default=40, ge=5, description="How many words fit on a card.")


class Postcards(Memory):
    """Brings up the cards that share the most words with what is going on; among equals, the ones that went best."""

    def __init__(self, settings: PostcardsSettings) -> None:
        self.settings = settings
        self._cards_of_all = settings.folder or Path("postcards")

    def open(self, folder: Path) -> None:
        self._cards_of_all = self.settings.folder or folder / "postcards"

    async def recall(self, query: Query) -> Sequence[Recollection]:
        asked = _words(query.text)
        found = []
        for card in self._cards(query.user):
            shared = asked & _words(card["text"])
            found.append(Recollection(card["text"], float(len(shared)), {"shared": sorted(shared), **card}))
        found.sort(key=lambda recollection: (-recollection.score, -recollection.why["reward"], recollection.text))
        return found[: query.limit]

    async def learn(self, episode: Episode, reward: float) -> None:
        task = episode.task
        file = self._folder(task.user) / f"{_hash(f'{episode.environment}/{task.seed}/{task.id}')}.json"
        if file.exists():
            return
        card = {"episode": task.id, "environment": episode.environment, "reward": reward, "text": self._text(episode)}
        file.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own for each writer, and then a rename: whoever reads finds whole cards only.
        handle, unfinished = tempfile.mkstemp(suffix=".new", dir=file.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(card, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, file)

    def _text(self, episode: Episode) -> str:
        """What happened last, what was said last, and how it ended; as much of it as fits."""
        seen = [str(event.data.get("text") or event.name) for event in episode.events if event.kind == "observation"]
        said = [turn.text for turn in episode.turns if turn.text]
        figures = ", ".join(f"{name} {value:.3g}" for name, value in sorted(episode.outcome.items()))
        words = " ".join(["Seen:", *seen[-1:], "Said:", *said[-1:], "Ended with:", figures or episode.finish]).split()
        return " ".join(words[: self.settings.words])

    def _cards(self, user: str) -> list[dict[str, Any]]:
        cards = []
        for file in sorted(self._folder(user).glob("*.json")):
            try:
                card = json.loads(file.read_text(encoding="utf-8"))
                cards.append({**card, "text": str(card["text"]), "reward": float(card["reward"])})
            except (OSError, ValueError, TypeError, KeyError):
                continue  # deleted meanwhile, or somebody wrote on it: a card that can't be read says nothing
        return cards

    def _folder(self, user: str) -> Path:
        # A hash: a user's name may hold anything, and must not lead out of the folder.
        return self._cards_of_all / _hash(user)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 2}
