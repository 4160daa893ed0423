"""Run folders that are copied elsewhere and played again: are they equal, and is what was changed named?

    python benchmarks/reproduce.py
    python benchmarks/reproduce.py --env --kinds inbox patrol   # in environments of what these two were played with

Twenty runs and trainings of all kinds are played, moved to another folder, and reproduced. Then a thing is changed in
twenty copies, one in each: the version or a file of a plugin, a seed, a setting, an episode, the lock's numpy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, tell

POLICY = """
from agentfw import Component, hookimpl
from agentfw.policy import Policy
from agentfw.request import Generation


class Terse(Policy):
    version = "1"

    async def generate(self, request):
        return Generation(text="{text}")


@hookimpl
def agentfw_policies():
    return [Component("terse", "agentfw_terse:Terse", "Says one thing")]
"""
TOOL = '''
from agentfw.tool import tool


@tool
def note(text: str) -> str:
    """Note a text."""
    return "noted"
'''
SMALL = ("--updates", "1", "--set", "tasks=1", "--set", "samples=2", "--set", "evaluation.tasks=1")
CALENDAR = ("--set", "environment.rounds=8")
IMITATES = ("--teacher", "linear", "--optimizer", "imitation", "--learner", "sft")
KINDS: dict[str, tuple[str, ...]] = {
    "inbox": ("run", "inbox", "--episodes", "3"),
    "inbox, step loop": ("run", "inbox", "--episodes", "2", "--interface", "step_loop"),
    "inbox, polling": ("run", "inbox", "--episodes", "2", "--interface", "polling:30"),
    "inbox, reflex": ("run", "inbox", "--episodes", "2", "--interface", "reflex"),
    "inbox, samples": ("run", "inbox", "--episodes", "2", "--set", "samples=3"),
    "inbox, one-file tool": ("run", "inbox", "--episodes", "2", "--tool", "./note.py"),
    "inbox, plugin": ("run", "inbox", "--episodes", "2", "--policy", "terse"),
    "inbox, random": ("run", "inbox", "--episodes", "2", "--policy", "random"),
    "calendar": ("run", "calendar", "--episodes", "2", *CALENDAR),
    "calendar, no memory": ("run", "calendar", "--episodes", "1", *CALENDAR, "--set", "memories=[]"),
    "calendar, skill graph": ("run", "calendar", "--episodes", "1", *CALENDAR, "--memory", "skillgraph"),
    "gymnasium": ("run", "gymnasium", "--policy", "random", "--episodes", "2", "--set", "environment.id=CartPole-v1"),
    "deliberation": ("run", "deliberation", "--episodes", "2"),
    "patrol": ("run", "patrol", "--episodes", "2"),
    "kitchen": ("run", "kitchen", "--episodes", "2"),
    "assistant": ("run", "assistant", "--episodes", "4", "--set", "environment.test_users=2"),
    "merchant": ("run", "merchant", "--episodes", "4", "--set", "environment.test_merchants=2"),
    "proactive": ("run", "proactive", "--episodes", "2"),
    "training, calendar": ("train", "calendar", *SMALL, *CALENDAR),
    "training, imitation": ("train", "calendar", *SMALL, *CALENDAR, *IMITATES),
}
"""The command of each run, played in a folder that has `note.py` and where the plugin `agentfw-terse` is installed."""


def install_terse(site: Path, text: str, version: str = "1.0") -> None:
    """The plugin, put by hand into a folder of the path."""
    shutil.rmtree(site, ignore_errors=True)
    info = site / f"agentfw_terse-{version}.dist-info"
    info.mkdir(parents=True)
    (site / "agentfw_terse.py").write_text(POLICY.format(text=text), "utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: agentfw-terse\nVersion: {version}\n", "utf-8")
    (info / "entry_points.txt").write_text("[agentfw]\nterse = agentfw_terse\n", "utf-8")


def call(words: tuple[str, ...], folder: Path) -> tuple[int, Any, str]:
    """What `agentfw WORD... --json` ends with."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "agentfw", *words, "--json", "--quiet"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {}, done.stderr


def edit(file: Path, change: Callable[[Any], None]) -> None:
    values = json.loads(file.read_text("utf-8"))
    change(values)
    file.write_text(json.dumps(values), "utf-8")


def recorded(change: Callable[[Any], None]) -> Callable[[Path, Path], None]:
    """Change the record of the first episode."""

    def first_line(run: Path, folder: Path) -> None:
        lines = (run / "episodes.jsonl").read_text("utf-8").splitlines()
        record = json.loads(lines[0])
        change(record)
        (run / "episodes.jsonl").write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n", "utf-8")

    return first_line


def locked(name: str, **values: str) -> Callable[[Path, Path], None]:
    return lambda run, folder: edit(
        run / "package" / "lock.json", lambda lock: lock["distributions"][name].update(values)
    )


def spec(path: str, value: object) -> Callable[[Path, Path], None]:
    *parents, last = path.split(".")
    return lambda run, folder: edit(
        run / "run.json", lambda about: reduce(getitem, parents, about).update({last: value})
    )


def machine(**values: str) -> Callable[[Path, Path], None]:
    return lambda run, folder: edit(run / "package" / "lock.json", lambda lock: lock.update(values))


def plugin(text: str, version: str) -> Callable[[Path, Path], None]:
    return lambda run, folder: install_terse(folder / "site", text, version)


CHANGES: tuple[tuple[str, str, Callable[[Path, Path], None], str], ...] = (
    ("a plugin's file", "inbox, plugin", plugin("Something else.", "1.0"), "agentfw-terse 1.0 has other files"),
    ("a plugin's version", "inbox, plugin", plugin("Yes.", "1.1"), "agentfw-terse was 1.0, and is 1.1"),
    ("a plugin that is gone", "inbox, plugin", lambda run, folder: shutil.rmtree(folder / "site"), "terse"),
    ("the version of numpy", "inbox", locked("numpy", version="1.26.4"), "numpy was 1.26.4"),
    ("the files of numpy", "inbox, random", locked("numpy", digest="0" * 32), "numpy"),
    ("the version of pydantic", "patrol", locked("pydantic", version="2.8.0"), "pydantic was 2.8.0"),
    ("agentfw's files", "calendar", locked("agentfw", digest="0" * 32), "agentfw"),
    ("the papers' files", "kitchen", locked("agentfw-papers", digest="0" * 32), "agentfw-papers"),
    ("Python", "assistant", machine(python="3.10.1"), "Python was 3.10.1"),
    ("the processor", "merchant", machine(processor="Pentium"), "the processor was Pentium"),
    ("the seed", "inbox", spec("spec.seed", 8), "episode 00000-0"),
    ("the seed of a training", "training, calendar", spec("spec.seed", 8), "evaluation 0, episode"),
    ("a setting of the world", "inbox", spec("spec.environment.settings", {"rate": 0.9}), "episode 00000-0"),
    ("the interface", "inbox", spec("spec.interface", "step_loop"), "episode 00000-0"),
    ("the rounds", "calendar", spec("spec.environment.settings.rounds", 4), "episode 00000-0"),
    ("the policy", "inbox", spec("spec.policy", {"name": "random", "settings": {}}), "episode 00000-0"),
    ("a recorded utility", "patrol", recorded(lambda line: line.update(utility=9.5)), "utility"),
    ("a recorded event", "kitchen", recorded(lambda line: line["events"].pop()), "events"),
    ("a recorded turn", "deliberation", recorded(lambda line: line["turns"].pop()), "turns"),
    ("a lost episode", "proactive", lambda run, folder: shutil.rmtree(run / "package"), "has no package"),
)
"""What is changed, in which run, how, and what must be said then."""


def measure(kinds: Sequence[str], *, env: bool) -> dict[str, Any]:
    """Reproduce these kinds, and all changes of them."""
    equal, named, failures, seconds = 0, 0, list[str](), list[float]()
    with tempfile.TemporaryDirectory() as name:
        folder, copies = Path(name), dict[str, Path]()
        (folder / "note.py").write_text(TOOL, "utf-8")
        install_terse(folder / "site", "Yes.")
        for kind in kinds:
            code, played, told = call(KINDS[kind], folder)
            if code:
                raise SystemExit(f"{kind} ended with {code}:\n{told}")
            copies[kind] = folder / "elsewhere" / Path(played["folder"]).name
            shutil.move(played["folder"], copies[kind])
            began = time.monotonic()
            code, found, told = call(("reproduce", str(copies[kind]), *["--env"] * env), folder)
            seconds.append(round(time.monotonic() - began, 1))
            equal += code == 0
            failures += [f"{kind}: {found.get('first_difference') or told[-300:]}"] if code else []
        tried = [change for change in CHANGES if change[1] in copies]
        for what, kind, change, wanted in tried:
            install_terse(folder / "site", "Yes.")
            run = folder / "changed" / copies[kind].name
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(copies[kind], run)
            change(run, folder)
            _, found, told = call(("reproduce", str(run)), folder)
            said = " ".join([told, str(found.get("first_difference")), *found.get("installation", ())])
            named += wanted in said
            failures += [] if wanted in said else [f"{what} isn't named: {said[-300:]}"]
    counts = {"equal": equal, "runs": len(copies), "named": named, "changes": len(tried)}
    return {**counts, "seconds": seconds, "failures": failures}


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        env=(False, "play again in environments of what the runs were played with"),
        kinds=(list(KINDS), "which of the runs"),
    ).parse_args(arguments)
    return tell(measure(options.kinds, env=options.env), options.json)


if __name__ == "__main__":
    main()
