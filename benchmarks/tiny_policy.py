"""The shipped model with its StrategyHub, without it, and the program that taught it, on the held-out users.

    python benchmarks/tiny_policy.py                      # the table of docs/results/tiny.md: data seeds 1 to 5
    python benchmarks/tiny_policy.py --organisations benchmarks/organisations   # a law firm and a school
    python benchmarks/tiny_policy.py --model FOLDER       # another small model, such as one still in training
    python benchmarks/tiny_policy.py --fit                # first fit what the teacher expects of a role

The one rule: all of them are engaged with the same users and rounds, and read the same words; paired differences are
task by task.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from calendar_honesty import Played, row_of, show

from agentfw import Engagement, Episode, Policy, PolicyAgent, Task
from agentfw.interfaces import EventDriven
from agentfw.report.statistics import paired_difference
from agentfw.runs import in_processes
from agentfw_benchmarks import ROOT, Options, bounds_of, tell
from agentfw_benchmarks.prior_fitting import fit_prior
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings

sys.path.insert(0, str(ROOT / "model_making"))
from calendar_teacher import NAMES, ROLES_FILE, TeacherPolicy, TeacherSettings, terms

_POINT = 3.5
"""What one of the choice model's points is in the teacher's weights; the best on training users."""
WITH, WITHOUT = "tiny + strategyhub", "tiny, hub removed"


def policy_of(player: str, model: str) -> Policy:
    if player.startswith("tiny"):
        return TinyPolicy(TinySettings(model=model))
    return TeacherPolicy(TeacherSettings(prior="flat" if "nothing" in player else "fitted"))


PLAYERS = (WITH, WITHOUT, "teacher + strategyhub", "teacher, expecting nothing")


async def years(
    policy: Policy, users: Sequence[str], *, split: str, settings: CalendarSettings, hub: bool
) -> list[tuple[Episode, list[str]]]:
    """A year of each user, and what stands in the hub after it."""
    memory = StrategyHubMemory(StrategyHubSettings(show=True))

    async def year(index: int, user: str) -> tuple[Episode, list[str]]:
        environment = CalendarConflicts(settings)
        agent = PolicyAgent(policy, memories=[memory] if hub else [], window=5, recall=memory.settings.capacity)
        task = Task(index, seed=index, user=user, split=split)
        episode = await Engagement(environment, agent, EventDriven()).run(task)
        return episode, list(memory.hub(task).list()) if hub else []

    return list(await asyncio.gather(*(year(index, user) for index, user in enumerate(users))))


def play(player: str, model: str, worlds: int, users: int, rounds: int, organisations: str) -> list[Played]:
    """One player's years with the held-out users of each world."""
    policy, found = policy_of(player, model), []
    for seed in range(1, 1 + worlds):
        settings = CalendarSettings(rounds=rounds, data_seed=seed, organisations=organisations)
        names = settings.dataset().users("test")[:users]
        told = asyncio.run(years(policy, names, split="test", settings=settings, hub=player != WITHOUT))
        found += [Played(list(episode.series("error")), list(episode.series("ord"))) for episode, _ in told]
    return found


def measure(model: str, worlds: int, users: int, rounds: int, organisations: str = "") -> dict[str, Any]:
    years_of = partial(play, model=model, worlds=worlds, users=users, rounds=rounds, organisations=organisations)
    played = dict(zip(PLAYERS, in_processes(years_of, PLAYERS, 2), strict=True))
    means = {name: [float(np.mean(one.errors)) for one in some] for name, some in played.items()}
    pair = paired_difference(means[WITHOUT], means[WITH])
    return {
        "users": len(played[WITH]),
        "players": {name: row_of(some) for name, some in played.items()},
        "hub removed against hub": str(pair),
        "gap": bounds_of(pair.difference),
    }


def fit(users: int) -> None:
    """What the teacher expects of a role: the weights that explain best what training users in it chose."""
    names = CalendarSettings().dataset().users("train")[:users]
    prior = fit_prior(in_processes(_choices, names, 2))
    table = {role: _rounded(means) for role, means in prior.roles.items()} | {"anybody": _rounded(prior.mean)}
    made_by = f"python benchmarks/tiny_policy.py --fit --users {users}"
    about = {"made_by": made_by, "users": len(names), "split": "train", "data_seed": 7}
    ROLES_FILE.write_text(json.dumps({"about": about, "roles": table}, separators=(",", ":")) + "\n", "utf-8")
    print(f"{ROLES_FILE.name}: fitted on the choices of {len(names)} training users", file=sys.stderr)


def _choices(user: str) -> tuple[str, list[tuple[np.ndarray, int]]]:
    """The role of a user, and of each round what its events trigger and which was kept."""
    calendar = CalendarSettings().dataset().calendar(CalendarSettings().dataset().user(user), conflicts=5)
    role = f"{calendar.user.organisation.schema.archetype}/{calendar.user.role.title}"
    rows = [np.array([[float(name in terms(tags)) for name in NAMES] for tags in one.tags]) for one in calendar.rounds]
    return role, [(triggered, one.accepted) for triggered, one in zip(rows, calendar.rounds, strict=True)]


def _rounded(means: np.ndarray) -> dict[str, int]:
    return {name: round(_POINT * float(mean)) for name, mean in zip(NAMES, means, strict=True)}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    given = Options(
        __doc__,
        model=("tiny", "a folder, or tiny"),
        worlds=(5, "how many data seeds, from 1 on; ten held-out users each"),
        users=(10, "how many of a world's held-out users; with --fit: of training users"),
        rounds=104,
        organisations=("", "directory of organisations; default: those that ship"),
        fit=(False, "fit what the teacher expects of a role first"),
    ).parse_args(arguments)
    if given.fit:
        fit(given.users)
        return {}
    result = measure(given.model, given.worlds, given.users, given.rounds, given.organisations)

    def show_all(record: dict[str, Any]) -> None:
        show(result["players"])
        print(f"\nthe hub removed, user by user: {record['hub removed against hub']}")

    players = {name: asdict(row) for name, row in result["players"].items()}
    return tell({**result, "players": players}, given.json, show_all)


if __name__ == "__main__":
    main()
