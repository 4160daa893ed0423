"""What a learner leaves on disk: checkpoints and adapters, how they are written, and which model they belong to.

A checkpoint is complete or doesn't exist. It is written to a temporary folder, flushed to disk and renamed. So after a
kill, a learner finds the last complete checkpoint and repeats the interrupted update.

    learner.json            number of the update, number of steps, the kind of optimizer, and its plain values
    optimizer.safetensors   the tensors of the optimizer
    adapter/                a PEFT folder (or a model folder if all weights are trained), with agentfw.json, which
                            identifies the base

Whether an adapter fits a model is checked from the files alone, before anything is loaded, because some engines accept
an adapter of another model without an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Self

from safetensors import SafetensorError, safe_open

from agentfw.errors import SettingsError, StorageError, UsageError, disk_fix

OWN_CODE: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""What every `from_pretrained` of transformers is given: else it asks, and `y` runs the code in the folder."""
TWICE = "consolidated*"  # the same weights in Mistral's own form, which transformers leaves alone
_SAMPLE = 1 << 20


def ends_of(path: Path) -> bytes:
    """The start and the end of a file, which tell it from others of its size."""
    with path.open("rb") as file:
        start = file.read(_SAMPLE)
        file.seek(max(0, path.stat().st_size - _SAMPLE))
        return start + file.read(_SAMPLE)


def fingerprint(folder: Path, seed: int) -> str:
    """Fingerprint of the base: its shape, and the start and end of its weights. For random weights, their seed."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    files = sorted(folder.glob("*.safetensors"))
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size}".encode() + ends_of(path))
    if not files:
        digest.update(f"drawn {seed}".encode())
    return digest.hexdigest()[:32]


def require_base(adapter: Path, base: str, model: str) -> None:
    """Refuse an adapter of another base. Adapters made elsewhere don't name it, so only their shapes are checked."""
    note = adapter / "agentfw.json"
    if note.is_file() and (found := json.loads(note.read_text("utf-8")).get("base", base)) != base:
        wrong = f"the adapter {adapter} was trained on another base than {model} ({found[:8]}, not {base[:8]})"
        raise SettingsError(wrong, fix="set the model to the base that it was trained on, or start without the adapter")


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
        why = getattr(error, "strerror", "") or error
        raise StorageError(f"can't write {folder}: {why}", fix=disk_fix(error)) from error
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


_TENSOR = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")


class Start(NamedTuple):
    """What a policy answers with before anything is published: an adapter, or weights of a model's shape."""

    folder: Path
    version: str

    @classmethod
    def at(cls, adapter: str, model: Path) -> Self:
        folder = Path(adapter).expanduser().resolve()
        if (folder / "adapter_config.json").is_file():
            check_adapter(folder, model)
            require_base(folder, fingerprint(model, 0), str(model))
        elif not (folder / "config.json").is_file():
            raise SettingsError(
                f"{adapter} is no adapter: it has no adapter_config.json",
                fix="use an adapter folder in the PEFT format, such as RUN/learner/00020/adapter",
            )
        return cls(folder, version_name(folder))


def version_name(folder: Path) -> str:
    """The name of a version: what agentfw.json says, or that of its folder where it is of no training."""
    note = folder / "agentfw.json"
    return str(json.loads(note.read_text("utf-8"))["version"]) if note.is_file() else folder.name


def check_adapter(adapter: Path, model: Path) -> None:
    """Raise a SettingsError if a LoRA adapter changes modules that the model lacks, or that have another size."""
    shapes: dict[str, list[int]] = {}
    for path in sorted(model.glob("*.safetensors")):
        shapes |= _shapes(path)
    for name, shape in _shapes(adapter / "adapter_model.safetensors").items():
        found = _TENSOR.fullmatch(name)
        if found is None or (found["module"] == "lm_head" and "lm_head.weight" not in shapes):
            continue  # a tied head has no weights of its own
        side = 1 if found["side"] == "A" else 0  # A has the module's input size, B its output size
        weight = shapes.get(f"{found['module']}.weight")
        if weight is None or weight[side] != shape[side]:
            has = f"is {weight}" if weight is not None else "isn't there"
            raise SettingsError(
                f"the adapter {adapter} doesn't fit the model {model}: "
                f"it has {shape} for {found['module']}, which {has}",
                fix="use the model that it was trained on",
            )


def count_weights(model: Path) -> int:
    files = [path for path in model.glob("*.safetensors") if not path.match(TWICE)]
    return sum(prod(shape) for path in files for shape in _shapes(path).values())


def _shapes(path: Path) -> dict[str, list[int]]:
    """The shape of each tensor in a file, from its header."""
    try:
        with safe_open(path, "numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 - it is no mapping
    except (OSError, SafetensorError) as error:
        raise SettingsError(
            f"{path} can't be read as safetensors: {error}", fix="the file may be incomplete; copy or save it again"
        ) from error


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)}


def write_files(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def marks_of(folder: Path) -> list[list[object]]:
    """Name, size and time of each file: whoever sees the same marks sees the same files."""
    readable = [path for path in _files(folder) if os.access(path, os.R_OK)]
    found = [(path.relative_to(folder).as_posix(), path.stat()) for path in readable]
    return [[name, about.st_size, about.st_mtime_ns] for name, about in found]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
