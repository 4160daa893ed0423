"""Keeps a training on disk while it runs, so that a killed one goes on.

The one rule: a checkpoint belongs to one training. It carries a fingerprint of the data and the settings, and another
training refuses it instead of going on with weights that mean something else.
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
    """One file in a folder, replaced whole after each epoch."""

    def __init__(self, folder: str | Path, mark: str) -> None:
        self._path, self._mark = Path(folder) / NAME, mark

    def write(self, arrays: dict[str, Float32Array], facts: dict[str, Any]) -> None:
        write_arrays(self._path, arrays, {"fingerprint": self._mark, "facts": json.dumps(facts)})

    def read(self) -> tuple[dict[str, Float32Array], dict[str, Any]] | None:
        """What was written last; None where nothing was."""
        if not self._path.exists():
            return None
        arrays, metadata = read_arrays(self._path)
        if metadata.get("fingerprint") != self._mark:
            raise FileRefusedError(
                f"{self._path} is the checkpoint of another training: other data, settings or encoder",
                fix="give another folder, or delete that file to begin anew",
            )
        facts: dict[str, Any] = json.loads(metadata["facts"])
        return arrays, facts

    def done(self) -> None:
        """The training is over: nothing is left to go on with."""
        self._path.unlink(missing_ok=True)


def fingerprint(data: Dataset, validation: Pairs, settings: PreferenceSettings, start: Sequence[Float32Array]) -> str:
    """The same for the same training, on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([data.users, data.items, data.view_names, settings.as_dict()]).encode())
    for array in (data.likes, validation, data.texts, data.views, *start):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
