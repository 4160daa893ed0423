"""Kills a replica of a pool at random moments of a run, and compares the run with one that nobody disturbed.

    python benchmarks/pool_kill.py
    python benchmarks/pool_kill.py --kills 2 --episodes 2 --json

A run of the calendar with a pool of two `tiny` models. When a drawn number of turns is done, one of the two processes
gets SIGKILL. Required: every run has the same episodes and figures as the undisturbed one.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw import Episode, Run, Turn
from agentfw.runs import Observer, parse_spec
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, tell


class Killer(Observer):
    """Counts turns, and kills a replica after so many."""

    def __init__(self, after: int = 0, victim: int = 0) -> None:
        self.after, self.victim, self.turns, self.hit = after, victim, 0, False

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.turns += 1
        if self.turns == self.after:
            replicas = sorted(_replicas())
            os.kill(replicas[self.victim % len(replicas)], signal.SIGKILL)
            self.hit = True


def _replicas() -> list[int]:
    """The processes of this one's replicas."""
    mine = [
        int(word)
        for children in Path(f"/proc/{os.getpid()}/task").glob("*/children")
        for word in children.read_text("ascii").split()
    ]
    return [pid for pid in mine if b"agentfw.engine.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def play(folder: Path, episodes: int, policy: Any, killer: Killer) -> dict[str, list[str]]:
    """The records of a run."""
    spec = parse_spec(
        {
            "environment": {"name": "calendar", "settings": {"rounds": 8}},
            "policy": policy,
            "memories": ["strategyhub"],
            "memories_learn": False,
            "episodes": episodes,
            "sampling": {"temperature": 1.0},
        }
    )
    run = Run.create(spec, fresh_host(builtins=True, strict=False), folder)
    asyncio.run(run.execute(killer))
    return {
        name: sorted((run.folder.path / f"{name}.jsonl").read_text("utf-8").splitlines())
        for name in ("episodes", "metrics")
    }


def measure(kills: int, episodes: int, seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    pool = {"name": "pool", "settings": {"policy": "tiny", "replicas": 2}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = Killer()
        expected = play(folder, episodes, "tiny", count)
        trials = []
        for _ in range(kills):
            killer = Killer(draw.randint(1, count.turns), draw.randint(0, 1))
            found = play(folder, episodes, pool, killer)
            trials.append({"killed after": killer.after, "hit": killer.hit, "equal": found == expected})
    return {
        "turns": count.turns,
        "kills": sum(trial["hit"] for trial in trials),
        "equal": sum(trial["equal"] for trial in trials),
        "runs": len(trials),
        "trials": trials,
    }


def show(result: dict[str, Any]) -> None:
    for trial in result["trials"]:
        verdict = "equal" if trial["equal"] else "DIFFERENT"
        print(f"killed after turn {trial['killed after']:3} of {result['turns']}: {verdict}")
    print(f"{result['kills']} kills; {result['equal']} of {result['runs']} runs equal to one process, undisturbed")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, kills=20, episodes=4, seed=7).parse_args(arguments)
    return tell(measure(options.kills, options.episodes, options.seed), options.json, show)


if __name__ == "__main__":
    main()
