"""Saves a training on disk while it runs, so that it can be resumed.

A checkpoint belongs to one training. It carries a fingerprint of the data and the settings, and any other training
refuses it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_rewardmodels.errors import FileRefusedError
from agentfw_rewardmodels.preference.dataset import Dataset, Pairs
from agentfw_rewardmodels.preference.encoders import Float32Array
from agentfw_rewardmodels.preference.model_files import read_arrays, write_arrays
from agentfw_rewardmodels.preference.preference_settings import PreferenceSettings

__all__ = ["Checkpoints", "fingerprint"]

NAME = "training.safetensors"


class Checkpoints:
    """One file in a folder, replaced after each epoch."""

    def __init__(self, folder: str | Path, fingerprint: str) -> None:
        self._path, self._fingerprint = Path(folder) / NAME, fingerprint

    def write(self, arrays: dict[str, Float32Array], facts: dict[str, Any]) -> None:
        write_arrays(self._path, arrays, {"fingerprint": self._fingerprint, "facts": json.dumps(facts)})

    def read(self) -> tuple[dict[str, Float32Array], dict[str, Any]] | None:
        """Return what was written last, or None."""
        if not self._path.exists():
            return None
        arrays, metadata = read_arrays(self._path)
        if metadata.get("fingerprint") != self._fingerprint:
            raise FileRefusedError(
                f"{self._path} is the checkpoint of another training: the data, settings or encoder differ",
                fix="choose another folder, or delete that file to start over",
            )
        facts: dict[str, Any] = json.loads(metadata["facts"])
        return arrays, facts

    def done(self) -> None:
        """Delete the checkpoint, because the training has finished."""
        self._path.unlink(missing_ok=True)


def fingerprint(data: Dataset, validation: Pairs, settings: PreferenceSettings, start: Sequence[Float32Array]) -> str:
    """Return a hash of a training. It is the same on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([data.users, data.items, data.view_names, settings.as_dict()]).encode())
    for array in (data.likes, validation, data.texts, data.views, *start):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
