"""What somebody with a key of their own, a web page or another machine may try with a gateway.

Ada has said something in a session that is called tea. Eve wants to read it, or to change what is Ada's. The same is
asked by who may do it, and must then succeed, or it would prove nothing. What wants to bring the gateway down has
succeeded if an answer is a 5xx, takes seconds of the processor, or keeps others from being answered.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx
import psutil

from .gateways import serve

SECRET, OPERATOR = "Quincunx", "the-key-of-the-operator-which-is-long"
CHAT, SECONDS = "/v1/chat/completions", 8.0
"""Processor time that a request may not take."""


class Try(NamedTuple):
    """A request of somebody who may not do it."""

    path: str
    method: str = "GET"
    json: Any = None
    by: str = "ada"
    """Who may do it."""
    headers: Mapping[str, str] = {}
    """What gives a web page or another site away. Without them, it may be done."""
    form: Mapping[str, str] = {}
    had: Callable[[httpx.Response], bool] = lambda answer: answer.status_code == 200 and SECRET in answer.text
    """Whether the answer is what was wanted."""


def done(answer: httpx.Response) -> bool:
    return answer.status_code < 400


def reached_the_item(answer: httpx.Response) -> bool:
    return answer.status_code not in (401, 403)


EVIL = "http://evil.example"
SPAN = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "of somebody"}
SPANS = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}
HELLO = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "user": "ada"}
REQUESTS: dict[str, Try] = {
    "a session by its name": Try("/s/tea"),
    "a session by its name in the record": Try("/s/ada%3Atea", by="operator"),
    "the list of another's sessions": Try("/sessions?user=ada", had=lambda answer: '"tea"' in answer.text),
    "another's name in a header": Try("/memory", headers={"x-agentfw-user": "ada"}),
    "what is remembered of another": Try("/memory?user=ada"),
    "another's item deleted": Try("/memory/none?user=ada", "DELETE", had=reached_the_item),
    "another's item changed": Try("/memory/none?user=ada", "PATCH", {"text": "mine"}, had=reached_the_item),
    "an answer for another": Try(CHAT, "POST", HELLO, had=done),
    "feedback on another's answer": Try("/s/ada%3Atea/feedback", "POST", {"value": "bad"}, by="operator", had=done),
    "feedback by the name in the record": Try(
        "/feedback", "POST", {"session": "ada:tea", "value": "bad"}, by="operator", had=done
    ),
    "feedback in another's name": Try("/feedback", "POST", {"session": "tea", "value": "bad", "user": "ada"}, had=done),
    "the figures of all": Try("/metrics", by="operator", had=done),
    "the recorded sessions of all": Try("/view/", by="operator", had=done),
    "a recorded session by its address": Try("/view/news", by="operator", had=done),
    "a login with a user's key": Try(
        "/login", "POST", by="operator", form={"key": ""}, had=lambda answer: "set-cookie" in answer.headers
    ),
    "the end of another's session": Try("/s/ada%3Acake/end", "POST", {}, by="operator", had=done),
}
LOCAL: dict[str, Try] = {
    "another name of this machine": Try("/sessions", headers={"host": "evil.example"}, had=done),
    "a page of another site asks": Try(CHAT, "POST", HELLO, headers={"origin": EVIL}, had=done),
    "a page without an origin asks": Try(CHAT, "POST", HELLO, headers={"origin": "null"}, had=done),
    "a page of another site deletes what is remembered": Try(
        "/memory/none?user=ada", "DELETE", headers={"origin": EVIL}, had=reached_the_item
    ),
    "a page of another site ends a session": Try(
        "/s/tea/end", "POST", {}, headers={"origin": "https://127.0.0.1.evil.example"}, had=done
    ),
    "a page of another site sends spans": Try("/v1/traces", "POST", SPANS, headers={"origin": EVIL}, had=done),
    "recorded sessions under another name": Try("/view/", headers={"host": "evil.example"}, had=done),
}


class House:
    """A gateway with keys, and one without, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        options = ("--policy", "scripted", "--set", 'policy.replies=["noted"]', "--memory", "skillgraph")
        shown = {**os.environ, "AGENTFW_KEY": "", "AGENTFW_TRUST": str(folder)}
        self.keys = {"operator": OPERATOR}
        for user in ("ada", "eve"):
            words = [sys.executable, "-m", "agentfw", "serve", "keys", "add", user, "--user", user, "--json"]
            made = subprocess.run([*words, "--runs", str(folder / "keyed")], capture_output=True, check=True, env=shown)
            self.keys[user] = json.loads(made.stdout)["key"]
        gateways = [
            serve(folder / "keyed", *options, environment={**shown, "AGENTFW_KEY": OPERATOR}),
            serve(folder / "local", *options, environment=shown),
        ]
        for process, _, _ in gateways:
            self._stack.callback(process.communicate)
            self._stack.callback(process.kill)
        (self.process, self.keyed, self.run), (_, self.local, _) = gateways
        for url, key in ((self.keyed, "ada"), (self.local, "")):
            said = [{"role": "user", "content": f"My neighbour is called {SECRET}."}]
            for name in ("tea", "cake"):
                one = Try(f"/s/{name}{CHAT}", "POST", {"model": "scripted", "messages": said, "user": "ada"})
                self.ask(url, one, key).raise_for_status()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def succeeds(self, name: str, *, trusted: bool) -> bool:
        """Whether an attack does, where whoever sends it may do it, or where not."""
        kind, _, what = name.partition(": ")
        if name in BREAKING:
            return self.breaks(BREAKING[name])
        if kind == "page":
            return LOCAL[what].had(self.ask(self.local, LOCAL[what], "", hidden=trusted))
        if kind == "key":
            return REQUESTS[what].had(self.ask(self.keyed, REQUESTS[what], REQUESTS[what].by if trusted else "eve"))
        return smuggled(self, trusted=trusted)

    def ask(self, url: str, one: Try, who: str, *, hidden: bool = False) -> httpx.Response:
        """Send it with the key of somebody. `hidden`: without what gives it away."""
        headers = {} if hidden else dict(one.headers)
        if "host" in headers:
            headers["host"] += f":{urlsplit(url).port}"
        if who:
            headers["authorization"] = f"Bearer {self.keys[who]}"
        body: dict[str, Any] = {"data": dict.fromkeys(one.form, self.keys[who])} if one.form else {"json": one.json}
        return httpx.request(one.method, f"{url}{one.path}", headers=headers, timeout=120, **body)

    def is_answering(self) -> bool:
        return self.ask(self.keyed, Try(CHAT, "POST", HELLO), "ada").status_code == 200

    def breaks(self, send: Callable[[House], Any]) -> bool:
        """Whether this brings the gateway down, as far as its answers and its processor say."""
        before = sum(psutil.Process(self.process.pid).cpu_times()[:2])
        answers = send(self)
        took = sum(psutil.Process(self.process.pid).cpu_times()[:2]) - before
        failed = [one for one in answers if isinstance(one, httpx.Response) and one.status_code >= 500]
        return bool(failed) or took > SECONDS or not self.is_answering()

    def raw(self, *pieces: bytes) -> bytes:
        """Everything that comes back for these bytes."""
        address = urlsplit(self.keyed)
        with socket.create_connection((str(address.hostname), address.port or 80), timeout=20) as line:
            for piece in pieces:
                line.sendall(piece)
            line.shutdown(socket.SHUT_WR)
            found = b""
            while part := line.recv(65536):
                found += part
        return found


def posts(*contents: str | bytes, path: str = CHAT) -> Callable[[House], list[httpx.Response]]:
    """Send these bodies as they are."""

    def send(house: House) -> list[httpx.Response]:
        headers = {"authorization": f"Bearer {house.keys['eve']}", "content-type": "application/json"}
        return [httpx.post(f"{house.keyed}{path}", content=one, headers=headers, timeout=120) for one in contents]

    return send


def said(text: str, **more: Any) -> str:
    return json.dumps({"model": "scripted", "messages": [{"role": "user", "content": text}], **more})


def gets(*paths: str) -> Callable[[House], list[httpx.Response]]:
    return lambda house: [house.ask(house.keyed, Try(path), "operator") for path in paths]


def half_requests(house: House) -> list[Any]:
    """Hold many connections open that never end their request, and ask meanwhile."""
    address = urlsplit(house.keyed)
    with ExitStack() as stack:
        for _ in range(300):
            line = stack.enter_context(socket.create_connection((str(address.hostname), address.port or 80)))
            line.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{")
        return [None if house.is_answering() else httpx.Response(500)]


def smuggled(house: House, *, trusted: bool) -> bool:
    """A request inside the body of another, for whoever shares the connection. Trusted: behind it, as one may."""
    inner = f"GET /s/tea HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {house.keys['ada']}\r\n\r\n".encode()
    length = b"content-length: 5" if trusted else b"content-length: %d\r\ntransfer-encoding: chunked" % (5 + len(inner))
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n" + length + b"\r\n\r\n0\r\n\r\n"
    return SECRET.encode() in house.raw(head + inner)


CHOKING = (
    *("a" * 60_000 + "!", " " * 60_000, "I am " * 15_000, "\n> " * 20_000, "0" * 40_000, "http://" * 9_000),
    *("my my " * 10_000, "'\"" * 30_000, "<b>" * 20_000),
)
BREAKING: dict[str, Callable[[House], Any]] = {
    "request: a body of a hundred thousand lists": posts(
        "[" * 100_000, said("x", tools="X").replace('"X"', "[" * 50_000)
    ),
    "request: numbers without end": posts(
        *(
            said("x", **{name: 0}).replace(": 0", f": {number}")
            for name in ("max_tokens", "n", "temperature", "seed")
            for number in ("1e999", "-1e999", "NaN", "9" * 400, "9" * 5000, "-1")
        )
    ),
    "request: half characters in names and words": posts(
        said("\ud800"), said("x", user="\ud800"), said("x", model="\udfff")
    ),
    "request: zero bytes in names and words": posts(said("a\0b"), said("x", user="a\0b"), said("x", model="\0")),
    "request: a name of a million characters": posts(said("x", user="a" * 1_000_000), said("x", model="a" * 1_000_000)),
    "request: keys that look alike, twice": posts(
        '{"messages": [], "messages": [{"role": "user", "content": 1}], "ｍodel": 1}'
    ),
    "request: half a million fields": posts(json.dumps({str(number): number for number in range(500_000)})),
    "request: words that regular expressions choke on": posts(*map(said, CHOKING)),
    "request: searches that regular expressions choke on": gets(
        f"/view/?text={'(a%2B)%2B' * 300}%24", f"/view/?text={'%22' * 3000}", f"/view/?text={'NEAR(' * 900}"
    ),
    "request: paths that lead elsewhere": gets(
        "/view/run/..%2f..%2f..%2fetc%2fpasswd",
        "/view/episode/..%2f..%2fkeys.json",
        "/view/record/%2fetc%2fpasswd",
        "/s/..%2f..%2fkeys.json",
        "/s/%00",
        "/view/%2e%2e/%2e%2e/run.json",
        f"/s/{'a' * 5000}",
        "/login?once=%C3%A9",
    ),
    "request: spans that aren't any": posts(
        b"\xff" * 10_000,
        "{}",
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, "traceId": "Ly4uLy4u"}]}]}]}),
        path="/v1/traces",
    ),
    "request: three hundred requests that never end": half_requests,
}
"""What Eve sends to bring the gateway down."""


SMUGGLED = "request: another one in its body"
ON_GATEWAYS = (*(f"page: {name}" for name in LOCAL), *(f"key: {name}" for name in REQUESTS), SMUGGLED, *BREAKING)
