"""The specs of a sweep: one spec, once for each value of a setting, or for each combination of several.

specs_of_sweep(values, ["environment.conflicts=3,5", "seed=1,2"])  # four specs, "conflicts=3 seed=1" and so on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentfw.runs.spec.run_spec import RunSpec

__all__ = ["specs_of_sweep"]


def specs_of_sweep(values: Mapping[str, Any], sweeps: Sequence[str]) -> dict[str, RunSpec]:
    """The spec of each run, by what sets it apart from the others. All are checked before any is run."""
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.runs.spec.run_spec import apply_assignments, parse_spec

    specs = {}
    for assignments in product(*map(_assignments, sweeps)):
        label = " ".join(map(_short, assignments))
        specs[label] = parse_spec(apply_assignments(values, parse_assignments(assignments)), label)
    return specs


def _assignments(sweep: str) -> list[str]:
    """One assignment for each value: "seed=1,2" becomes ["seed=1", "seed=2"]."""
    from agentfw.errors import UsageError

    key, equals, values = sweep.partition("=")
    several = [value.strip() for value in values.split(",")]
    if not equals or not key or "" in several or len(set(several)) != len(several):
        raise UsageError(
            f'--sweep "{sweep}" isn\'t of the form KEY=A,B with different values',
            fix="--sweep environment.rate=0.1,0.5",
        )
    return [f"{key}={value}" for value in several]


def _short(assignment: str) -> str:
    key, _, value = assignment.partition("=")
    return f"{key.rpartition('.')[2]}={value}"
