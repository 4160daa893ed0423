"""Writes down the modules that a process imported, in a file of its own in the folder AGENTFW_MODULES.

Python imports this module at the start of each process that has its folder on PYTHONPATH, the processes that a program
starts included. A process that is killed writes nothing down.
"""

import atexit
import os
import sys


def _write() -> None:
    paths = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    with open(os.path.join(os.environ["AGENTFW_MODULES"], str(os.getpid())), "w", encoding="utf-8") as file:
        file.writelines(f"{path}\n" for path in paths if isinstance(path, str))


if os.path.isdir(os.environ.get("AGENTFW_MODULES", "")):
    atexit.register(_write)
