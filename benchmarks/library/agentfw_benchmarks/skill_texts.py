"""Made-up skills of a team, the same for every side of a comparison, and a graph that is filled with them."""

from __future__ import annotations

import random

from agentfw_memory import NewSkill, SkillGraph

from .repetitions import timed

DIMENSIONS = 384
EMBEDDER = f"hash:{DIMENSIONS}"


class Texts:
    """Texts of 14 words, some of which come often and most seldom; one seed, one row of texts."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def text(self) -> str:
        return " ".join(f"w{min(2999, int(self._generator.paretovariate(0.7)))}" for _ in range(14))

    def skills(self, count: int, *, users: int) -> list[NewSkill]:
        draw = self._generator
        return [
            NewSkill(
                f"user{draw.randrange(users)}",
                self.text(),
                (f"tool{draw.randrange(50)}",),
                (f"scenario{draw.randrange(200)}",),
                "shared" if draw.random() < 0.8 else "private",
            )
            for _ in range(count)
        ]


def fill(graph: SkillGraph, texts: Texts, count: int, batch: int = 5000) -> list[tuple[list[NewSkill], float]]:
    """Add so many skills of a team with a hundred each. Returns the skills of each batch and the seconds it took."""
    found = []
    for start in range(0, count, batch):
        skills = texts.skills(min(batch, count - start), users=users_of(count))
        found.append((skills, timed(graph.add_all, skills)))
    return found


def users_of(count: int) -> int:
    """How many users own so many skills."""
    return max(1, count // 100)
