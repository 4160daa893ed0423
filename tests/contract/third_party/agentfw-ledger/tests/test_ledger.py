"""The tracker keeps what a tracker promises, and a run that is resumed is in the ledger once."""

from pathlib import Path

from agentfw.testing import contract_tests, fresh_host, made_by

from agentfw_ledger.tracker import Ledger, LedgerSettings, results

test_promise = contract_tests("tracker", made_by(fresh_host("agentfw_ledger.plugin"), "tracker", "ledger"))


def test_a_run_that_ends_twice_is_in_the_ledger_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for utility in (1.0, 2.0):
        tracker = Ledger(LedgerSettings(path=path))
        tracker.begin("morning", tmp_path, {})
        tracker.finish({"utility": utility})

    assert results(path) == [("morning", "utility", 2.0)]
