"""Memories: good ones, `Notebook`, `Shelf` and `Ears`, and bugs."""

from __future__ import annotations

import asyncio
import json
import math
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


class Appending(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        self.notes[episode.task.user, f"{episode.id} {len(self.notes)}"] = episode.turns[-1].text


class Unbounded(Notebook):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        return await super().recall(replace(query, limit=1000))


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


class SingleUser(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        if episode.task.user != "user":
            raise PermissionError(episode.task.user)
        await super().learn(episode, reward)


class CStrings(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        if any("\x00" in turn.text for turn in episode.turns):
            raise ValueError("embedded null character")
        await super().learn(episode, reward)


class NeedsNotes(Notebook):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        found = await super().recall(query)
        return [found[0], *found[1:]]


class Locking(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        lock = Path("memory.lock")
        lock.touch(exist_ok=False)
        await asyncio.sleep(0.01)
        lock.unlink()
        await super().learn(episode, reward)


class LastTurnOnly(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        self.notes[episode.task.user, episode.id] = episode.turns[-1].text


class OneForAll(Notebook):
    """Forgets whose notes they are."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self.asked[query.task.id] = self.asked.get(query.task.id, 0) + 1
        return [Recollection(note) for note in self.notes.values()][: query.limit]


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


class BrokenTool(Notebook):
    def tools(self, task: Task) -> Sequence[Tool]:
        def stamp(day: int) -> str:
            """Stamp a day."""
            raise KeyError(day)

        return [tool(stamp)]


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


class WorstFirst(Shelf):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        found = await super().recall(replace(query, limit=1000))
        return list(reversed(found))[: query.limit]


class CutsBeforeSorting(Shelf):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        found = sorted(await super().recall(replace(query, limit=1000)), key=lambda one: one.text)[: query.limit]
        words = set(query.text.split())
        return sorted(found, key=lambda one: -len(words & set(one.text.split())))


class ForgetsNothing(Shelf):
    async def forget(self, user: str) -> Mapping[str, int]:
        return {"notes": len(self.notes.get(user, {}))}


class ForgetsEverybody(Shelf):
    async def forget(self, user: str) -> Mapping[str, int]:
        count = sum(map(len, self.notes.values()))
        self.notes.clear()
        self.write()
        return {"notes": count}


class ForgetsUntilTheRestart(Shelf):
    async def forget(self, user: str) -> Mapping[str, int]:
        return {"notes": len(self.notes.pop(user, {}))}


class OneVector(Shelf):
    async def embed(self, texts: Sequence[str]) -> Embedded:
        return Embedded("letters", [[float(len("".join(texts)))]])


class NotANumber(Shelf):
    async def embed(self, texts: Sequence[str]) -> Embedded:
        return Embedded("letters", [[text.count("e") / len(text) if text else math.nan] for text in texts])


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


class Oldest(Ears):
    async def remembered(self, user: str) -> Sequence[Remembered]:
        return list(reversed(await super().remembered(user)))


class DeafAfterwards(Ears):
    """Reads what it heard from its folder, and has never written it there."""

    def open(self, folder: Path) -> None:
        self.kept.clear()


MEMORIES = [
    bug("an_empty_memory_answers", NeedsNotes),
    bug("it_keeps_to_the_limit", Unbounded),
    bug("learning_twice_is_learning_once", Appending),
    bug("two_runs_are_strangers", OneFileForAllRuns),
    bug("a_broken_off_attempt_is_forgotten", Notebook, begin=lambda self, task: None),
    bug("a_broken_off_attempt_is_forgotten", Drafts),
    bug("other_users_do_no_harm", SingleUser),
    bug("users_do_not_see_each_other", OneForAll),
    bug("users_do_not_overwrite_each_other", OneFileForTwo),
    bug("a_restart_changes_nothing", Shelf, write=lambda self: None),
    bug("a_restart_changes_nothing", DeafAfterwards),
    bug("the_best_match_comes_first", WorstFirst),
    bug("the_best_match_comes_first", CutsBeforeSorting),
    bug("forgetting_a_user_is_complete", ForgetsNothing),
    bug("forgetting_a_user_is_complete", ForgetsEverybody),
    bug("forgetting_a_user_is_complete", ForgetsUntilTheRestart),
    bug("it_embeds_each_text", OneVector),
    bug("it_embeds_each_text", NotANumber),
    bug("hearing_twice_is_hearing_once", Doubling),
    bug("what_it_remembers_is_the_newest_first", Oldest),
    bug("what_is_corrected_is_replaced", Stubborn),
    bug("what_is_deleted_is_gone", Keeping),
    bug("users_change_only_their_own", Public),
    bug("any_text_will_do", CStrings),
    bug("odd_episodes_will_do", LastTurnOnly),
    bug("two_at_once_will_do", Locking),
    bug("its_tools_can_be_offered", Notebook, tools=lambda self, task: [double, double]),
    bug("its_tools_work", BrokenTool),
]

BUGS: dict[str, list[Bug]] = {"memory": MEMORIES}
