"""Recorded runs to look at: a careful one, a careless one that came after it, and the page that shows them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentfw import Component, Intervention, Memory, Moment, Run, hookimpl
from agentfw.memory import Query, Recollection
from agentfw.runs import RunFolder, parse_spec
from agentfw.testing import fresh_host

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("jinja2")

HOST = fresh_host(builtins=True)
NOTE = "Mails of Ada come first"


class Notes(Memory):
    """Remembers one thing, for mails."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return [Recollection(NOTE, 0.75, {"because": "she is in a hurry"})] if "mail" in query.text else []


class NotesPlugin:
    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [Component("desk_notes", f"{__name__}:Notes", "Remembers one thing")]


def careful(moment: Moment) -> Iterator[Intervention]:
    """Opens each mail that has come."""
    for mail in moment.of("mail"):
        yield Intervention("open_message", {"message": mail.data["message"]})


def careless(moment: Moment) -> Iterator[Intervention]:
    """Opens a mail that never comes."""
    for _ in moment.of("mail"):
        yield Intervention("open_message", {"message": 99})


def play(runs: Path, rule: Callable[..., object] = careful, episodes: int = 2) -> RunFolder:
    values = {
        "environment": {"name": "inbox", "settings": {"horizon": 20}},
        "policy": {"name": "scripted", "settings": {"rule": f"{__name__}:{rule.__name__}"}},
        "memories": ["desk_notes"],
        "rewards": ["utility"],
        "episodes": episodes,
    }
    run = Run.create(parse_spec(values), fresh_host(NotesPlugin(), builtins=True), runs)
    asyncio.run(run.execute())
    return run.folder


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a careful run and a careless one. Tests that change it copy it."""
    runs = tmp_path_factory.mktemp("recorded") / "runs"
    for rule in (careful, careless):
        play(runs, rule)
    return runs


@contextmanager
def viewed(runs: Path, prefix: str = "", *, is_read: bool = True) -> Iterator[str]:
    """Serve the page in a thread, as a proxy does below a prefix. Gives its address."""
    from starlette.responses import PlainTextResponse

    from agentfw_plugins.serving import serving
    from agentfw_plugins.view.app import Viewer
    from agentfw_plugins.view.index import Index

    address, ready, stop = list[str](), threading.Event(), list[Callable[[], object]]()

    def run() -> None:
        async def main() -> None:
            ended, loop = asyncio.Event(), asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(ended.set))
            index = Index(runs)
            if is_read:
                index.refresh()
            viewer = Viewer(index, HOST).app

            async def below(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http" and not scope["path"].startswith(f"{prefix}/"):
                    await PlainTextResponse("outside of the prefix", 404)(scope, receive, send)
                    return
                inner = {**scope, "path": scope["path"].removeprefix(prefix)} if scope["type"] == "http" else scope
                await viewer(inner, receive, send)

            async with serving(below, "127.0.0.1", 0) as url:
                address.append(f"{url}{prefix}")
                ready.set()
                await ended.wait()

        asyncio.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(60)
    try:
        yield address[0]
    finally:
        stop[0]()
        thread.join()


@pytest.fixture
def view() -> Iterator[Callable[..., str]]:
    """Serves the page of a folder of runs, until the test ends."""
    with ExitStack() as stack:
        yield lambda *of, **options: stack.enter_context(viewed(*of, **options))
