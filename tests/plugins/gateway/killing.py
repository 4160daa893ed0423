"""Starts `agentfw serve` in a process of its own, which can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


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
