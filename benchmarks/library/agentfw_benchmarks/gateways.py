"""`agentfw serve` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def serve(
    runs: Path, *options: str, port: int = 0, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[str], str, Path]:
    """Start a gateway, and wait until it is ready. Returns its process, its address and the folder of its run."""
    command = [sys.executable, "-m", "agentfw", "serve", "--port", str(port), "--runs", str(runs), "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout is not None
    told = ""
    while not told.rstrip().endswith("}"):
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the gateway didn't start: {' '.join(command)}")
        told += line
    ready = json.loads(told)
    return process, ready["url"], Path(ready["folder"])


@contextmanager
def serving(runs: Path, *options: str) -> Iterator[tuple[str, Path]]:
    """The address of a gateway, and the folder of its run, until the block ends."""
    process, url, run = serve(runs, *options)
    try:
        yield url, run
    finally:
        process.terminate()
        process.wait()
