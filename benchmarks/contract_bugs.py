"""Plants bugs in small components, and counts how many the contract suites notice.

    python benchmarks/contract_bugs.py
    python benchmarks/contract_bugs.py --kinds memory --json

Each bug stands in tests/planted_bugs, with the promise that has to name it. A bug is noticed if this promise is broken.
The good components there must break none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from agentfw.component import KINDS
from agentfw.testing import check_component
from agentfw_benchmarks import TESTS, Options, print_markdown, tell

sys.path.append(str(TESTS))
from planted_bugs import GOOD, PLANTED


def broken(kind: str, make: Any) -> list[str]:
    """The promises that a component doesn't keep."""
    return [result.name for result in check_component(kind, make) if not result.passed]


def measure(kinds: Sequence[str]) -> dict[str, Any]:
    rows = [
        {
            "kind": bug.kind,
            "bug": bug.what,
            "promise": bug.promise,
            "noticed": bug.promise in broken(bug.kind, bug.make),
        }
        for bug in PLANTED
        if bug.kind in kinds
    ]
    good = [(kind, make) for kind, make in GOOD if kind in kinds]
    alarms = [f"{kind}: {promise}" for kind, make in good for promise in broken(kind, make)]
    noticed = sum(bool(row["noticed"]) for row in rows)
    return {"planted": len(rows), "noticed": noticed, "rows": rows, "good": len(good), "false_alarms": alarms}


def show(found: dict[str, Any]) -> None:
    cells = [[row["kind"], row["bug"], row["promise"], "yes" if row["noticed"] else "NO"] for row in found["rows"]]
    print_markdown(["kind", "bug", "promise that names it", "noticed"], cells)
    print(f"\n{found['noticed']} of {found['planted']} bugs noticed")
    print(f"{len(found['false_alarms'])} false alarms in {found['good']} good components", *found["false_alarms"])


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, kinds=[*KINDS, "plugin", "command"]).parse_args(arguments)
    return tell(measure(options.kinds), options.json, show)


if __name__ == "__main__":
    main()
