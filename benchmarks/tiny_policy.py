"""The shipped model with its StrategyHub, and the program that taught it, on the held-out users.

    python benchmarks/tiny_policy.py                      # the table of docs/results/tiny.md: data seeds 1 to 5
    python benchmarks/tiny_policy.py --organisations benchmarks/organisations   # a law firm and a school
    python benchmarks/tiny_policy.py --model FOLDER       # another small model, such as one still in training
    python benchmarks/tiny_policy.py --fit                # first fit what the teacher expects of a role

The one rule: all of them are engaged with the same users and rounds, and read the same words.
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
from calendar_honesty import Played, Row, row_of, show

from agentfw import Engagement, Episode, Policy, PolicyAgent, Task
from agentfw.interfaces import EventDriven
from agentfw.runs import in_processes
from agentfw_benchmarks import ROOT, Options, tell
from agentfw_benchmarks.prior_fitting import fit_prior
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings

sys.path.insert(0, str(ROOT / "model_making"))
from calendar_teacher import NAMES, ROLES_FILE, TeacherPolicy, TeacherSettings, terms

_POINT = 3.5
"""What one of the choice model's points is in the teacher's weights; the best on training users."""


def policy_of(player: str, model: str) -> Policy:
    if player.startswith("tiny"):
        return TinyPolicy(TinySettings(model=model))
    return TeacherPolicy(TeacherSettings(prior="flat" if "nothing" in player else "fitted"))


PLAYERS = ("tiny + strategyhub", "teacher + strategyhub", "teacher, expecting nothing")


async def years(policy: Policy, users: Sequence[str], settings: CalendarSettings) -> list[Episode]:
    """A year of each user."""
    memory = StrategyHubMemory(StrategyHubSettings(show=True))

    async def year(index: int, user: str) -> Episode:
        agent = PolicyAgent(policy, memories=[memory], window=5, recall=memory.settings.capacity)
        task = Task(index, seed=index, user=user, split="test")
        return await Engagement(CalendarConflicts(settings), agent, EventDriven()).run(task)

    return list(await asyncio.gather(*(year(index, user) for index, user in enumerate(users))))


def play(player: str, model: str, worlds: int, users: int, rounds: int, organisations: str) -> list[Played]:
    """One player's years with the held-out users of each world."""
    policy, found = policy_of(player, model), []
    for seed in range(1, 1 + worlds):
        settings = CalendarSettings(rounds=rounds, data_seed=seed, organisations=organisations)
        names = settings.dataset().users("test")[:users]
        episodes = asyncio.run(years(policy, names, settings))
        found += [Played(list(one.series("error")), list(one.series("ord"))) for one in episodes]
    return found


def measure(model: str, worlds: int, users: int, rounds: int, organisations: str = "") -> dict[str, Row]:
    years_of = partial(play, model=model, worlds=worlds, users=users, rounds=rounds, organisations=organisations)
    played = zip(PLAYERS, in_processes(years_of, PLAYERS, 2), strict=True)
    return {name: row_of(some) for name, some in played}


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
    players = measure(given.model, given.worlds, given.users, given.rounds, given.organisations)
    return tell({name: asdict(row) for name, row in players.items()}, given.json, lambda _: show(players))


if __name__ == "__main__":
    main()
