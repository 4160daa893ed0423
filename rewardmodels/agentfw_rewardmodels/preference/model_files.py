"""Writes and reads the files of a model: safetensors for arrays, JSON for the rest.

    model.json                format and version, settings, encoder, names of users and items, facts, history
    arrays-HASH.safetensors   the arrays; HASH is a hash of their content, and model.json names the file

The arrays are written first, and model.json is renamed into place last, so a reader sees the complete old model or the
complete new one. Everything is checked before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_rewardmodels.errors import FileRefusedError, MissingExtraError, StorageError
from agentfw_rewardmodels.private_file import make_private

__all__ = ["read_arrays", "read_model", "write_arrays", "write_model"]

FORMAT, VERSION = "agentfw preference model", 2
DESCRIPTION = "model.json"
REPAIR = "save the model again, or fit a new one"


def write_model(folder: Path, arrays: dict[str, Any], description: dict[str, Any]) -> None:
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    name = f"arrays-{digest.hexdigest()}.safetensors"
    write_arrays(folder / name, arrays, {})
    text = json.dumps({"format": FORMAT, "version": VERSION, "arrays": name, **description})
    with _replacing(folder / DESCRIPTION) as new:
        new.write_text(text, "ascii")
    for old in folder.glob("arrays-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def read_model(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arrays and description, checked for format, version and NaN."""
    path = folder / DESCRIPTION
    try:
        description: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileRefusedError(
            f"{folder} contains no preference model", fix="pass the folder that the model was saved to"
        ) from None
    except (OSError, ValueError) as error:
        raise FileRefusedError(f"{path} can't be read: {error}", fix=REPAIR) from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise FileRefusedError(f"{path} is not a preference model", fix="pass the folder that the model was saved to")
    if description.get("version") != VERSION:
        raise FileRefusedError(
            f"{path} has format {description.get('version')}; this version of agentfw reads {VERSION}",
            fix="use the version of agentfw that wrote it, or fit a new model",
        )
    arrays, _ = read_arrays(folder / str(description.get("arrays")))
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FileRefusedError(f"{folder} contains NaN or infinity in {name}", fix=REPAIR)
    return arrays, description


def write_arrays(path: Path, arrays: dict[str, Any], metadata: dict[str, str]) -> None:
    save_file, _ = _safetensors()
    with _replacing(path) as new:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, new, metadata)


def read_arrays(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    _, open_file = _safetensors()
    try:
        with open_file(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except Exception as error:  # its error class derives from Exception only
        raise FileRefusedError(f"{path} can't be read: {error}", fix=REPAIR) from error


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a new file that replaces `path` at the end of the block, after it was flushed to disk."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make_private(new)
        yield new
        with new.open("rb+") as written:
            os.fsync(written.fileno())
        new.replace(path)
    except OSError as error:
        raise StorageError(
            f"{path} can't be written: {error}", fix="free some space, or choose another folder"
        ) from error
    finally:
        new.unlink(missing_ok=True)


def _safetensors() -> tuple[Any, Any]:
    try:
        from safetensors import safe_open
        from safetensors.numpy import save_file
    except ImportError:
        raise MissingExtraError("saving and loading a preference model", "rewardmodels", module="safetensors") from None
    return save_file, safe_open
