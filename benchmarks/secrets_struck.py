"""Secrets at random places of a run: is any of them in a file, in what is printed or logged, or sent to a model?

    python benchmarks/secrets_struck.py
    python benchmarks/secrets_struck.py --placements 300 --json

Each time the secret, its form and its channel are drawn. The search is for each secret in each form, alone and within
each other one, and shares no code with what strikes secrets. It is done once more, for at most 300 placements, with
secrets that the run isn't told of, so that it is known to find them.
"""

from __future__ import annotations

import asyncio
import io
import logging
import random
import re
import string
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
from pydantic import SecretStr

from agentfw import Component, Environment, Generation, Intervention, Memory, Policy, Request, Run, Settings, hookimpl
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
CHANNELS = ("address", "header", "body", "exception", "log", "print", "answer", "recall")
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


def offered(name: str, factory: str, **more: Any) -> Any:
    return hookimpl(lambda self: [Component(name, f"{__name__}:{factory}", "", **more)])


class Plugin:
    agentfw_environments = offered("questions", "Questions")
    agentfw_policies = offered("asking", "Asking")
    agentfw_memories = offered("recalling", "Recalling")
    agentfw_tools = offered("placing", "make_tool", settings=f"{__name__}:Told")


def came_out(folder: Path, *, told: bool) -> Iterator[tuple[str, str]]:
    """All texts that come out of one run, by where they came out."""
    PROMPTS.clear()
    printed = io.StringIO()
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
        server.shutdown()
    logging.getLogger("placements").removeHandler(handler)
    handler.close()
    yield from (("printed", printed.getvalue()), ("prompts", "\n".join(PROMPTS)))
    for file in folder.rglob("*"):
        if file.is_file():
            yield file.name, file.read_bytes().decode(errors="replace")


def occurs(secret: str, text: str) -> bool:
    once = {form(secret).strip("\"'") for form in FORMS.values()}
    return any(one in text for one in once | {form(one).strip("\"'") for form in FORMS.values() for one in once})


def measure(placements: int, seed: int) -> dict[str, Any]:
    """How many of the secrets are in each of the texts."""
    found: dict[str, Counter[str]] = {"not told of": Counter(), "struck": Counter()}
    for name, counts in found.items():
        draw(placements if name == "struck" else min(placements, 300), seed)
        with tempfile.TemporaryDirectory() as folder:
            for place, text in came_out(Path(folder), told=name == "struck"):
                counts[place] += sum(occurs(secret, text) for secret in SECRETS)
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
