"""Secrets at random places of a run: is any of them in a file, in what is printed or logged, or sent to a model?

    python benchmarks/secrets_struck.py
    python benchmarks/secrets_struck.py --placements 300 --json

Each time the secret, its form and its channel are drawn. The search decodes everything by the means of the standard
library, and shares no code with what strikes secrets. It is done once more, for at most 300 placements, with secrets
that the run isn't told of, so that it is known to find them.
"""

from __future__ import annotations

import asyncio
import base64
import html
import io
import json
import logging
import random
import re
import string
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, unquote_plus

import httpx
from pydantic import SecretStr

from agentfw import (
    Component,
    Environment,
    Generation,
    Intervention,
    Memory,
    Message,
    Policy,
    Request,
    Run,
    Settings,
    hookimpl,
)
from agentfw.boundary.crossing import GuardedPolicy
from agentfw.boundary.output import struck_streams
from agentfw.environment import World
from agentfw.episode import Task
from agentfw.memory import Query, Recollection
from agentfw.runs import parse_spec
from agentfw.testing import fresh_host
from agentfw.tool import tool
from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_benchmarks.secret_forms import FORMS

CALLS = 20
"""Number of placements in one episode."""
CHANNELS = ("address", "header", "body", "exception", "log", "print", "answer", "recall", "stream")
LETTERS = (string.ascii_letters + string.digits, string.ascii_letters + string.punctuation, "äöüß€🔑kyz 0189+/")
SECRETS: list[str] = []
DRAWN: list[tuple[str, str]] = []
"""The channel and the text of each placement."""
PROMPTS: list[str] = []
SERVER: list[str] = []


def draw(count: int, seed: int) -> None:
    chance = random.Random(seed)
    SECRETS[:] = [f"k{''.join(chance.choices(chance.choice(LETTERS), k=chance.randint(10, 60)))}9" for _ in range(40)]
    places = [(chance.choice(CHANNELS), FORMS[chance.choice([*FORMS])](chance.choice(SECRETS))) for _ in range(count)]
    DRAWN[:] = [(channel, f"number {number} is [{text}], they say") for number, (channel, text) in enumerate(places)]


def pieces(number: int) -> list[str]:
    chance = random.Random(number)
    return re.findall(rf".{{1,{chance.randint(1, 6)}}}", DRAWN[number][1], re.S)


class Quoting(BaseHTTPRequestHandler):
    """Refuses everything, and quotes what it was sent."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = f"{self.path}\n{self.headers}\n".encode() + body
        self.send_response(404)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Questions(Environment):
    def begin(self, world: World, task: Task) -> None:
        for place, number in enumerate(range(len(DRAWN))[task.index * CALLS :][:CALLS]):
            world.after(place, lambda number=number: world.observe("question", {"number": number}))
        world.after(CALLS, world.finish)


class Asking(Policy):
    """Calls the tool with the number of each question, and keeps what it was sent."""

    async def generate(self, request: Request) -> Generation:
        PROMPTS.extend(message.content for message in request.messages[-3:])
        asked = request.moment.of("question") if request.moment else ()
        return Generation("", calls=tuple(Intervention("place", {"number": each.data["number"]}) for each in asked))

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        number = int(request.messages[-1].content)
        for piece in pieces(number):
            tell(piece)
        return Generation(DRAWN[number][1])


class Recalling(Memory):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        found = [DRAWN[int(number)] for number in re.findall(r"number=(\d+)", query.text)]
        return [Recollection(text) for channel, text in found if channel == "recall"]


class Told(Settings):
    keys: tuple[SecretStr, ...] = ()


def make_tool(settings: Told) -> object:
    @tool
    async def place(number: int) -> str:
        """Put a secret somewhere."""
        channel, text = DRAWN[number]
        if channel in ("address", "header", "body"):
            sent = {"address": {"params": {"key": text}}, "header": {"headers": {"X-Key": text.encode()}}}
            async with httpx.AsyncClient() as client:
                reply = await client.post(SERVER[0], **sent.get(channel, {"content": text.encode()}))  # type: ignore[arg-type]
            return reply.text if number % 2 else reply.raise_for_status().text
        if channel == "exception":
            raise ValueError(text)
        if channel == "log":
            logging.getLogger("placements").warning("it is %s", text)
        if channel == "print":
            print(*pieces(number), sep="")
        return text if channel == "answer" else "done"

    return place


class Plugin:
    @hookimpl
    def agentfw_environments(self) -> list[Component]:
        return [Component("questions", f"{__name__}:Questions", "")]

    @hookimpl
    def agentfw_policies(self) -> list[Component]:
        return [Component("asking", f"{__name__}:Asking", "")]

    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [Component("recalling", f"{__name__}:Recalling", "")]

    @hookimpl
    def agentfw_tools(self) -> list[Component]:
        return [Component("placing", f"{__name__}:make_tool", "", settings=f"{__name__}:Told")]


def came_out(folder: Path, *, told: bool) -> Iterator[tuple[str, str]]:
    """All texts that come out of one run, by where they came out."""
    PROMPTS.clear()
    printed, streamed = io.StringIO(), list[str]()
    handler = logging.FileHandler(folder / "placements.log", encoding="utf-8")
    logging.getLogger("placements").addHandler(handler)
    host = fresh_host(Plugin())
    tools = [{"name": "placing", "settings": {"keys": SECRETS if told else []}}]
    values = {"environment": "questions", "policy": "asking", "memories": ["recalling"], "tools": tools, "window": 2}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Quoting)
    with server, redirect_stdout(printed), redirect_stderr(printed), struck_streams():
        Thread(target=server.serve_forever, daemon=True).start()
        SERVER[:] = [f"http://127.0.0.1:{server.server_port}/"]
        run = Run.create(parse_spec({**values, "episodes": -(-len(DRAWN) // CALLS)}), host, folder)
        asyncio.run(run.execute())
        guarded = GuardedPolicy(Asking(), host.guard("policy", "asking", 60.0))
        for number, (channel, _) in enumerate(DRAWN):
            if channel == "stream":
                asyncio.run(guarded.stream(Request([Message("user", str(number))]), streamed.append))
                streamed.append("\n")
        server.shutdown()
    logging.getLogger("placements").removeHandler(handler)
    handler.close()
    yield from (("printed", printed.getvalue()), ("prompts", "\n".join(PROMPTS)), ("streamed", "".join(streamed)))
    for file in folder.rglob("*"):
        if file.is_file():
            yield file.name, file.read_bytes().decode(errors="replace")


def decoded(text: str) -> str:
    """A text with everything that the standard library can make of it, twice over."""
    ways: list[Callable[[str], str]] = [unquote, unquote_plus, html.unescape, unescaped, unbase64]
    once = [text, *(way(text) for way in ways)]
    return "\n".join([*once, *(way(one) for one in once[1:5] for way in ways)])


def unescaped(text: str) -> str:
    def letters(found: re.Match[str]) -> str:
        if found[0].startswith(r"\x"):
            return bytes.fromhex(found[0].replace(r"\x", "")).decode(errors="replace")
        return json.loads(f'"{found[0]}"') if len(found[0]) > 2 or found[0][1] in '"\\/bfnrt' else found[0][1:]

    return re.sub(r"(?:\\x[0-9a-fA-F]{2})+|(?:\\u[0-9a-fA-F]{4})+|\\.", letters, text)


def unbase64(text: str) -> str:
    words = [word.translate({45: "+", 95: "/"}) for word in re.findall(r"[A-Za-z0-9+/_-]{12,}", text)]
    parts = [word[start:] for word in dict.fromkeys(words) for start in range(4) if len(word[start:]) % 4 != 1]
    return "\n".join(base64.b64decode(part + "=" * (-len(part) % 4)).decode(errors="replace") for part in parts)


def measure(placements: int, seed: int) -> dict[str, Any]:
    """How many of the secrets are in each of the texts."""
    found: dict[str, Counter[str]] = {"not told of": Counter(), "struck": Counter()}
    for name, counts in found.items():
        draw(placements if name == "struck" else min(placements, 300), seed)
        with tempfile.TemporaryDirectory() as folder:
            for place, text in came_out(Path(folder), told=name == "struck"):
                whole = "\n".join(map(decoded, dict.fromkeys(text.splitlines())))
                counts[place] += sum(secret in whole or " ".join(secret.split()) in whole for secret in SECRETS)
    channels = Counter(channel for channel, _ in DRAWN)
    return {"placements": placements, "secrets": len(SECRETS), "channels": dict(channels), "found": found}


def show(result: dict[str, Any]) -> None:
    print(f"{result['placements']:,} placements of {result['secrets']} secrets; how many of these were found where")
    found = result["found"]
    print_aligned(["", *found], [[place, *(str(one[place]) for one in found.values())] for place in found["struck"]])


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, placements=10_000, seed=7).parse_args(arguments)
    return tell(measure(options.placements, options.seed), options.json, show)


if __name__ == "__main__":
    main()
