"""Processes of their own: the command line of agentfw, and parts of a program that must find nothing warm."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .places import SITE

AGENTFW = (sys.executable, "-m", "agentfw_cli.main")
"""The command line, as it is called in a process of its own."""


def with_laboratory() -> dict[str, str]:
    """The environment of a process that has the plugin `agentfw-laboratory`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH")]))}


def answer_of(program: str, *words: object, environment: Mapping[str, str] | None = None) -> Any:
    """The JSON value that a program prints last when it is called with these words."""
    command = [sys.executable, program, *map(str, words)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[1:])} ended with {done.returncode}; the error is above")
    return json.loads(done.stdout.splitlines()[-1])


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def memory_of_this(name: str) -> int:
    """A figure of /proc/self/status in bytes, such as VmRSS."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"no {name} in /proc/self/status: memory can't be measured on this system")
