"""What the contract tests of the reward models share: the numbers of a fitted model, read from its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agentfw_rewardmodels import PreferenceModel

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class ModelView:
    """The parameters of a model before any formula was applied."""

    users: Rows
    """Embeddings before the propagation, one row a user."""
    items: Rows
    likes: NDArray[np.int64]
    """Two rows: indexes of users, and of the items that they like."""
    texts: Rows
    weights: dict[str, Rows]


@pytest.fixture
def view_of(tmp_path: Path) -> Callable[[PreferenceModel], ModelView]:
    """Save a model, and read its arrays. The names of the arrays stand here and in no test."""
    safetensors = pytest.importorskip("safetensors.numpy")

    def view(model: PreferenceModel) -> ModelView:
        folder = tmp_path / "viewed"
        model.save(folder)
        (file,) = folder.glob("*.safetensors")
        arrays: dict[str, Any] = safetensors.load_file(file)
        weights = {
            name.removeprefix("weights."): rows.astype(np.float64)
            for name, rows in arrays.items()
            if name.startswith("weights.")
        }
        return ModelView(
            arrays["own_users"].astype(np.float64),
            arrays["own_items"].astype(np.float64),
            arrays["likes"],
            arrays["texts"].astype(np.float64),
            weights,
        )

    return view
