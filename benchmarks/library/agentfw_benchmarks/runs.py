"""Runs and trainings that a program plays or goes on with, and what reference players would get."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from agentfw import Host, Run, Task
from agentfw.runs import RunFolder, parse_spec, read_spec


def spec_named(host: Host, name: str, **changes: Any) -> dict[str, Any]:
    """A spec that ships, with these keys changed."""
    return {**read_spec(Path(host.find_spec(name).path)), **changes}


def played(spec: Mapping[str, Any], host: Host, root: Path) -> RunFolder:
    """The folder of a finished run or training. The one below `root` goes on; without one, it begins there.

    A training goes on also if the spec now asks for more updates.
    """
    if known := runs_below(root):
        updates = max(spec.get("updates", 0), known[0].planned_updates)
        run = Run.open(known[0], host, {"updates": updates} if updates > known[0].planned_updates else {})
    else:
        run = Run.create(parse_spec(dict(spec)), host, root)
    asyncio.run(run.execute())
    return run.folder


def train(job: tuple[Any, ...], spec_of: Callable[..., dict[str, Any]], folder_of: Callable[..., Path]) -> None:
    """One training on one thread, from its beginning or from where it was broken off."""
    import torch

    torch.set_num_threads(1)
    host = Host.load()
    played(spec_of(*job, host), host, folder_of(*job))


def runs_below(root: Path) -> list[RunFolder]:
    """The runs whose folders are in this one."""
    return [RunFolder.open(about.parent) for about in sorted(root.glob("*/run.json"))]


def once(file: Path, find: Callable[[], Any]) -> Any:
    """What is in this JSON file; else find it, and keep it there for when the same command is called again."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(find()), "utf-8")
    return json.loads(file.read_text("utf-8"))


class Compared(Protocol):
    """A world that says what reference players would get for a task."""

    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]: ...


def outcomes_of_references(world: Compared, tasks: Iterable[Task]) -> dict[str, list[Mapping[str, float]]]:
    """What each reference player gets, task by task."""
    found: dict[str, list[Mapping[str, float]]] = {}
    for task in tasks:
        for player, outcome in world.references(task).items():
            found.setdefault(player, []).append(outcome)
    return found
