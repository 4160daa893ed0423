"""A pytest plugin that puts the skill graph in the place of LangGraph's own stores, for LangGraph's own tests.

`langgraph.store.memory.InMemoryStore` and the stores of `langgraph.store.sqlite` become `SkillGraphStore`. Private
helpers that those tests import are there as None, so that only the tests of these helpers fail. The plugin also
writes how each test ended to the file in SUITE_RESULTS.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import langgraph.store.memory
import pytest

from agentfw_memory import SkillGraph
from agentfw_memory.adapters.langgraph import SkillGraphStore


class SuiteStore(SkillGraphStore):
    """Our store with the constructors and the housekeeping of theirs. Expired items need no sweeping here."""

    MIGRATIONS = ()

    def __init__(self, *, index: Mapping[str, Any] | None = None, ttl: Any = None, where: str | Path = "") -> None:
        embeddings: Any = (index or {}).get("embed")
        self.index_config, self.embeddings = index, embeddings
        wanted = (index or {}).get("text_fields") or (index or {}).get("fields")
        embedder = (lambda texts: embeddings.embed_documents(list(texts))) if index else "hash"
        # The tests make an empty file first, or none.
        graph = SkillGraph.open(where or ":memory:", tenant="suite", embedder=embedder)
        super().__init__(graph, fields=wanted, ttl=ttl)
        self._known = 0

    @classmethod
    @contextmanager
    def from_conn_string(cls, where: str, **settings: Any) -> Iterator[SuiteStore]:
        store = cls(where=where, **settings)
        with store._graph:
            yield store

    def setup(self) -> None: ...

    def start_ttl_sweeper(self) -> None: ...

    def stop_ttl_sweeper(self) -> bool:
        return True

    def sweep_ttl(self) -> int:
        before, self._known = self._known, self._graph.admin.stats().past_versions
        return self._known - before


class AsyncSuiteStore(SuiteStore):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, where: str, **settings: Any
    ) -> AsyncIterator[AsyncSuiteStore]:
        store = cls(where=where, **settings)
        with store._graph:
            yield store

    async def setup(self) -> None: ...  # type: ignore[override]

    async def start_ttl_sweeper(self) -> None: ...  # type: ignore[override]

    async def stop_ttl_sweeper(self) -> bool:  # type: ignore[override]
        return True

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        return super().sweep_ttl()


HELPERS = (
    "NS_MATCH_FUNCTION",
    "BaseSqliteStore",
    "SqliteIndexConfig",
    "_escape_glob_literal",
    "_namespace_match_pattern",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flaky: a test that its authors repeat")
    langgraph.store.memory.InMemoryStore = SuiteStore
    for name in ("langgraph.store.sqlite", "langgraph.store.sqlite.base", "langgraph.store.sqlite.aio"):
        module: Any = ModuleType(name)
        module.SqliteStore, module.AsyncSqliteStore = SuiteStore, AsyncSuiteStore
        for helper in HELPERS:
            setattr(module, helper, None)
        sys.modules[name] = module


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        reason = str(getattr(report.longrepr, "reprcrash", None) or "").split(": ", 1)[-1].splitlines()[:1]
        line = {"test": report.nodeid, "outcome": report.outcome, "reason": "".join(reason)}
        with Path(os.environ["SUITE_RESULTS"]).open("a") as file:
            file.write(json.dumps(line) + "\n")
