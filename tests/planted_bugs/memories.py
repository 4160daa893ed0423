"""Memories: good ones, `Notebook`, `Shelf` and `Ears`, and bugs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentfw import Memory
from agentfw.episode import Episode, Task
from agentfw.errors import UnknownNameError
from agentfw.memory import Embedded, Query, Recollection, Remembered, Saying
from agentfw.tool import Tool, tool

from .acting import double
from .planting import Bug, bug

__all__ = ["BUGS", "Ears", "Notebook", "Shelf", "asyncio", "stamp"]  # bugs use modules that good ones don't


class Notebook(Memory):
    """Remembers the last answer of each episode, by user."""

    def __init__(self) -> None:
        self.notes: dict[tuple[str, str], str] = {}
        self.asked: dict[str, int] = {}

    def begin(self, task: Task) -> None:
        self.asked.pop(task.id, None)

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self.asked[query.task.id] = self.asked.get(query.task.id, 0) + 1
        notes = [note for (user, _), note in self.notes.items() if user == query.user]
        return [Recollection(note) for note in notes[: query.limit]]

    async def learn(self, episode: Episode, reward: float) -> None:
        text = episode.turns[-1].text if episode.turns else "nothing happened"
        self.notes[episode.task.user, episode.id] = f"{text} ({self.asked.get(episode.id, 0)} times asked)"

    def tools(self, task: Task) -> Sequence[Tool]:
        return [double]


class Drafts(Notebook):
    """Its tool keeps lines for the episode, and nobody ever takes them away."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, list[str]] = {}

    def tools(self, task: Task) -> Sequence[Tool]:
        lines = self.lines.setdefault(task.id, [])

        async def draft(line: str) -> str:
            """Add a line to the draft."""
            lines.append(line)
            return " / ".join(lines)

        return [tool(draft)]


class OneFileForAllRuns(Notebook):
    """Keeps its notes in the working directory, where a second run finds them, and takes its own for known ones."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self.notes = {tuple(key): note for key, note in json.loads(self._read())}
        return await super().recall(query)

    async def learn(self, episode: Episode, reward: float) -> None:
        self.notes = {tuple(key): note for key, note in json.loads(self._read())}
        if (episode.task.user, episode.id) not in self.notes:
            await super().learn(episode, reward)
        Path("notes.json").write_text(json.dumps(list(self.notes.items())))

    def _read(self) -> str:
        return Path("notes.json").read_text() if Path("notes.json").exists() else "[]"


class OneFileForTwo(Notebook):
    """Keeps each user's notes under a name that another user may have, too; only the last writer is found there."""

    def __init__(self) -> None:
        super().__init__()
        self.writer: dict[str, str] = {}

    async def learn(self, episode: Episode, reward: float) -> None:
        user = episode.task.user
        file = "".join(letter if letter.isalnum() else "-" for letter in user.lower())
        if self.writer.setdefault(file, user) != user:
            self.notes = {key: note for key, note in self.notes.items() if key[0] != self.writer[file]}
            self.writer[file] = user
        await super().learn(episode, reward)


class Shelf(Memory):
    """Keeps its notes by user in a file of its run, and recalls those first that share most words with the query."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.notes: dict[str, dict[str, str]] = {}

    def open(self, folder: Path) -> None:
        self.path = folder / "notes.json"
        if self.path.exists():
            self.notes = json.loads(self.path.read_text("utf-8"))

    async def recall(self, query: Query) -> Sequence[Recollection]:
        words = set(query.text.split())
        notes = self.notes.get(query.user, {}).values()
        best = sorted(notes, key=lambda note: -len(words & set(note.split())))
        return [Recollection(note) for note in best[: query.limit]]

    async def learn(self, episode: Episode, reward: float) -> None:
        said = " ".join(turn.text for turn in episode.turns)
        self.notes.setdefault(episode.task.user, {})[episode.id] = said
        self.write()

    async def forget(self, user: str) -> Mapping[str, int]:
        gone = self.notes.pop(user, {})
        self.write()
        return {"notes": len(gone)}

    async def embed(self, texts: Sequence[str]) -> Embedded:
        return Embedded("letters", [[float(len(text)), float(text.count("e"))] for text in texts])

    def write(self) -> None:
        if self.path is not None:
            self.path.write_text(json.dumps(self.notes), "utf-8")


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


class DeafAfterwards(Ears):
    """Reads what it heard from its folder, and has never written it there."""

    def open(self, folder: Path) -> None:
        self.kept.clear()


@tool
def stamp(day: int) -> str:
    """Stamp a day."""
    raise KeyError(day)


ASKS = "notes[: query.limit]"
WRITES = "text = episode"
LOCKS = 'Path("lock").touch(exist_ok=False); await asyncio.sleep(0.01); Path("lock").unlink()'
NO_NUL = 'assert not any("\\x00" in turn.text for turn in episode.turns)'
TEXT = 'episode.turns[-1].text if episode.turns else "nothing happened"'
LETTERS = '[[float(len(text)), float(text.count("e"))] for text in texts]'
RENAMED = "saying = replace(saying, id=str(len(self.kept)))"
MEMORIES = [
    bug("an_empty_memory_answers", Notebook, ASKS, f"[notes[0], *notes[1:]]{ASKS.removeprefix('notes')}"),
    bug("it_keeps_to_the_limit", Notebook, ASKS, "notes"),
    bug("learning_twice_is_learning_once", Notebook, "user, episode.id]", "user, str(len(self.notes))]"),
    Bug("two_runs_are_strangers", OneFileForAllRuns),
    bug("a_broken_off_attempt_is_forgotten", Notebook, "self.asked.pop(task.id, None)", "pass"),
    Bug("a_broken_off_attempt_is_forgotten", Drafts),
    bug("other_users_do_no_harm", Notebook, WRITES, f'assert episode.task.user == "user"; {WRITES}'),
    bug("users_do_not_see_each_other", Notebook, " if user == query.user", ""),
    Bug("users_do_not_overwrite_each_other", OneFileForTwo),
    bug("any_text_will_do", Notebook, WRITES, f"{NO_NUL}; {WRITES}"),
    bug("odd_episodes_will_do", Notebook, TEXT, "episode.turns[-1].text"),
    bug("two_at_once_will_do", Notebook, WRITES, f"{LOCKS}; {WRITES}"),
    bug("its_tools_can_be_offered", Notebook, "[double]", "[double, double]"),
    bug("its_tools_work", Notebook, "[double]", "[stamp]"),
    bug("a_restart_changes_nothing", Shelf, 'self.path.write_text(json.dumps(self.notes), "utf-8")', "pass"),
    bug("the_best_match_comes_first", Shelf, "key=lambda note: -len", "key=lambda note: len"),
    bug("forgetting_a_user_is_complete", Shelf, "self.notes.pop(user, {})", "self.notes.get(user, {})"),
    bug("forgetting_a_user_is_complete", Shelf, "gone = self.notes.pop(user, {})", "gone, self.notes = self.notes, {}"),
    bug("it_embeds_each_text", Shelf, LETTERS, '[[float(len("".join(texts)))]]'),
    Bug("a_restart_changes_nothing", DeafAfterwards),
    bug("hearing_twice_is_hearing_once", Ears, "self.kept[saying.user", f"{RENAMED}; self.kept[saying.user"),
    bug("what_it_remembers_is_the_newest_first", Ears, "reversed(self.kept.items())", "self.kept.items()"),
    bug("what_is_corrected_is_replaced", Ears, "replace(self.kept[user, item], text=text)", "self.kept[user, item]"),
    bug("what_is_deleted_is_gone", Ears, "del self.kept[user, item]", "pass"),
    bug("users_change_only_their_own", Ears, " if owner == user", ""),
]

BUGS: dict[str, list[Bug]] = {"memory": MEMORIES}
