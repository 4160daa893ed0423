"""A gateway that learns, and users who talk with it, for `gateway_learns.py` and `gateway_learns_killed.py`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx
from choosing_users import Card, User, chosen

from agentfw_plugins.gateway.learning.ratings import fresh, read_ratings
from agentfw_plugins.gateway.learning.version_file import VersionFile, named

__all__ = ["Said", "Service", "answer_of", "body_of", "converse", "learning_every", "mention"]

PATIENCE = 1800.0
POLICY = ("--policy", "tiny", "--set", "policy.model=tiny-assistant")
MEMORY = ("--memory", "skillgraph", "--set", "memory.skillgraph.embedder=hash")
SERVE = (sys.executable, "-m", "agentfw", "serve")
AT_ONCE = 16
SPEC = """
environment = {{ name = "from_feedback", settings = {{ answers = "rated" }} }}
policy = "{policy}"
teacher = "scripted"
optimizer = "kto"
learner = {{ name = "sft", settings = {{ learning_rate = {rate} }} }}
rewards = ["feedback"]
updates = {updates}
tasks = {tasks}
samples = 1
"""
"""The spec train-from-feedback-kto. The learning rate is higher, as the model is small; it was chosen on seed 1."""


def learning_every(
    ratings: int, folder: Path, tasks: int = 8, *, policy: str = "tiny", rate: float = 2e-3, updates: int = 10
) -> tuple[str, ...]:
    """The options of a gateway that makes a version of so many new ratings. `tasks` are the answers of an update."""
    spec = folder / "spec.toml"
    folder.mkdir(parents=True, exist_ok=True)
    spec.write_text(SPEC.format(policy=policy, rate=rate, updates=updates, tasks=tasks), "utf-8")
    return "--learn", "--learn-every", str(ratings), "--learn-spec", str(spec)


class Said(NamedTuple):
    """An answer, and what its user thought of it."""

    session: str
    user: User
    card: Card
    version: str
    liked: bool


class Service:
    """`agentfw serve`, which can be killed and started again on its run."""

    def __init__(self, runs: Path, seed: int, *learning: str, serves: Sequence[str] = (*POLICY, *MEMORY)) -> None:
        """`learning` are the options that a start with --resume takes, too. `serves` are policy and memory."""
        self.runs, self.learning = runs, learning
        self._start(*serves, "--set", f"seed={seed}", *learning)

    def _start(self, *words: str) -> None:
        command = [*SERVE, "--port", "0", "--runs", str(self.runs), "--json", "--model", "any", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the gateway didn't start: {' '.join(command)}")
            text += line
        ready = json.loads(text)
        self.url, self.run = ready["url"], Path(ready["folder"])
        self.file = VersionFile(self.run)

    @classmethod
    def of(cls, run: Path, *learning: str) -> Self:
        """That of a run that there is already."""
        service = cls.__new__(cls)
        service.runs, service.run, service.learning = run.parent, run, learning
        service.resume()
        return service

    def resume(self) -> None:
        self._start("--resume", str(self.run), *self.learning)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def command(self, *words: str) -> Any:
        command = [*SERVE, *words, "--runs", str(self.runs), "--run", self.run.name, "--json"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)

    def learned(self) -> None:
        """Wait until a version was made of all feedback that there is enough of, and answers if it is served."""
        state, end = self.file.read(), time.monotonic() + PATIENCE
        ratings = read_ratings(self.file.episodes(), state.removals)
        while state.rebuilds or fresh(ratings, state.since) >= state.every:
            if time.monotonic() > end or self.process.poll() is not None:
                raise TimeoutError(f"no version was made of {len(ratings)} ratings: {state.said}")
            time.sleep(0.2)
            state = self.file.read()
        with httpx.Client(base_url=self.url, timeout=60) as client:
            for session in ("nobody-0", "nobody-1"):
                expected = named(state.for_session(session))
                while answer_of(client, session, "nobody", "?").headers["x-agentfw-version"] != expected:
                    time.sleep(0.2)


def body_of(user: str, text: str, seed: int = 0) -> dict[str, Any]:
    said = [{"role": "user", "content": text}]
    return {"model": "any", "user": user, "temperature": 1, "max_tokens": 64, "seed": seed, "messages": said}


def answer_of(client: httpx.Client, session: str, user: str, text: str) -> httpx.Response:
    return client.post(f"/s/{session}/v1/chat/completions", json=body_of(user, text)).raise_for_status()


async def mention(url: str, users: Sequence[User], change: int) -> None:
    """Each user says some of their tastes in passing, and the memory has time to hear it."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        for user in users:
            body = body_of(user.name, user.says(change))
            answer = await client.post(f"/s/{user.name}-says-{change}/v1/chat/completions", json=body)
            answer.raise_for_status()
        for user in users:
            while (await client.get("/memory", params={"user": user.name})).raise_for_status().json()["waiting"]:
                await asyncio.sleep(0.05)


async def converse(
    url: str, users: Sequence[User], number: int, change: int, *, rate: bool = True, upside_down: bool = False
) -> list[Said]:
    """The conversations of all users with this number."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(client: httpx.AsyncClient, user: User) -> Said:
        session, card = f"{user.name}-{number}", user.cards[number]
        async with limit:
            body = body_of(user.name, str(card), card.seed)
            answer = await client.post(f"/s/{session}/v1/chat/completions", json=body)
            text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
            liked = card.liked(user.tastes[change], chosen(text or ""))
            if rate:
                thumb = "up" if liked != (card.wrong_thumb or upside_down) else "down"
                rating = {"value": thumb, "user": user.name}
                (await client.post(f"/s/{session}/feedback", json=rating)).raise_for_status()
            (await client.post(f"/s/{session}/end", json={"user": user.name})).raise_for_status()
        return Said(session, user, card, answer.headers.get("x-agentfw-version", ""), liked)

    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        return list(await asyncio.gather(*(one(client, user) for user in users)))
