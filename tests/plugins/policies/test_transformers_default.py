"""What is said of the policy `transformers` where nobody chose its model."""

from __future__ import annotations

import pytest

from agentfw.testing import fresh_host


@pytest.mark.parametrize(("settings", "said"), [({}, True), ({"model": "tiny"}, False)])
def test_the_model_that_nobody_chose_is_named(settings: dict[str, str], said: bool) -> None:
    pytest.importorskip("torch")
    host = fresh_host(builtins=True)

    host.create("policy", "transformers", settings)

    assert any("tiny" in note and "--model" in note for note in host.notes) == said
