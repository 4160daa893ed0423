"""The table of calls is complete, and the layers that are made from it know no more than that."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from agentfw.boundary.calls import KINDS_OF_CALLS
from agentfw.boundary.crossing import Guarded

NOT_CALLED = {
    "environment": {"goal", "time_per_token"},  # by itself
    "optimizer": {"forget"},  # when no run goes on
    "learner": {"logprobs"},  # by `score`
    "policy": {"priced", "beside"},  # arithmetic on its price; by a gateway that learns, inside the layers
    "tool": {"call"},  # by `answer`
}


@pytest.mark.parametrize("kind", KINDS_OF_CALLS)
def test_every_method_of_a_kind_stands_in_the_table(kind: str) -> None:
    table = KINDS_OF_CALLS[kind]
    methods = {name for name, _ in inspect.getmembers(table.base, inspect.isfunction) if not name.startswith("_")}

    assert methods - NOT_CALLED.get(kind, set()) == set(table.calls)


def test_the_boundary_imports_neither_hosts_nor_runs() -> None:
    folder = Path(inspect.getfile(Guarded)).parent

    lines = [line for file in folder.glob("*.py") for line in file.read_text("utf-8").splitlines()]

    imported = {line.split()[1] for line in lines if line.lstrip().startswith("from ..")}
    rooms = {"..host", "..runs", "..engine", "..printing", "..report", "..scaffold", "..testing", "..turns"}
    assert not {name for name in imported if any(name == room or name.startswith(f"{room}.") for room in rooms)}
