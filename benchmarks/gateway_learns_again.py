"""Versions made again of the ratings of a gateway that has learned: from the served version, and from the policy.

    python benchmarks/gateway_learns.py --work FOLDER --seed 14 --conversations 1000 --poison 0
    python benchmarks/gateway_learns_again.py --work FOLDER --seed 14 --conversations 1000 --ratings 800 1000

At each of these numbers of ratings, a version is trained on the newest of them as `agentfw serve --learn` would do it,
and once more from the policy as it came. It is tested as there, on what was held out. Then the versions answer what
users asked who gave no thumbs, after the change of tastes. Users, cards and draws are those of gateway_learns.py.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from choosing_users import people
from gateway_learns import again, by_user
from learning_gateway import Said, learning_every

from agentfw import Host
from agentfw.host import HostOptions
from agentfw.runs import policy_of_run, read_sessions, start_from_runs
from agentfw.seeds import Seeds
from agentfw_benchmarks import Options, difference_of, print_markdown, shown, tell, triple_of
from agentfw_plugins.gateway.learning import trainer
from agentfw_plugins.gateway.learning.ratings import MOST, read_ratings
from agentfw_plugins.gateway.learning.version_file import VersionFile


class Study:
    """The ratings of one run."""

    def __init__(self, options: argparse.Namespace) -> None:
        (run,) = (options.work / "learn").glob("*-sessions-*")
        self.file, self.host, self.options = VersionFile(run), Host.load(HostOptions()), options
        self.state = self.file.read()
        self.ratings = read_ratings(self.file.episodes())
        self.policy = policy_of_run(self.host, str(run), run.parent)
        rounds = options.conversations // options.users
        habits = {"wrong": 0.1, "alike": 0.8, "mentioned": 2}
        users = people(Seeds(options.seed), options.users, rounds + 2 * options.guests, **habits)
        self.guests = [
            Said(f"{user.name}-{number}", user, user.cards[number], "", False)
            for number in range(rounds + options.guests, rounds + 2 * options.guests)
            for user in users
        ]
        self.shown_to = {episode.task.query: episode for episode in read_sessions(run)}

    async def liked(self, adapter: Path | None) -> dict[str, float]:
        return by_user(self.guests, await again(self.host, self.shown_to, adapter, self.guests, 1))

    async def row(self, count: int, *, goes_on: bool) -> dict[str, Any]:
        count = min(count, len(self.ratings))  # answers that were interrupted don't count
        ratings, before = self.ratings[:count][-MOST:], self.ratings[count - 1].version
        adapters = trainer.adapters_of(self.file, self.state, {one.version for one in ratings})
        served = adapters[before]
        taught = [one for one in ratings if one.whole and not one.held_out]
        with tempfile.TemporaryDirectory() as name:
            room = Path(name)
            spec = Path(learning_every(0, room, self.options.tasks)[-1])
            recorded = trainer.copied(self.file, self.state, taught, room / "recorded")
            values = start_from_runs([str(recorded)], room)(self.host, None, spec)
            start = trainer.with_adapter(self.policy, served) if goes_on and served is not None else self.policy
            made = await trainer.trained(self.host, values, start, taught, room)
            held_out = [one for one in ratings if one.held_out]
            test = await trainer.compared(self.host, self.policy, made, before, adapters, held_out)
            kept = room / "made"
            shutil.copytree(made, kept)
            new, old = await self.liked(kept), await self.liked(served)
        return {
            "ratings": count,
            "from": "the served version" if goes_on else "the policy as it came",
            "served": before,
            "test": str(test),
            "better": test.better,
            "liked": triple_of(list(new.values())),
            "liked of the served version": triple_of(list(old.values())),
            "beyond the served version": difference_of(new, old),
        }


def show(found: dict[str, Any]) -> None:
    rows = [
        [
            *(str(row[name]) for name in ("ratings", "from", "served")),
            "passed" if row["better"] else "rejected",
            shown(row["liked"]),
            shown(row["beyond the served version"]),
        ]
        for row in found["rows"]
    ]
    print_markdown(["ratings", "from", "served", "test", "liked", "beyond the served version"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        work=(Path, "folder of a run of gateway_learns.py"),
        users=(50, "number of users there"),
        conversations=(1000, "rated conversations there"),
        guests=(6, "conversations of each user without a thumb there, in each half"),
        ratings=([1000], "numbers of ratings, at which versions are made"),
        tasks=(8, "answers of an update; each rating is looked at once, so more make fewer updates"),
        seed=(14, "its random seed"),
    ).parse_args(arguments)
    study = Study(options)
    rows = [asyncio.run(study.row(count, goes_on=goes_on)) for count in options.ratings for goes_on in (True, False)]
    return tell({"seed": options.seed, "rows": rows}, options.json, show)


if __name__ == "__main__":
    main()
