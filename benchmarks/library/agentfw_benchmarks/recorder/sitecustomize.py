"""Writes down the modules that a process imported and the runs that it read, in a file in the folder AGENTFW_MODULES.

Python imports this module at the start of each process that has its folder on PYTHONPATH, the processes that a program
starts included. A process that is killed writes nothing down.
"""

import atexit
import os
import sys

_runs: set[str] = set()


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str) and arguments[0].endswith("run.json"):
        _runs.add(os.path.abspath(arguments[0]))


def _write() -> None:
    paths = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths |= _runs
    with open(os.path.join(os.environ["AGENTFW_MODULES"], str(os.getpid())), "w", encoding="utf-8") as file:
        file.writelines(f"{path}\n" for path in paths if isinstance(path, str))


if os.path.isdir(os.environ.get("AGENTFW_MODULES", "")):
    sys.addaudithook(_note)
    atexit.register(_write)
