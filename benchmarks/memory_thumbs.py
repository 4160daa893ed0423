"""Thumbs: does one wrong thumb lock a user in, and do right ones teach the skill graph what to recall?

    python benchmarks/memory_thumbs.py

Each user has ten notes about places for lunch, in the same words but for the place, and likes one of them. They ask for
lunch in other words each time. The agent offers the first note that is recalled, and the user's thumb says whether it
is the one they like. "right at the end" is the share of users to whom theirs is offered in the last round. In a second
arm, the first thumb about the place that a user likes is wrong. In the third, no thumb is learned from.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from agentfw_benchmarks import Options, mean_of, shown, tell
from agentfw_memory import GraphSettings, SkillGraph, Trajectory

PLACES = ("harbour", "garden", "tower", "station", "museum", "bridge", "market", "castle", "library", "theatre")
QUESTIONS = ("where do we have lunch?", "a place for lunch, please", "lunch today: which place?", "lunch place?")


def rounds(graph: SkillGraph, user: str, liked: str, count: int, wrong: int, draw: random.Random) -> list[bool]:
    """Let a user ask for lunch, with so many wrong thumbs at first. Return in which rounds theirs was offered."""
    notes = {graph.add_skill(owner=user, text=f"the {place} is a place for lunch").id: place for place in PLACES}
    right = []
    for number in range(count):
        question = draw.choice(QUESTIONS)
        offered = graph.recall(question, user=user, k=1)[0].skill.id
        good = notes[offered] == liked
        right.append(good)
        told = good
        if good and wrong:
            wrong, told = wrong - 1, False
        graph.learn(Trajectory(f"{user} {number}", user, question, shown=(offered,)), float(told))
    return right


def measure(users: int, count: int, seed: int) -> dict[str, Any]:
    arms = {"right thumbs": (0, 0.2), "one wrong thumb": (1, 0.2), "thumbs not learned from": (0, 0.0)}
    result: dict[str, Any] = {"users": users, "rounds": count}
    for arm, (wrong, weight) in arms.items():
        draw = random.Random(seed)
        settings = GraphSettings(rating_weight=weight)
        with SkillGraph.open(":memory:", tenant="lunch", embedder="hash", settings=settings) as graph:
            played = [rounds(graph, f"user{one}", draw.choice(PLACES), count, wrong, draw) for one in range(users)]
        result[arm] = {
            "right at the end": mean_of([float(one[-1]) for one in played]),
            "right over all": mean_of([sum(one) / count for one in played]),
        }
    return result


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        print(name + ":", value if isinstance(value, int) else {key: shown(one) for key, one in value.items()})


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, users=20, rounds=40, seed=7).parse_args(arguments)
    return tell(measure(options.users, options.rounds, options.seed), options.json, show)


if __name__ == "__main__":
    main()
