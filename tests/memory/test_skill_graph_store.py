"""Every store that ships passes the contract of stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw_memory.testing import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> Callable[[str], str]:
        return lambda place: str(tmp_path / f"{place}.db")


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def address(self, postgres_database: Callable[[str], str]) -> Callable[[str], str]:
        return postgres_database


class TestDuckdbStore(StoreContract):
    writes_while_read = False

    @pytest.fixture
    def address(self, tmp_path: Path) -> Callable[[str], str]:
        pytest.importorskip("duckdb")
        return lambda place: f"duckdb://{tmp_path}/{place}.duckdb"
