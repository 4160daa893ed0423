"""Checkpoints of a learner.

A checkpoint is complete or doesn't exist. It is written to a temporary folder, flushed to disk and renamed. So after a
kill, a learner finds the last complete checkpoint and repeats the interrupted update.

    learner.json            number of the update, number of steps, the kind of optimizer, and its plain values
    optimizer.safetensors   the tensors of the optimizer
    adapter/                a PEFT folder (or a model folder if all weights are trained), with agentfw.json, which
                            identifies the base
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

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
    """Fingerprint of the base: its shape, and the start and end of its weights. For random weights, their seed."""
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
    """Refuse an adapter of another base. Adapters made elsewhere don't name it, so only their shapes are checked."""
    note = adapter / "agentfw.json"
    if note.is_file() and (found := json.loads(note.read_text("utf-8")).get("base", base)) != base:
        raise SettingsError(
            f"the adapter {adapter} was trained on another base than {model} ({found[:8]}, not {base[:8]})",
            fix="set the model to the base that it was trained on, or start without the adapter",
        )


def require_new(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} already exists and is not overwritten", fix="update into a new folder")


def write_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Create a folder atomically, with everything that `write` puts into it."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        for path in [*unfinished.rglob("*"), unfinished]:
            _sync(path)
        unfinished.replace(folder)
        _sync(folder.parent)
    except (OSError, SafetensorError) as error:  # safetensors has an error of its own for a full disk
        raise StorageError(
            f"can't write {folder}: {getattr(error, 'strerror', '') or error}",
            fix="free disk space, and make the folder writable",
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values) + "\n", "utf-8")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> dict[str, Any]:
    """Write the tensors of an optimizer's state. Returns the rest as JSON."""
    from safetensors.torch import save_file

    tensors: dict[str, torch.Tensor] = {}
    plain: dict[str, Any] = {}
    for index, parameter in enumerate(_parameters(optimizer)):
        for key, value in optimizer.state[parameter].items():
            if hasattr(value, "detach"):
                # Parameters may share a tensor (the maps of 8-bit AdamW), but a file needs separate copies.
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
    """Move the tensors of an optimizer's state to the devices of their parameters."""
    for parameter in _parameters(optimizer):
        for key, value in optimizer.state[parameter].items():
            # AdamW keeps its step count on the CPU, wherever the parameter is.
            if key != "step" and hasattr(value, "detach"):
                optimizer.state[parameter][key] = value.to(parameter.device)


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
