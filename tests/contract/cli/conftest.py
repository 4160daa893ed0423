"""The command, called in this process, and pages of the viewer; the plugin agentfw-laboratory is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import agentfw, install, quick

from agentfw.testing import fresh_host

__all__ = ["agentfw", "install", "quick"]


@pytest.fixture
def later() -> Callable[[], None]:
    """Files of plugins are read once by a process. After this call they are read again, as a later process does."""
    from agentfw.runs.records.package import digest_of_files, origin_of

    def forget() -> None:
        origin_of.cache_clear()
        digest_of_files.cache_clear()

    return forget


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
