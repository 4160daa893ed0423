"""Interrupts `agentfw run` with Ctrl-C at random moments, resumes it, and counts how often its policy was asked.

    python benchmarks/rounds_kept.py                         # ten interruptions
    python benchmarks/rounds_kept.py --interruptions 2 --rounds 6 --json

Required: no answer that the policy gave is asked for again, so what is kept never shrinks. What it was answering when
the signal came was never given, and is asked for once more.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw.runs import RunFolder
from agentfw_benchmarks import AGENTFW, Options, tell


def interrupted(command: Sequence[str], runs: Path, seconds: float) -> str:
    """Run a command, interrupt it after its first answers, and return what it said. Empty if it had ended."""
    with subprocess.Popen(
        [*AGENTFW, *command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        before = asked(runs)
        while process.poll() is None and asked(runs) <= before:
            time.sleep(0.05)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    return told if process.returncode == 130 else ""


def asked(runs: Path) -> int:
    """How often the policy was asked."""
    for file in runs.glob("*/calls.jsonl"):
        for line in map(json.loads, file.read_text("utf-8").splitlines()):
            if line.get("kind") == "policy":
                return int(line["calls"])
    return 0


def measure(rounds: int, interruptions: int, seed: int) -> dict[str, Any]:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        runs, told = Path(name), list[str]()
        command = ["run", "--runs", name, "--quiet", "--set", f"environment.rounds={rounds}"]
        for _ in range(interruptions):
            if not (said := interrupted(command, runs, dice.uniform(0, 3))):
                break
            told.append(said.splitlines()[0])
            command = ["runs", "resume", "last", "--runs", name, "--quiet"]
        else:  # otherwise it has come to its end
            subprocess.run([*AGENTFW, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        [folder] = [RunFolder.open(path.parent) for path in runs.glob("*/run.json")]
        turns = sum(len(episode.turns) for episode in folder.episodes())
        concurrency = int(folder.about["spec"]["concurrency"])
        kept = [int(found[1]) for line in told if (found := re.search(r"(\d+) answers? in", line))]
        return {
            "interruptions": len(told),
            "turns": turns,
            "kept": kept,
            "asked": asked(runs) - len(told) - 1,  # each execution also opens it
            "at_work_when_interrupted": len(told) * concurrency,
            "told": told,
        }


def show(result: dict[str, Any]) -> None:
    for line in result["told"]:
        print(line)
    print("answers kept:", ", ".join(map(str, result["kept"])))
    again = result["asked"] - result["turns"]
    print(f"{result['turns']} turns; the policy was asked {result['asked']} times, {again} of them again;")
    print(f"at most {result['at_work_when_interrupted']} answers were being given when it was interrupted")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--rounds", type=int, default=104)
    parser.add_argument("--interruptions", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    # A job in a shell's background ignores Ctrl-C, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return tell(measure(options.rounds, options.interruptions, options.seed), options.json, show)


if __name__ == "__main__":
    main()
