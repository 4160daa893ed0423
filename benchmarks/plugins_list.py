"""How much CPU time `agentfw plugins list` and `--help` take with a thousand components installed.

Measured as in startup.py, beside the list of the built-ins alone.

    python benchmarks/plugins_list.py
    python benchmarks/plugins_list.py --components 100000 --runs 3 --json

Required with 1,000 components: a list under 0.5 s, the help under 0.15 s. The zoo is 200 plugins that fail while they
are imported, each of which the list names with its distribution and its error.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from startup import make_plugins, measure, report

from agentfw_benchmarks import AGENTFW, Options

LIST = [*AGENTFW, "plugins", "list"]
PLUGINS = 50


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Options(__doc__, components=1000, zoo=(200, "number of broken plugins"), runs=20)
    options = parser.parse_args(arguments)
    count, runs = options.components, options.runs
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, place) for place in ("several", "one", "zoo")]
        for folder in folders:
            folder.mkdir()
        make_plugins(folders[0], plugins=PLUGINS, tools=count // PLUGINS)
        make_plugins(folders[1], plugins=1, tools=count)
        make_plugins(folders[2], plugins=options.zoo, before="raise RuntimeError('broken')\n")
        several, one, zoo = map(str, folders)
        required = 0.5 if count == 1000 else None
        rows = [
            measure("plugins list, built-ins only", LIST, "", runs, None),
            measure(f"plugins list, {count:,} tools of {PLUGINS} plugins", LIST, several, runs, required),
            measure(f"plugins list, {count:,} tools of one plugin", LIST, one, runs, required),
            measure(f"--help, {count:,} tools of {PLUGINS} plugins", [*AGENTFW, "--help"], several, runs, 0.15),
            measure(f"plugins list, {options.zoo} broken plugins", LIST, zoo, runs, None),
        ]
    return report(rows, runs, options.json)


if __name__ == "__main__":
    sys.exit(main())
