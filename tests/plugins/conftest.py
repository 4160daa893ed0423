"""Small language models for the tests of policies and learners; see agentfw_laboratory.models."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

_LABORATORY = Path(__file__).parents[1] / "site" / "agentfw_laboratory" / "models.py"


@pytest.fixture(scope="session")
def laboratory() -> ModuleType:
    for module in ("torch", "transformers", "peft"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    spec = importlib.util.spec_from_file_location("agentfw_laboratory_models", _LABORATORY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make_model(laboratory: ModuleType) -> Callable[..., Path]:
    return laboratory.make_model  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def make_adapter(laboratory: ModuleType) -> Callable[..., Path]:
    return laboratory.make_adapter  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def small_model(laboratory: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that every test may read."""
    return laboratory.make_model(tmp_path_factory.mktemp("model"))  # type: ignore[no-any-return]
