"""Trainings of the laboratory in this process, for tests that don't kill anybody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentfw.runs.observers import Observer
from agentfw.runs.records.folder import RunFolder
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw_laboratory.playing import host

_TIMES = ("seconds", "speed")


def spec(**values: Any) -> dict[str, Any]:
    """A training on the bandit that takes no time."""
    return {
        "environment": "bandit",
        "policy": "biased",
        "optimizer": "centred",
        "learner": "bias",
        "updates": 4,
        "tasks": 3,
        "samples": 4,
        "evaluation": {"every": 2, "tasks": 6},
        **values,
    }


def create(root: Path, **values: Any) -> Run:
    return Run.create(parse_spec(spec(**values)), host(), root)


def train(root: Path, observer: Observer | None = None, **values: Any) -> Run:
    """A training that is done."""
    training = create(root, **values)
    asyncio.run(training.execute(observer))
    return training


def resume(folder: RunFolder) -> Run:
    """Resume a training, as another process would."""
    training = Run.open(RunFolder.open(folder.path), host())
    asyncio.run(training.execute())
    return training


def left(folder: RunFolder) -> dict[str, Any]:
    """All that must be the same for the same seed: episodes, scores, figures, and every byte of the versions."""
    numbers = range(1, folder.total + 1)
    parts = {f"rollouts {number}": folder.rollouts(number) for number in numbers}
    parts |= {f"evaluation {number}": records for number, records in folder.evaluations().items()}
    found: dict[str, Any] = {
        name: ({episode.id: episode.to_record() for episode in records.episodes()}, records.metrics())
        for name, records in parts.items()
    }
    found["updates"] = [
        {
            **{part: some for part, some in line.items() if part not in _TIMES},
            "served": {name: value for name, value in line["served"].items() if name != "publish_seconds"},
        }
        for line in folder.updates()
    ]
    home = folder.path / "learner"
    found["versions"] = {str(file.relative_to(home)): file.read_bytes() for file in home.rglob("*") if file.is_file()}
    return found
