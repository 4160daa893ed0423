"""The reward model keeps what one promises."""

import pytest

pytest.importorskip("networkx")

from agentfw.testing import contract_tests, fresh_host, made_by

test_promise = contract_tests("reward", made_by(fresh_host("agentfw_circles.plugin"), "reward", "circles"))
