"""The pytest side: a host for each test, with nothing of the machine in it.

This is the only module of `agentfw.testing` that imports pytest.

    # conftest.py
    pytest_plugins = ["agentfw.testing.fixtures"]

    def test_notebook(agentfw_host):
        host = agentfw_host("my_plugin.plugin")
        assert host.create("memory", "notebook", {"limit": 3}).limit == 3
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ..host import Host
from .contracts import fresh_host

__all__ = ["agentfw_host"]


@pytest.fixture
def agentfw_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """`fresh_host`, in an empty working folder and without the environment variables of agentfw."""
    for name in [name for name in os.environ if name.startswith("AGENTFW_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return fresh_host
