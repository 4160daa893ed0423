"""`agentfw serve`, which can learn, be killed, and be started again on its run."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from agentfw_plugins.gateway.learning.ratings import fresh, read_ratings
from agentfw_plugins.gateway.learning.version_file import VersionFile, named

PATIENCE = 1800.0
SERVE = (sys.executable, "-m", "agentfw", "serve")
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


class Service:
    def __init__(self, runs: Path, *serves: str, learning: Sequence[str] = (), copy: str = "") -> None:
        """`learning` are the options that a start with --resume takes, too. A copy of a run goes on with it."""
        self.runs, self.learning = runs, learning
        if copy:
            self.run = Path(shutil.copytree(copy, runs / Path(copy).name))
            self.resume()
        else:
            self._start(*serves, *learning)

    def _start(self, *words: str) -> None:
        command = [*SERVE, "--port", "0", "--runs", str(self.runs), "--json", "--served-name", "any", *words]
        command += [] if {"--memory", "--resume", "--spec"} & {*words} else ["--memory", "none"]
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

    def resume(self) -> None:
        self._start("--resume", str(self.run), *self.learning)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> None:
        """End it with all its sessions."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()

    def waits_for_more(self) -> bool:
        """Whether a version was made of all feedback that there is enough of."""
        state = self.file.read()
        ratings = read_ratings(self.file.episodes(), state.removals)
        return not state.rebuilds and fresh(ratings, state.since) < state.every

    def learned(self) -> None:
        """Wait until a version was made of all feedback that there is enough of, and answers if it is served."""
        end = time.monotonic() + PATIENCE
        while not self.waits_for_more():
            if time.monotonic() > end or self.process.poll() is not None:
                raise TimeoutError(f"no version was made: {self.file.read().said}")
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
