"""What agentfw expects of every memory; each promise is a test of its own."""

from agentfw.testing import contract_tests, fresh_host, made_by

test_memory = contract_tests("memory", made_by(fresh_host("agentfw_postcards.plugin"), "memory", "postcards"))
