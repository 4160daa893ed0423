"""Runs a command that must not outlive the process that started it. A separate program without agentfw imports.

When the pipe on its standard input closes for any reason, including `kill -9` of the parent, it ends the command and
all child processes, first with SIGTERM and then with SIGKILL.

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

_POLITE = 5.0  # seconds between the two signals


def main(command: list[str]) -> int:
    # In a session of its own, so that the group can be ended as one, and a terminal's Ctrl-C doesn't reach it.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    # In a thread, so that the loop below continues. An unreaped child would count as alive.
    signal.signal(signal.SIGTERM, lambda number, frame: threading.Thread(target=_end, args=(child,)).start())
    threading.Thread(target=_watch, args=(child,), daemon=True).start()
    code = child.wait()
    _end(child)
    return code if code >= 0 else 128 - code


def _watch(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock this thread would hold while Python exits
        pass
    _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the whole process group, including children that outlived the command."""
    until = time.monotonic() + _POLITE
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
        while time.monotonic() < until:
            time.sleep(0.05)
            os.killpg(child.pid, 0)
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
