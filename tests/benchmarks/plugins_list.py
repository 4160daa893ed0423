"""How much CPU time `agentfw plugins list`, `plugins show` and `--help` take with thousands of components installed.

Measured as in startup.py, beside the same commands with the built-ins alone.

    python tests/benchmarks/plugins_list.py
    python tests/benchmarks/plugins_list.py --runs 40 --json

Required with 1,000 components: a list under 0.5 s, the help under 0.15 s. The zoo is 200 plugins that fail while they
are imported: each is named with its distribution and its error, and none of them may be slower than a good one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from startup import make_plugins, measure, report

AGENTFW = ["-m", "agentfw_cli.main"]
LIST = [*AGENTFW, "plugins", "list"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, place) for place in ("thousand", "one plugin", "many", "zoo")]
        for folder in folders:
            folder.mkdir()
        thousand, one, many, zoo = map(str, folders)
        make_plugins(folders[0], plugins=50, tools=20)
        make_plugins(folders[1], plugins=1, tools=1000)
        make_plugins(folders[2], plugins=100, tools=100)
        make_plugins(folders[3], plugins=200, before="raise RuntimeError('broken')\n")
        show = [*AGENTFW, "plugins", "show"]
        rows = [
            measure("plugins list, built-ins only", LIST, "", options.runs, None),
            measure("plugins list, 1,000 tools of 50 plugins", LIST, thousand, options.runs, 0.5),
            measure("plugins list, 1,000 tools of one plugin", LIST, one, options.runs, 0.5),
            measure("--help, 1,000 tools of 50 plugins", [*AGENTFW, "--help"], thousand, options.runs, 0.15),
            measure("plugins show inbox, 1,000 tools", [*show, "inbox"], thousand, options.runs, None),
            measure("plugins list, 10,000 tools of 100 plugins", LIST, many, options.runs, None),
            measure("plugins list, 200 broken plugins", LIST, zoo, options.runs, 0.5),
        ]
    return report(rows, options.runs, options.json)


if __name__ == "__main__":
    sys.exit(main())
