"""Gateways as their users see them: an address, and a folder with the record.

with gateway_of(runs, policy="scripted") as gateway:   # in a thread of this process, in a tenth of a second
    gateway.ask("tea", "Which tea?")
process = begun(runs, "--policy", "scripted")          # in a process of its own, which can be killed
gateway = Gateway(*told(process), process.kill)
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import httpx

from agentfw import Episode
from agentfw.runs import read_sessions
from agentfw_plugins.gateway.live import Limits, Stop, opened, serve_until

COMPONENTS = Path(__file__).parent / "contract" / "gateway" / "components"
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
        import openai

        return openai.OpenAI(base_url=self.session(session), api_key=key, max_retries=0)

    def anthropic(self, session: str = "tea", key: str = "none") -> Any:
        """Anthropic's own client, in a session."""
        import anthropic

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

    def figure(self, name: str) -> float:
        """A figure without labels, as /metrics says."""
        lines = self.request("GET", "/metrics").text.splitlines()
        [value] = [line.split()[1] for line in lines if line.startswith(f"agentfw_{name} ")]
        return float(value)

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


def shared_session(where: str, session: str) -> Episode:
    """A session that gateways share."""
    from agentfw_plugins.gateway.sessions.session_store import Chosen, SessionJournal

    journal = SessionJournal(where)
    try:
        [found] = [each for each in journal.sessions(Chosen()) if each.task.query == session]
    finally:
        journal.close()
    return found


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


def begun(folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "agentfw", "serve", "--port", "0", "--runs", str(folder), "--json", *more]
    command += [] if {"--memory", "--resume", "--spec"} & {*more} else ["--memory", "none"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> tuple[str, Path]:
    """What a gateway says of itself when it is ready."""
    assert process.stdout is not None
    text = ""
    while not text.rstrip().endswith("}"):
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        text += line
    about = json.loads(text)
    return about["url"], Path(about["folder"])
