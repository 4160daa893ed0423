"""Kills a gateway under load, and looks for what it had answered."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from agentfw.runs import read_sessions


def start(folder: Path, *more: str) -> tuple[subprocess.Popen[str], str, Path]:
    """`agentfw serve` in a process of its own, its address and the folder of its run."""
    process = begun(folder, *more)
    return process, *told(process)


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


def load(url: str, worker: int, answered: list[tuple[str, str]], enough: Callable[[], object]) -> None:
    """Ask until the gateway is gone, and note what was answered."""
    try:
        with httpx.Client(timeout=120) as client:
            for number in range(100_000):
                name, word = f"w{worker}-{number % 3}", f"{worker}.{number}"
                body = {"model": "scripted", "messages": [{"role": "user", "content": word}]}
                client.post(f"{url}/s/{name}/v1/chat/completions", json=body).raise_for_status()
                answered.append((name, word))
                enough()
    except httpx.HTTPError:
        pass


def kill_under_load(
    folder: Path, after: float = 0.0, *, answers: int = 0, workers: int = 4
) -> tuple[Path, list[tuple[str, str]]]:
    """The run of a gateway that was killed after so many seconds of load and so many answers, and what it answered."""
    process, url, run = start(folder, "--policy", "scripted", "--set", 'policy.replies=["yes"]')
    answered: list[tuple[str, str]] = []
    reached = threading.Event()

    def enough() -> None:
        if len(answered) >= answers:
            reached.set()

    threads = [threading.Thread(target=load, args=(url, worker, answered, enough)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    time.sleep(after)
    if answers:
        reached.wait(300)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    for thread in threads:
        thread.join()
    return run, answered


def lost(run: Path, answered: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What was answered and isn't on disk."""
    kept = {
        (episode.task.query, episode.messages[turn.shown[-1]].content)
        for episode in read_sessions(run)
        for turn in episode.turns
    }
    return [each for each in answered if each not in kept]


def trainer_of(run: Path) -> int | None:
    """The process id of the trainer of a gateway that learns, if there is one. (On Linux.)"""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"learning.trainer\0{run}".encode() in path.read_bytes():
                return int(path.parent.name)
    return None
