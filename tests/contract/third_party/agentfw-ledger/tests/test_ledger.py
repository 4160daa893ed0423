"""The tracker keeps what a tracker promises."""

from agentfw.testing import contract_tests, fresh_host, made_by

test_promise = contract_tests("tracker", made_by(fresh_host("agentfw_ledger.plugin"), "tracker", "ledger"))
