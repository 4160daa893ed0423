"""The memory `mem0`: what the skill graph's memory learns and shows, kept and searched by mem0's own package.

`SkillGraphMemory` makes the trajectory of an episode, asks for what to recall, and words it for the policy. Here it
does so with mem0 in place of its graph. Skills are drafted by the graph's own extractor, and mem0 stores their texts
under `user_id`, without a language model (`infer=False`), with vectors from the graph's default embedder. So the two
memories differ in how they store and search, and in nothing else. mem0 runs in a Python of its own, see
`skill_graph_mem0.py`.

mem0 ranks a user's texts by the similarity of vectors. Without a language model it keeps whatever it is given, also
what it has already and what a newer text contradicts, and shares nothing between users.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import Field

from agentfw import Settings
from agentfw_benchmarks.mem0_side import Mem0
from agentfw_memory import GraphSettings, Hit, Skill, Trajectory, UnknownSkillError, Why
from agentfw_memory.graph.index.embedders import open_embedder
from agentfw_memory.graph.learning.extraction import SkillDraft, extract
from agentfw_plugins.memories.skillgraph import SkillGraphMemory

__all__ = ["Mem0Memory", "Mem0Settings", "Mem0Skills"]


class Mem0Settings(Settings):
    path: str = Field(description="Directory of the store.")
    python: str = Field(description="The Python of an environment with mem0ai.")
    once: bool = Field(True, description="Don't add a text that the user has already.")


class Mem0Skills:
    """What `SkillGraphMemory` calls of a graph."""

    def __init__(self, folder: Path, python: str, *, once: bool) -> None:
        self.embedder = open_embedder()
        self._mem0, self._once = Mem0(python, folder, self.embedder.dimensions), once
        self._file = folder / "learned.jsonl"
        """The texts of each episode that was learned: a run that is resumed may hand it over again."""
        lines = self._file.read_text("utf-8").splitlines() if self._file.exists() else []
        self._learned = {id: (user, texts) for id, user, texts in map(json.loads, lines)}
        self._embedded = set[str]()
        self._hits: dict[tuple[str, str, int], list[Hit]] = {}
        """What was found since anything was learned: in a training, several episodes ask the same."""

    def set_profile(self, user: str, text: str) -> None:
        """mem0 has no profiles."""

    def standing(self, user: str, k: int) -> list[Skill]:
        return []

    def skill(self, skill: str) -> Skill:
        """mem0 doesn't count what a memory is used for, so nobody needs to know it again."""
        raise UnknownSkillError(skill)

    def recall(self, query: str, *, user: str, k: int) -> list[Hit]:
        if (user, query, k) not in self._hits:
            self._embed([query])
            found = self._mem0.memories(query, _name(user), k)
            self._hits[user, query, k] = [_hit(one, user) for one in found]
        return self._hits[user, query, k]

    def learn(self, trajectory: Trajectory, reward: float) -> None:
        if trajectory.id in self._learned:
            return
        user, defaults = trajectory.user, GraphSettings()
        good = reward >= defaults.learn_from
        drafts = [draft for draft in extract(trajectory, defaults.new_skills) if draft.wish or good]
        if self._once:
            known = {text for whose, texts in self._learned.values() if whose == user for text in texts}
            drafts = [draft for draft in drafts if draft.text not in known]
        if drafts:
            texts = [draft.text for draft in drafts]
            self._embed(texts)
            self._mem0.add(texts, _name(user), [_metadata(draft) for draft in drafts])
            self._hits.clear()
        self._learned[trajectory.id] = user, [draft.text for draft in drafts]
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([trajectory.id, *self._learned[trajectory.id]]) + "\n")

    def close(self) -> None:
        self._mem0.close()

    def _embed(self, texts: Sequence[str]) -> None:
        new = [text for text in texts if text not in self._embedded]
        if new:
            self._mem0.know(new, self.embedder.embed(new).tolist())
            self._embedded.update(new)


class Mem0Memory(SkillGraphMemory):
    """mem0 behind the skill graph's memory."""

    def __init__(self, settings: Mem0Settings) -> None:
        super().__init__()
        self._mem0_settings = settings
        self._skills: Mem0Skills | None = None

    @property
    def graph(self) -> Any:
        if self._skills is None:
            settings, folder = self._mem0_settings, Path(self._mem0_settings.path)
            folder.mkdir(parents=True, exist_ok=True)
            self._skills = Mem0Skills(folder, settings.python, once=settings.once)
        return self._skills

    async def close(self) -> None:
        if self._skills is not None:
            self._skills.close()
            self._skills = None


def _name(user: str) -> str:
    """A user's name as mem0 takes it: without spaces."""
    return user.replace(" ", "_")


def _metadata(draft: SkillDraft) -> dict[str, Any]:
    return {"tools": list(draft.tools), "scenarios": list(draft.scenarios)}


def _hit(found: dict[str, Any], user: str) -> Hit:
    about = found["metadata"]
    # The assistant's policy reads ids of digits after an "s".
    skill = Skill(f"s{UUID(found['id']).int}", user, found["memory"], tuple(about["tools"]), tuple(about["scenarios"]))
    score: float = found["score"]
    why = Why(score, user=0, community=0, neighbours=0, time=0, fact=0, complement=0, conflict=0, path="found by mem0")
    return Hit(score, skill, why)
