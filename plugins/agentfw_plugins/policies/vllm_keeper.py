"""Runs a command that must not outlive whoever started it. A program of its own; it imports nothing of agentfw.

The one rule: when the pipe on its standard input closes, for whatever reason, `kill -9` of the starter included, the
command and all that it started are ended, politely first and soon not politely at all.

    python vllm_keeper.py COMMAND [ARGUMENT]...
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

_POLITE = 5.0  # seconds


def main(command: list[str]) -> int:
    # A session of its own makes it a group that can be ended as one, and keeps a terminal's Ctrl-C away from it.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    # In a thread, so that the wait below goes on: who isn't waited for counts as alive.
    signal.signal(signal.SIGTERM, lambda number, frame: threading.Thread(target=_end, args=(child,)).start())
    threading.Thread(target=_watch, args=(child,), daemon=True).start()
    code = child.wait()
    _end(child)
    return code if code >= 0 else 128 - code


def _watch(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock this thread would hold while Python ends
        pass
    _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the command's whole group, also what is left of it when the command itself is gone."""
    until = time.monotonic() + _POLITE
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
        while time.monotonic() < until:
            time.sleep(0.05)
            os.killpg(child.pid, 0)
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
