"""Plants bugs in small components, and counts how many the contract suites notice.

Each bug stands in tests/planted_bugs, with the promise that has to name it. A bug is noticed if this promise is broken.
The good components there must break none: tests/contract/components checks those that ship.

    python benchmarks/contract_bugs.py
    python benchmarks/contract_bugs.py --kinds memory --json
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


def measure(kinds: Sequence[str]) -> dict[str, Any]:
    rows = []
    for bug in PLANTED:
        if bug.kind in kinds:
            broken = {result.name: result.detail for result in check_component(bug.kind, bug.make) if not result.passed}
            row = {"kind": bug.kind, "name": bug.name, "bug": bug.what, "promise": bug.promise}
            rows.append({**row, "noticed": bug.promise in broken, "detail": broken.get(bug.promise, "")})
    good = [(kind, make) for kind, make in GOOD if kind in kinds]
    alarms = [
        {"kind": kind, "promise": result.name, "detail": result.detail}
        for kind, make in good
        for result in check_component(kind, make)
        if not result.passed
    ]
    noticed = sum(row["noticed"] for row in rows)
    return {"planted": len(rows), "noticed": noticed, "rows": rows, "good": len(good), "false_alarms": alarms}


def show(found: dict[str, Any]) -> None:
    cells = [[row["kind"], row["bug"], row["promise"], "yes" if row["noticed"] else "NO"] for row in found["rows"]]
    print_markdown(["kind", "bug", "promise that names it", "noticed"], cells)
    print(f"\n{found['noticed']} of {found['planted']} bugs noticed")
    print(f"{len(found['false_alarms'])} false alarms in {found['good']} good components")
    for alarm in found["false_alarms"]:
        print(f"  {alarm['kind']}: {alarm['promise']}: {alarm['detail']}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, kinds=[*KINDS]).parse_args(arguments)
    return tell(measure(options.kinds), options.json, show)


if __name__ == "__main__":
    main()
