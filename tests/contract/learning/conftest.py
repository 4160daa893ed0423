"""What is learned from: scored episodes in a line, batches of tokens, and learners of a small model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import agentfw, install
from contract.learning.examples import Chosen, Make, Table, Values

from agentfw import Learner, Optimizer
from agentfw.testing import fresh_host

__all__ = ["agentfw", "install"]


@pytest.fixture
def make() -> Make:
    return Make()


HOST = fresh_host(builtins=True, strict=False)


@pytest.fixture
def chosen() -> Chosen:
    """An optimizer as a training gets it: by its name, with settings."""

    def choose(name: str, settings: Mapping[str, object] | None = None) -> Optimizer:
        made = HOST.create("optimizer", name, settings or {})
        assert isinstance(made, Optimizer)
        return made

    return choose


@pytest.fixture
def values() -> Values:
    return lambda advantages: [advantage.value for advantage in advantages]


@pytest.fixture
def table() -> Table:
    return lambda advantages: {(one.episode, one.turn): one.value for one in advantages}


@pytest.fixture
def learner_of(small_model: Path) -> Callable[..., Learner]:
    """A learner of the small model as a training gets it: by its name, with settings."""

    def make(name: str = "lora", **settings: Any) -> Learner:
        made = HOST.create("learner", name, {"model": str(small_model), "device": "cpu", **settings})
        assert isinstance(made, Learner)
        return made

    return make
