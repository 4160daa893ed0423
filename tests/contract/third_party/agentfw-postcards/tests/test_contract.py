"""What agentfw expects of every memory and of every tool; each promise is a test of its own."""

from agentfw.testing import contract_tests, fresh_host, made_by

HOST = fresh_host("agentfw_postcards.plugin")

test_memory = contract_tests("memory", made_by(HOST, "memory", "postcards"))
test_tool = contract_tests("tool", made_by(HOST, "tool", "stamp"))
