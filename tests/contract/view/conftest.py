"""What was recorded, as `agentfw view` shows it: `view_of` serves the pages of a directory of runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from view_pages import viewed

from agentfw_cli.main import main

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def view_of() -> Iterator[Callable[[Path], str]]:
    """Serves the pages of a directory of runs. Gives their address."""
    with ExitStack() as stack:
        yield lambda runs: stack.enter_context(viewed(runs))


@pytest.fixture
def agentfw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Calls `agentfw WORD... --json` in a folder of the test's own. Returns the JSON value."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Any:
        with redirect_stdout(StringIO()) as out, pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        assert ended.value.code == 0
        return json.loads(out.getvalue())

    return call
