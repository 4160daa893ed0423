"""Runs of the laboratory in this process, for tests that don't kill anybody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentfw.host import Host, HostOptions
from agentfw.runs.observers import Observer
from agentfw.runs.records.folder import RunFolder
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec


def host() -> Host:
    """All that is installed, whatever the environment variables say."""
    return Host.load(HostOptions())


def create(root: Path, **values: Any) -> Run:
    """A run of the guessing game that has not begun; `values` are those of a spec."""
    whole = {"environment": "guessing", "policy": "hashing", "episodes": 4, "concurrency": 2, **values}
    return Run.create(parse_spec(whole), host(), root)


def play(root: Path, observer: Observer | None = None, **values: Any) -> Run:
    """A run that is done."""
    run = create(root, **values)
    asyncio.run(run.execute(observer))
    return run


def resume(folder: RunFolder) -> Run:
    """Go on with a run, as another process would."""
    run = Run.open(RunFolder.open(folder.path), host())
    asyncio.run(run.execute())
    return run


def records(folder: RunFolder) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All that a run has written down: what must be the same for the same seed."""
    return {episode.id: episode.to_record() for episode in folder.episodes()}, folder.metrics()
