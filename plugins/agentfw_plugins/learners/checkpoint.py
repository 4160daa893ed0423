"""What a learner leaves on disk, and takes back.

The one rule: a checkpoint is whole or not there. It is written beside its place, forced to the disk and renamed; so a
learner that was killed finds the last whole one, and what was begun after it is simply begun again.

    learner.json            which update this is, how many steps were taken, and the optimizer's plain values
    optimizer.safetensors   the optimizer's tensors
    adapter/                a PEFT folder (or, where every weight is trained, a model folder), with agentfw.json,
                            which says of which base it is
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfw.errors import SettingsError, StorageError, UsageError

if TYPE_CHECKING:
    import torch

__all__ = [
    "fingerprint",
    "load_optimizer",
    "place_optimizer",
    "require_base",
    "require_new",
    "save_optimizer",
    "write_folder",
    "write_json",
]

_SAMPLE = 1 << 20


def fingerprint(folder: Path, seed: int) -> str:
    """Which base this is: its shape, and the first and last of its weights; where they are drawn, of which seed."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    files = sorted(folder.glob("*.safetensors"))
    for path in files:
        size = path.stat().st_size
        with path.open("rb") as handle:
            digest.update(f"{path.name} {size}".encode() + handle.read(_SAMPLE))
            handle.seek(max(0, size - _SAMPLE))
            digest.update(handle.read(_SAMPLE))
    if not files:
        digest.update(f"drawn {seed}".encode())
    return digest.hexdigest()[:32]


def require_base(adapter: Path, base: str, model: str) -> None:
    """Refuse an adapter of another base. One that wasn't made here says nothing, and only its shapes are checked."""
    note = adapter / "agentfw.json"
    if note.is_file() and (found := json.loads(note.read_text("utf-8"))["base"]) != base:
        raise SettingsError(
            f"the adapter {adapter} was trained on another base than {model} ({found[:8]}, not {base[:8]})",
            fix="set learner.model to the base that it was trained on, or begin without it",
        )


def require_new(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is there already, and nothing is overwritten", fix="update into a new folder")


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Make a folder and all that `write` puts into it appear at once."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        for path in [*unfinished.rglob("*"), unfinished]:
            _sync(path)
        unfinished.replace(folder)
        _sync(folder.parent)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise StorageError(
            f"can't write {folder}: {error.strerror or error}",
            fix="make room on the disk, and make the folder writable",
        ) from error


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values) + "\n", "utf-8")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> dict[str, Any]:
    """Write the tensors of an optimizer's state; what is no tensor comes back, as JSON."""
    from safetensors.torch import save_file

    tensors: dict[str, torch.Tensor] = {}
    plain: dict[str, Any] = {}
    for index, parameter in enumerate(_parameters(optimizer)):
        for key, value in optimizer.state[parameter].items():
            if hasattr(value, "detach"):
                # Parameters may share a tensor (the maps of 8-bit AdamW): a file wants each by itself.
                tensors[f"{index}.{key}"] = value.detach().cpu().clone().contiguous()
            else:
                plain[f"{index}.{key}"] = value
    save_file(tensors, folder / "optimizer.safetensors")
    return plain


def load_optimizer(optimizer: torch.optim.Optimizer, folder: Path, plain: Mapping[str, Any]) -> None:
    from safetensors.torch import load_file

    parameters = _parameters(optimizer)
    optimizer.state.clear()
    for name, value in (load_file(folder / "optimizer.safetensors") | dict(plain)).items():
        index, _, key = name.partition(".")
        parameter = parameters[int(index)]
        optimizer.state[parameter][key] = value
    place_optimizer(optimizer)


def place_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Move the tensors of an optimizer's state to where their parameters are."""
    for parameter in _parameters(optimizer):
        for key, value in optimizer.state[parameter].items():
            # AdamW counts its steps on the CPU, wherever the parameter is.
            if key != "step" and hasattr(value, "detach"):
                optimizer.state[parameter][key] = value.to(parameter.device)


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
