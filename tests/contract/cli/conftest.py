"""The command, called in this process, and pages of the viewer; the plugin agentfw-laboratory is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw, agentfw, chat, install, quick

from agentfw.testing import fresh_host

__all__ = ["agentfw", "chat", "install", "quick"]


@pytest.fixture
def later() -> Callable[[], None]:
    """Files of plugins are read once by a process. After this call they are read again, as a later process does."""
    from agentfw.runs.records.package import digest_of_files, origin_of

    def forget() -> None:
        origin_of.cache_clear()
        digest_of_files.cache_clear()

    return forget


@pytest.fixture
def nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests write is trusted everywhere else."""
    monkeypatch.delenv("AGENTFW_TRUST")


@pytest.fixture
def spec_of(agentfw: Agentfw) -> Callable[..., Any]:
    """The resolved spec of the run or the training that these words make."""

    def resolved(*words: str) -> Any:
        run = agentfw(*words, "--json").ok.json["folder"]
        return agentfw("runs", "show", run, "--json").json["about"]["spec"]

    return resolved


@pytest.fixture
def view_of() -> Callable[[Path, str], str]:
    """The page at an address of `agentfw view`, for a directory of runs."""

    def page(runs: Path, address: str) -> str:
        client = pytest.importorskip("starlette.testclient")
        from agentfw_plugins.view.app import Viewer
        from agentfw_plugins.view.index import Index

        index = Index(runs)
        index.refresh()
        found: str = client.TestClient(Viewer(index, fresh_host()).app, base_url="http://localhost").get(address).text
        return found

    return page
