"""Secrets at random places of a run: is any of them in a file, in what is printed or logged, or sent to a model?

    python benchmarks/secrets_struck.py
    python benchmarks/secrets_struck.py --placements 300 --json

A tool puts a secret into an address, a header or a body that a real server quotes in its refusal, into an exception, a
log line, a print in pieces, or its answer; a memory recalls one; a policy streams one in pieces. Each time the secret
and its form are drawn: plain, in a URL, JSON, HTML, a repr, base64, or one of these within another. The search decodes
all of it by the means of the standard library, and shares no code with what strikes secrets. It is done once more with
secrets that the run isn't told of, so that it is known to find them.
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
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, unquote_plus

import httpx
from pydantic import SecretStr

from agentfw import Component, Settings, hookimpl
from agentfw.boundary.crossing import GuardedPolicy
from agentfw.boundary.output import struck_streams
from agentfw.environment import Environment, World
from agentfw.episode import Intervention, Message, Task
from agentfw.memory import Memory, Query, Recollection
from agentfw.policy import Policy
from agentfw.request import Generation, Request
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.testing import fresh_host
from agentfw.tool import tool
from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_benchmarks.secret_forms import FORMS

CALLS = 20
"""Number of placements in one episode."""
CONTROL = 300
"""Maximum number of placements in the run that isn't told of the secrets."""


CHANNELS = ("address", "header", "body", "exception", "log", "print", "answer", "recall", "stream")


class Placements:
    """What is put where: drawn once, and found again by number."""

    def __init__(self, count: int, seed: int) -> None:
        chance = random.Random(seed)
        letters = (string.ascii_letters + string.digits, string.ascii_letters + string.punctuation, "äöüß€🔑kyz 0189+/")
        self.secrets = [
            "k" + "".join(chance.choices(chance.choice(letters), k=chance.randint(10, 60))) + "9" for _ in range(40)
        ]
        self.drawn = [
            (chance.choice(CHANNELS), chance.choice(list(FORMS)), chance.choice(self.secrets)) for _ in range(count)
        ]

    def text(self, number: int) -> str:
        _, form, secret = self.drawn[number]
        return f"number {number} is [{FORMS[form](secret)}], they say"

    def pieces(self, number: int) -> Iterator[str]:
        text, place, chance = self.text(number), 0, random.Random(number)
        while place < len(text):
            until = place + chance.randint(1, 6)
            yield text[place:until]
            place = until


PLACED = Placements(0, 0)
ADDRESS = ""
PROMPTS: list[str] = []


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
    """Answer questions."""

    def begin(self, world: World, task: Task) -> None:
        for number in range(task.index * CALLS, min((task.index + 1) * CALLS, len(PLACED.drawn))):
            world.after(
                number - task.index * CALLS, lambda number=number: world.observe("question", {"number": number})
            )
        world.after(CALLS, world.finish)


class Asking(Policy):
    """Calls the tool with the number of each question, and keeps what it was sent."""

    async def generate(self, request: Request) -> Generation:
        PROMPTS.extend(message.content for message in request.messages[-3:])
        asked = request.moment.of("question") if request.moment else ()
        return Generation("", calls=tuple(Intervention("place", {"number": each.data["number"]}) for each in asked))

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        number = int(request.messages[-1].content)
        for piece in PLACED.pieces(number):
            tell(piece)
        return Generation(PLACED.text(number))


class Recalling(Memory):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        numbers = [int(number) for number in re.findall(r"number=(\d+)", query.text)]
        return [Recollection(PLACED.text(number)) for number in numbers if PLACED.drawn[number][0] == "recall"]


class Told(Settings):
    keys: tuple[SecretStr, ...] = ()


def make_tool(settings: Told) -> object:
    @tool
    async def place(number: int) -> str:
        """Put a secret somewhere."""
        channel, text = PLACED.drawn[number][0], PLACED.text(number)
        if channel in ("address", "header", "body"):
            async with httpx.AsyncClient() as client:
                encoded = text.encode()
                reply = await client.post(
                    ADDRESS,
                    params={"key": text} if channel == "address" else None,
                    headers={"X-Key": encoded} if channel == "header" else None,
                    content=encoded if channel == "body" else b"",
                )
            if number % 2:
                reply.raise_for_status()
            return reply.text
        if channel == "exception":
            raise ValueError(text)
        if channel == "log":
            logging.getLogger("placements").warning("it is %s", text)
        if channel == "print":
            for piece in PLACED.pieces(number):
                print(piece, end="", file=sys.stderr if number % 2 else sys.stdout)
            print()
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


@contextmanager
def _server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Quoting) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/"
        listening.shutdown()


def _collected(placements: Placements, folder: Path, *, told: bool) -> dict[str, str]:
    """All that comes out of one run, by where it came out."""
    global PLACED, ADDRESS
    PLACED = placements
    PROMPTS.clear()
    printed, streamed = io.StringIO(), list[str]()
    handler = logging.FileHandler(folder / "placements.log", encoding="utf-8")
    logging.getLogger("placements").addHandler(handler)
    host = fresh_host(Plugin())
    tools = [{"name": "placing", "settings": {"keys": placements.secrets if told else []}}]
    episodes = -(-len(placements.drawn) // CALLS)
    values = {"environment": "questions", "policy": "asking", "memories": ["recalling"], "window": 2}
    with _server() as ADDRESS, redirect_stdout(printed), redirect_stderr(printed), struck_streams():
        run = Run.create(parse_spec({**values, "tools": tools, "episodes": episodes}), host, folder)
        asyncio.run(run.execute())
        guarded = GuardedPolicy(Asking(), host.guard("policy", "asking", 60.0))
        for number, (channel, _, _) in enumerate(placements.drawn):
            if channel == "stream":
                asyncio.run(guarded.stream(Request([Message("user", str(number))]), streamed.append))
                streamed.append("\n")
    logging.getLogger("placements").removeHandler(handler)
    handler.close()
    files = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    found = {name: file.read_bytes().decode(errors="replace") for name, file in files.items()}
    return {**found, "printed": printed.getvalue(), "prompts": "\n".join(PROMPTS), "streamed": "".join(streamed)}


def _decoded(text: str) -> str:
    """A text with everything that the standard library can make of it, twice over."""
    ways: list[Callable[[str], str]] = [unquote, unquote_plus, html.unescape, _unescaped, _bytes_unescaped, _unbase64]
    once = [text, *(way(text) for way in ways)]
    return "\n".join([*once, *(way(one) for one in once[1:5] for way in ways)])


def _unescaped(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        return json.loads(f'"{found[0]}"') if len(found[0]) > 2 or found[0][1] in '"\\/bfnrt' else found[0][1:]

    return re.sub(r"(?:\\u[0-9a-fA-F]{4})+|\\.", letter, text)


def _bytes_unescaped(text: str) -> str:
    def letters(found: re.Match[str]) -> str:
        return bytes.fromhex(found[0].replace("\\x", "")).decode(errors="replace")

    return re.sub(r"(?:\\x[0-9a-fA-F]{2})+", letters, text)


def _unbase64(text: str) -> str:
    words = re.findall(r"[A-Za-z0-9+/_-]{12,}", text)
    plain = [word.replace("-", "+").replace("_", "/") for word in dict.fromkeys(words)]
    return "\n".join(
        base64.b64decode(word[start:] + "=" * (-len(word[start:]) % 4)).decode(errors="replace")
        for word in plain
        for start in range(4)
        if len(word[start:]) % 4 != 1
    )


def _found(placements: Placements, collected: dict[str, str]) -> dict[str, int]:
    """How many of the secrets are in each of the texts."""
    counts = {}
    for name, text in collected.items():
        seen = dict.fromkeys(text.splitlines())
        whole = "\n".join(_decoded(line) for line in seen)
        counts[name] = sum(secret in whole or " ".join(secret.split()) in whole for secret in placements.secrets)
    return counts


def measure(placements: int, seed: int) -> dict[str, Any]:
    found = {}
    # A small part of them is enough to see that the search finds what is there.
    for name, told, count in (("not told of", False, min(placements, CONTROL)), ("struck", True, placements)):
        drawn = Placements(count, seed)
        with tempfile.TemporaryDirectory() as folder:
            counts = _found(drawn, _collected(drawn, Path(folder), told=told))
            kinds = {re.sub(r".*/", "", place): 0 for place in counts}
            for place, count in counts.items():
                kinds[re.sub(r".*/", "", place)] += count
            found[name] = kinds
    channels = {name: sum(channel == name for channel, _, _ in drawn.drawn) for name in CHANNELS}
    return {"placements": placements, "secrets": len(drawn.secrets), "channels": channels, "found": found}


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['placements']:,} placements of {result['secrets']} secrets; how many of the secrets were found where"
    )
    found = result["found"]
    places = sorted({place for counts in found.values() for place in counts})
    rows = [[place, *(str(counts.get(place, 0)) for counts in found.values())] for place in places]
    print_aligned(["", *found], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, placements=10_000, seed=7).parse_args(arguments)
    return tell(measure(options.placements, options.seed), options.json, show)


if __name__ == "__main__":
    main()
