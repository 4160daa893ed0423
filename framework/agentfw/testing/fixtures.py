"""The fixtures that tests of plugins use, which pytest finds wherever agentfw is installed.

This is the only module of `agentfw.testing` that imports pytest. What it needs besides is imported by the test that
asks for it, so that it costs other tests nothing.

    def test_notebook(agentfw_host, agentfw_runs, fake_model):
        host = agentfw_host("my_plugin.plugin", builtins=True)     # the plugin need not be installed
        fake_model.answers += ["First note."]
        model = {"policy.base_url": fake_model.url, "policy.model": "fake"}

        result = agentfw.run("inbox", policy="openai", memory="notebook", settings=model, host=host, runs=agentfw_runs)

        assert result.figures["utility"].estimate > 0
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..host import Host
    from .fake_model import FakeModel


@pytest.fixture
def agentfw_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """`agentfw.testing.fresh_host`, in an empty working folder and without the environment variables of agentfw."""
    from .contracts import fresh_host

    for name in [name for name in os.environ if name.startswith("AGENTFW_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return fresh_host


@pytest.fixture
def agentfw_runs(tmp_path: Path) -> Path:
    """An empty directory of runs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def fake_model() -> Iterator[FakeModel]:
    """A model server on this machine that gives the answers of the test: `agentfw.testing.FakeModel`."""
    from .fake_model import serve

    with serve() as model:
        yield model
