"""Tools for testing plugins: a host of their own, and the promises that each kind of component keeps.

Nothing here needs pytest to run, and nothing raises for a component that fails: a broken promise is a
result that says which one and how. `agentfw plugins check` and a plugin's own tests use the same checks.

In tests, pytest has the fixtures `agentfw_host`, `agentfw_runs` and `fake_model`, without any import: see `fixtures`.

    # tests/test_contract.py of a plugin: each promise is a test of its own
    from agentfw.testing import contract_tests, made_by, fresh_host

    test_notebook = contract_tests("memory", made_by(fresh_host("my_plugin.plugin"), "memory", "notebook"))

Without pytest:

    for result in run_contract(fresh_host("my_plugin.plugin"), "memory", "notebook"):
        print("ok  " if result.passed else "FAIL", result.promise, result.detail)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checks import BrokenPromise, CheckFunction, CheckResult, DoesNotApply, Subject, sample_episode, sample_group
    from .contracts import check_component, contract, contract_tests, fresh_host, made_by, run_contract
    from .fixtures import FakeModel
    from .tools import drawn

__all__ = [
    "BrokenPromise",
    "CheckFunction",
    "CheckResult",
    "DoesNotApply",
    "FakeModel",
    "Subject",
    "check_component",
    "contract",
    "contract_tests",
    "drawn",
    "fresh_host",
    "made_by",
    "run_contract",
    "sample_episode",
    "sample_group",
]

_CONTRACTS = ("check_component", "contract", "contract_tests", "fresh_host", "made_by", "run_contract")
_HOME = {"FakeModel": "fixtures", "drawn": "tools", **dict.fromkeys(_CONTRACTS, "contracts")}  # the others: `checks`


def __getattr__(name: str) -> object:
    # Imported when asked for: every pytest run on this machine imports this package for the sake of its fixtures.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, 'checks')}"), name)
