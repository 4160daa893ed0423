"""Runs the command: `python -m agentfw` is the same as `agentfw`.

The command is another package, which the framework doesn't import: it is found by its console script.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution


def main() -> None:
    scripts = distribution("agentfw").entry_points.select(group="console_scripts", name="agentfw")
    if not scripts:
        sys.exit("error: the agentfw command is not installed\n  fix: pip install --force-reinstall agentfw")
    next(iter(scripts)).load()()


if __name__ == "__main__":
    main()
