"""Kills a loop at random moments, lets it go on each time, and compares its table with that of an undisturbed loop.

    python plugins/papers/benchmarks/loop_kill.py --kills 20
    python plugins/papers/benchmarks/loop_kill.py --kills 3 --seed 2 --json

The loop is small: three variants of one round each. Kills are spread over its work, counted in lines of journals.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import AGENTFW, Options, tell

SPEC = """
rounds = 1
figures = ["judge", "personal"]
own_users = true
carry = ["policy.weights={adapter}", "learner.weights={adapter}"]

[run]
environment = { name = "assistant", settings = { world = "{seed}" } }
policy = "assistant-linear"
memories = [{ name = "skillgraph", settings = { path = "{store}/skills.db", embedder = "hash", share_after = 3 } }]
rewards = ["assistant_base", "assistant_personal"]

[live]
episodes = 60
concurrency = 20
split = "train"

[train]
optimizer = "parpo"
learner = "assistant-linear"
updates = 3
tasks = 6
samples = 4
evaluation = { every = 3, tasks = 6 }

[exam]
episodes = 60
concurrency = 20
split = "test"

[variants.Full]
about = "everything"

[variants.A1]
about = "no memory"
set = ["memory.skillgraph.ablation=A1"]

[variants.P1]
about = "untrained"
trains = false
"""


def start(spec: Path, folder: Path) -> subprocess.Popen[str]:
    command = [*AGENTFW, "loop", "--spec", str(spec), "--folder", str(folder), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines(folder: Path) -> int:
    """How far a loop is, in lines of its journals."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl"))


def finish(spec: Path, folder: Path) -> str:
    process = start(spec, folder)
    _, told = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the loop ended with {process.returncode}:\n{told}")
    return (folder / "table.json").read_text("utf-8")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, kills=20, seed=7).parse_args(arguments)
    generator, hit = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory() as work:
        spec = Path(work) / "loop.toml"
        spec.write_text(SPEC, "utf-8")
        whole = finish(spec, Path(work) / "whole")
        of, killed = lines(Path(work) / "whole"), Path(work) / "killed"
        for goal in sorted(generator.random() * of for _ in range(options.kills)):
            process = start(spec, killed)
            while process.poll() is None and (not killed.exists() or lines(killed) < goal):
                time.sleep(0.01)
            time.sleep(generator.uniform(0, 0.05))
            process.kill()
            process.communicate()
            hit += process.returncode < 0
        equal = finish(spec, killed) == whole
    words = "{hit} of {kills} kills hit it; equal table: {equal}"
    found = {"kills": options.kills, "hit": hit, "equal": equal}
    return tell(found, options.json, lambda found: print(words.format_map(found)))


if __name__ == "__main__":
    main()
