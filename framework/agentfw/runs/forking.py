"""Begins a new training from the last complete update of another, in a folder of its own.

The fork has what the other training has up to there: rollouts, evaluations, versions, and the state of learner and
optimizer. What memories have learned is not copied. They learn the rollouts again, as in any resumed training, so they
know what they knew after that update, and nothing of what the other training played later.

    folder = forked(find_run(Path("runs"), "7f3a"), Path("runs"), about)
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import StorageError, UsageError
from .records.figures import sync
from .records.folder import RunFolder
from .records.training_state import State

__all__ = ["discard_unused", "forked"]


def forked(folder: RunFolder, root: Path, about: Mapping[str, Any]) -> RunFolder:
    """A new folder with the training as it was after its last complete update, and `about` as its run.json."""
    folder.lock()
    try:
        state = State.read(folder.path)
        if not state.update:
            raise UsageError(
                f"{folder.id} has no complete update that a fork could begin from", fix="start a new training"
            )
        if state.update >= about["updates"]:
            raise UsageError(
                f"{folder.id} has made all of its {state.update} updates, so a fork would have nothing to do",
                fix=f"raise their number: --set updates={state.update + 10}",
            )
        known = {key: value for key, value in about.items() if key not in ("format", "created", "python")}
        origin = {"forked_from": {"run": folder.id, "update": state.update}}
        environment = str(about["spec"]["environment"]["name"])
        return RunFolder.create(root, environment, {**known, **origin}, lambda path: _copy(folder, state, path))
    finally:
        folder.unlock()


def discard_unused(folder: RunFolder) -> None:
    """Remove a fork whose first execution was refused: its settings don't fit the state, and nothing was played."""
    if not folder.rollouts(folder.about["forked_from"]["update"] + 1).path.exists():
        shutil.rmtree(folder.path)


def _copy(folder: RunFolder, state: State, path: Path) -> None:
    evaluations = [records.path for number, records in folder.evaluations().items() if number <= state.update]
    rollouts = [folder.rollouts(number).path for number in range(1, state.update + 1)]
    learner = [file for file in (folder.path / "learner").iterdir() if _is_known(file, state)]
    files = [folder.path / name for name in ("state.json", "updates.jsonl")]
    try:
        for source in [*files, *evaluations, *rollouts, *learner]:
            target = path / source.relative_to(folder.path)
            target.parent.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.exists():
                shutil.copyfile(source, target)
        sync(path)
    except OSError as error:
        raise StorageError(f"can't copy {folder.path}: {error.strerror or error}", fix="free disk space") from error


def _is_known(file: Path, state: State) -> bool:
    """Whether a file of the learner was there after the update, as far as names tell."""
    number, _, rest = file.name.partition(".")
    return not number.isdigit() or (not rest and int(number) <= state.update)
