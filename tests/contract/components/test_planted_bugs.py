"""The contract of each kind notices the bugs in `planted_bugs`, and nothing in the good components there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from planted_bugs import GOOD, PLANTED, Planted

from agentfw.component import KINDS
from agentfw.testing import check_component, contract, contract_tests

pytestmark = pytest.mark.slow


def failures(kind: str, factory: Callable[[], Any]) -> dict[str, str]:
    return {result.name: result.detail for result in check_component(kind, factory) if not result.passed}


@pytest.mark.parametrize(("kind", "make"), GOOD)
def test_a_good_component_keeps_every_promise(kind: str, make: Callable[[], Any]) -> None:
    assert failures(kind, make) == {}


@pytest.mark.parametrize("bug", PLANTED, ids=[f"{bug.kind}-{bug.name}-{bug.promise}" for bug in PLANTED])
def test_a_planted_bug_is_noticed_by_its_promise(bug: Planted) -> None:
    (check,) = [check for check in contract(bug.kind) if check.__name__ == bug.promise]

    with pytest.raises(AssertionError, match=r"wanted: .*\nbroken: ."):
        contract_tests(bug.kind, bug.make)(check)


def test_examples_of_a_tool_are_called() -> None:
    from agentfw.tool import tool

    @tool
    def half(number: int) -> float:
        """Half a number."""
        return 1 / number

    failed = {
        result.name for result in check_component("tool", lambda: half, examples=[{"number": 0}]) if not result.passed
    }

    assert failed == {"its_examples_succeed"}


def test_every_promise_is_broken_by_one_of_these() -> None:
    caught = {(bug.kind, bug.promise) for bug in PLANTED}
    first = {**dict.fromkeys(KINDS, 2), "plugin": 0, "command": 0}  # promises of every component come first

    promised = {(kind, check.__name__) for kind in first for check in contract(kind)[first[kind] :]}

    # The engagement keeps this one for every environment; the check guards against one that no longer does.
    assert promised - caught == {
        ("environment", "it_ends"),
    }
