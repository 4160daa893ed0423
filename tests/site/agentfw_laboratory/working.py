"""Work for worker processes: theirs to import, so it can't stand in a test."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from agentfw.errors import UnknownNameError
from agentfw.runs import in_processes


def squared(number: int) -> int:
    return number * number


def always_die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def refuse(number: int) -> int:
    raise UnknownNameError("cup", "glas", ["glass"])


def stay(folder: str) -> None:
    """Says that it is there, and stays."""
    (Path(folder) / f"worker-{os.getpid()}").touch()
    time.sleep(60)


if __name__ == "__main__":  # python -m agentfw_laboratory.working FOLDER: two workers that stay
    in_processes(stay, [sys.argv[1]] * 2, 2)
