"""The contract of each kind notices the bugs in `planted_bugs`, and nothing in the good components there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from planted_bugs import GOOD, PLANTED, Bug

from agentfw.component import KINDS
from agentfw.testing import check_component, contract, contract_tests
from agentfw.tool import tool


def failures(kind: str, factory: Callable[[], Any], examples: Sequence[Mapping[str, Any]] = ()) -> set[str]:
    return {result.name for result in check_component(kind, factory, examples=examples) if not result.passed}


@pytest.mark.parametrize(("kind", "make"), GOOD)
def test_a_good_component_keeps_every_promise(kind: str, make: Callable[[], Any]) -> None:
    assert failures(kind, make) == set()


@pytest.mark.parametrize(("kind", "bug"), PLANTED, ids=lambda value: getattr(value, "promise", value))
def test_a_planted_bug_is_noticed_by_its_promise(kind: str, bug: Bug) -> None:
    (check,) = [check for check in contract(kind) if check.__name__ == bug.promise]

    with pytest.raises(AssertionError, match=r"wanted: .*\nbroken: ."):
        contract_tests(kind, bug.make)(check)


def test_examples_of_a_tool_are_called() -> None:
    @tool
    def half(number: int) -> float:
        """Half a number."""
        return 1 / number

    assert failures("tool", lambda: half, [{"number": 0}]) == {"its_examples_succeed"}


def test_every_promise_is_broken_by_one_of_these() -> None:
    caught = {(kind, bug.promise) for kind, bug in PLANTED}
    first = {**dict.fromkeys(KINDS, 2), "plugin": 0, "command": 0}  # promises of every component come first

    promised = {(kind, check.__name__) for kind in first for check in contract(kind)[first[kind] :]}

    # The engagement keeps this one for every environment; the check guards against one that no longer does.
    assert promised - caught == {("environment", "it_ends")}
