"""Gateways as their users see them: an address, and a folder with the record.

`gateway` starts one in a thread of this process, which takes a tenth of a second; `killable` starts `agentfw serve` as
a process of its own. The policy and the memory are the one-file components in `components/`. This is the only module of
these tests that imports more than the documented API.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw import Episode
from agentfw.runs import read_sessions
from agentfw_cli.main import main
from agentfw_plugins.gateway.answering import Line
from agentfw_plugins.gateway.learning.version_file import VersionFile
from agentfw_plugins.gateway.live import Limits, Stop, opened, serve_until

from ...plugins.gateway.killing import begun, told

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("sqlalchemy")

from sqlalchemy import Executable, insert, select, text, update

from agentfw_plugins.gateway.sessions.session_database import GATEWAYS, SESSIONS, SessionDatabase
from agentfw_plugins.gateway.sessions.session_store import Chosen, SessionJournal

COMPONENTS = Path(__file__).parent / "components"
TOKENS, EARS = COMPONENTS / "tokens.py", COMPONENTS / "ears.py"
Message = dict[str, Any]
CLIENT = httpx.Client(timeout=120, verify=False, limits=httpx.Limits(max_keepalive_connections=0))
"""Made once: reading the certificates of the machine takes longer than a request. It keeps no cookies."""
CLIENT.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(answer: httpx.Response) -> Message:
    """The message of an answer."""
    assert answer.status_code == 200, answer.text
    message: Message = answer.json()["choices"][0]["message"]
    return {"role": "assistant", "content": message["content"]}


@dataclass
class Gateway:
    """A gateway that runs."""

    url: str
    folder: Path
    """Of its run."""
    stop: Callable[..., object]
    live: Any = None
    """Its run, of one in this process."""

    def session(self, name: str) -> str:
        """The base URL of a session, for a client of OpenAI's."""
        return f"{self.url}/s/{name}/v1"

    def openai(self, session: str = "tea", key: str = "none") -> Any:
        """OpenAI's own client, in a session."""
        openai = pytest.importorskip("openai")
        return openai.OpenAI(base_url=self.session(session), api_key=key, max_retries=0)

    def anthropic(self, session: str = "tea", key: str = "none") -> Any:
        """Anthropic's own client, in a session."""
        anthropic = pytest.importorskip("anthropic")
        return anthropic.Anthropic(base_url=f"{self.url}/s/{session}", api_key=key, max_retries=0)

    def episode(self, session: str = "tea") -> Episode:
        """A session in progress, of a gateway in this process."""
        found: Episode = self.live.sessions[session].episode
        return found

    def ask(self, session: str, *messages: Message | str, key: str = "", **body: Any) -> httpx.Response:
        """Post a chat completion. Texts are messages of the user."""
        given = [user(one) if isinstance(one, str) else one for one in messages]
        return self.post(f"{_path(session)}/v1/chat/completions", {"model": "agentfw", "messages": given, **body}, key)

    def post(self, path: str, body: object = None, key: str = "") -> httpx.Response:
        return self.request("POST", path, key, json=body)

    def request(self, method: str, path: str, key: str = "", **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return CLIENT.request(method, f"{self.url}{path}", headers=headers, **more)

    def remembered(self, of: str, key: str = "") -> list[str]:
        """What the memory keeps of a user, the oldest first."""
        answer = self.request("GET", f"/memory?user={of}", key)
        assert answer.status_code == 200, answer.text
        return [str(item["text"]) for item in reversed(answer.json()["items"])]

    def has_heard(self, *users: str) -> bool:
        """Whether the memory has heard all that users have said."""
        return not any(self.request("GET", f"/memory?user={of}").json()["waiting"] for of in users)

    def waiting(self) -> float:
        """Number of requests that wait for a place, as /metrics says."""
        text = self.request("GET", "/metrics").text
        [line] = [line for line in text.splitlines() if line.startswith("agentfw_requests_waiting")]
        return float(line.split()[1])

    def kept(self, session: str) -> Episode:
        """A session as it is on disk."""
        [episode] = read_sessions(self.folder, session)
        return episode


def _path(session: str) -> str:
    return f"/s/{session}" if session else ""


@contextmanager
def gateway_of(
    runs: Path, *, limits: dict[str, Any] | Limits | None = None, keeps_sessions: bool = True, **options: Any
) -> Iterator[Gateway]:
    """Serve in a thread until the block ends. Sessions are kept for the next process, or else concluded."""
    found, failed = list[Gateway](), list[BaseException]()
    ready, stopping = threading.Event(), list[Callable[..., object]]()
    given = limits if isinstance(limits, Limits) else Limits(**(limits or {}))

    async def run() -> None:
        stop, loop = Stop(), asyncio.get_running_loop()

        def stopped(*, keeps_sessions: bool = keeps_sessions) -> None:
            loop.call_soon_threadsafe(partial(stop.set, keeps_sessions=keeps_sessions))

        stopping.append(stopped)
        live = opened(runs, **options)

        def tell(url: str) -> None:
            found.append(Gateway(url, live.folder.path, stopped, live))
            ready.set()

        await serve_until(stop, live, "127.0.0.1", 0, given, tell)

    def serve() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(300)
    try:
        if failed:
            raise failed[0]
        yield found[0]
    finally:
        if thread.is_alive() and stopping and not failed:
            stopping[0]()
        thread.join(60)
    assert not failed, failed


Start = Callable[..., Gateway]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Start]:
    """Starts gateways, each until the test ends: by default with the policy in `components/tokens.py`."""
    with ExitStack() as stack:

        def start(folder: str = "runs", **options: Any) -> Gateway:
            if "resume" not in options:
                options = {"policy": str(TOKENS), **options}
            return stack.enter_context(gateway_of(tmp_path / folder, **options))

        yield start


Places = Callable[[int], Line]


@pytest.fixture
def places() -> Places:
    """The line in front of a policy that gives so many answers at once."""
    return lambda at_once: Line(at_once=at_once)


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.slow)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where gateways share sessions: a file, then PostgreSQL."""
    if request.param == "file":
        return str(tmp_path / "sessions.db")
    database: Callable[[], str] = request.getfixturevalue("postgres_database")
    return database()


def let_leases_lapse(where: str) -> None:
    """Do as if no gateway that has a session had said for a long time that it is alive, nor could say so now."""
    _change(where, update(SESSIONS).values(holder="silent"))


def never_alive_again(where: str) -> None:
    """Do as if the gateway that has the sessions was killed long ago."""
    _change(where, update(GATEWAYS).values(alive_until=0))


def hold_for_nobody(where: str) -> None:
    """Do as if a gateway that was killed had all sessions."""
    killed = {"name": "killed", "alive_until": time.time() + 1000, "settings": {}}
    _change(where, insert(GATEWAYS).values(**killed), update(SESSIONS).values(holder="killed"))


def crash(where: str) -> None:
    """Break all connections with a PostgreSQL, and take back what it was told to be heard."""
    ours = "datname = current_database() AND pid <> pg_backend_pid()"
    breaks = text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")
    _change(where, update(SESSIONS).values(heard=0), breaks)


def written_as_heard(where: str) -> bool:
    """Whether the database says of all turns that the memory has heard them."""
    database = SessionDatabase(where)
    try:
        with database.transaction() as connection:
            return all(connection.execute(select(SESSIONS.c.heard)).scalars())
    finally:
        database.close()


def _change(where: str, *statements: Executable) -> None:
    database = SessionDatabase(where)
    with database.transaction() as connection:
        for statement in statements:
            connection.execute(statement)
    database.close()


def shared_session(where: str, session: str) -> Episode:
    """A session that gateways share."""
    journal = SessionJournal(where)
    try:
        [found] = [each for each in journal.sessions(Chosen()) if each.task.query == session]
    finally:
        journal.close()
    return found


def counts_ratings(run: Path) -> None:
    """Let `agentfw serve versions` and `forget-feedback` work on a run, as on one that learns."""
    VersionFile(run).create()


class Process:
    """`agentfw serve` as a process of its own."""

    def __init__(self, runs: Path, *options: str) -> None:
        self._process = begun(runs, *options)
        self.gateway = Gateway(*told(self._process), self.kill)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Start]:
    """Starts `agentfw serve`. `Gateway.stop` is `kill -9`."""
    started: list[Process] = []

    def start(*options: str) -> Gateway:
        started.append(Process(tmp_path / "runs", *options))
        return started[-1].gateway

    yield start
    for process in started:
        process.kill()


def killed_now(gateway: Gateway, copy: Path) -> Path:
    """A copy of the gateway's run as `kill -9` would leave it at this moment."""
    copied = copy / gateway.folder.name
    while True:  # until nothing was written meanwhile: the files have to be of one moment
        before = _written(gateway.folder)
        with suppress(shutil.Error):  # a file that went meanwhile
            shutil.copytree(gateway.folder, copied, ignore=shutil.ignore_patterns("lock", "*.lock"))
            if _written(gateway.folder) == before:
                return copied
        shutil.rmtree(copied)


def _written(folder: Path) -> dict[Path, tuple[int, int]]:
    found = dict[Path, tuple[int, int]]()
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            found[path] = path.stat().st_size, path.stat().st_mtime_ns
    return found


def command(*words: str) -> Any:
    """Call `agentfw WORD... --json`. Returns the JSON value."""
    with redirect_stdout(StringIO()) as out, pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    assert ended.value.code == 0
    return json.loads(out.getvalue())


@pytest.fixture
def agentfw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Calls `agentfw WORD... --json` in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return command
