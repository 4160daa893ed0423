"""What was recorded, as `agentfw view` shows it: `view_of` serves the pages of a directory of runs.

This is the only module of these tests that imports more than the documented API.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from agentfw.testing import fresh_host
from agentfw_cli.main import main

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("jinja2")

from agentfw_plugins.gateway.server import serving
from agentfw_plugins.view.app import Viewer
from agentfw_plugins.view.index import Index


@contextmanager
def _viewed(runs: Path) -> Iterator[str]:
    address, ready, stop = list[str](), threading.Event(), list[Callable[[], object]]()

    async def serve() -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        index = Index(runs)
        index.refresh()
        async with serving(Viewer(index, fresh_host(builtins=True)).app, "127.0.0.1", 0) as url:
            address.append(url)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield address[0]
    finally:
        stop[0]()
        thread.join()


@pytest.fixture(scope="module")
def view_of() -> Iterator[Callable[[Path], str]]:
    """Serves the pages of a directory of runs. Gives their address."""
    with ExitStack() as stack:
        yield lambda runs: stack.enter_context(_viewed(runs))


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
