"""What was recorded, as `agentfw view` shows it: `view_of` serves the pages of a directory of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from viewed_pages import viewed

from ..gateway.conftest import agentfw

__all__ = ["agentfw", "view_of"]

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def view_of() -> Iterator[Callable[[Path], str]]:
    """Serves the pages of a directory of runs. Gives their address."""
    with ExitStack() as stack:
        yield lambda runs: stack.enter_context(viewed(runs))
