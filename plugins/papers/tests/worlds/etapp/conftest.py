"""One folder in the form of ETAPP, for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .copies import write_copy


@pytest.fixture(scope="session")
def copy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_copy(tmp_path_factory.mktemp("etapp"))
