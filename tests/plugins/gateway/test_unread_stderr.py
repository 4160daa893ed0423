"""A gateway goes on when nobody reads what it writes to stderr."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import httpx
import pytest

from agentfw_plugins.gateway.stderr_thread import MOST_WAITING, logger, stderr_in_a_thread

from .endless_upstream import until
from .killing import start

pytest.importorskip("uvicorn")

PIPE = 65_536
"""Number of bytes that fit into a pipe."""


def test_a_gateway_whose_stderr_nobody_reads_answers_and_stops(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    long = "x" * 3000  # each warning names the address
    options = (f"--set=policy.base_url=http://127.0.0.1:{port}/{long}/v1", "--set=policy.model=served")
    process, url, _ = start(tmp_path, "--policy", "openai", "--set=policy.token_ids=off", *options)
    asked = {"model": "served", "messages": [{"role": "user", "content": "Hi?"}]}
    address = f"{url}/s/tea/v1/chat/completions"

    statuses = {httpx.post(address, json=asked, timeout=60).status_code for _ in range(2 * PIPE // len(long))}
    alive = httpx.get(f"{url}/healthz", timeout=60).status_code
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    assert process.stderr is not None
    told = process.stderr.read()

    assert statuses == {502}
    assert (alive, code) == (200, 0)
    assert len(told) > PIPE // 2
    assert f"{long}/v1 can't be reached" in told


def test_what_is_read_late_is_whole_and_what_was_dropped_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    lines = [f"line {number}" for number in range(2 * (MOST_WAITING + PIPE // 10))]
    found: list[str] = []

    with os.fdopen(reading) as reader, os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stderr", pipe)
        read = threading.Thread(target=lambda: found.extend(line.rstrip("\n") for line in reader), daemon=True)
        with stderr_in_a_thread():
            monkeypatch.setattr(logger, "handlers", [logging.StreamHandler()])
            for line in lines:
                print(line, file=sys.stderr)
            read.start()
            until(lambda: any("dropped" in line for line in found))
            print("afterwards", file=sys.stderr)
            until(lambda: found[-1] == "afterwards")

    *kept, told, _ = found
    there = set(kept)
    assert kept == [line for line in lines if line in there]
    assert kept[:MOST_WAITING] == lines[:MOST_WAITING]
    assert told == f"stderr was not read, so {len(lines) - len(kept)} lines were dropped"
