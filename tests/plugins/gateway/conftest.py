"""A gateway in a thread of this process, and the rule that its scripted policy follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving_gateways import CLIENT, gateway_of
from serving_gateways import EARS as EARS_FILE
from serving_gateways import Gateway as Served

from agentfw import Intervention, Moment
from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits

__all__ = ["CLIENT", "EARS", "Serve", "Served", "gateway", "rule", "serve", "served"]

EARS = str(EARS_FILE)
"""A memory in one file that keeps all that users say."""


def rule(moment: Moment) -> Iterator[Intervention | str]:
    """Looks up the weather where it is asked about it, says it when it is known, and else repeats what was said."""
    for answer in moment.of("answer"):
        yield f"The weather is {answer.text}."
        return
    for said in moment.of("message")[-1:]:
        if "weather" in said.text.lower():
            yield Intervention("weather", {"city": said.text.split()[-1].strip("?")})
        else:
            yield f"You said: {said.text}"
        return
    yield "Nothing new."


@contextmanager
def served(runs: Path, limits: Limits | None = None, **options: Any) -> Iterator[Served]:
    """Serve until the block ends, then in good order until every session is concluded."""
    with gateway_of(runs, limits=limits, keeps_sessions=False, **options) as running:
        yield running


@pytest.fixture(params=["file", "postgres"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where gateways share sessions: a file, then PostgreSQL."""
    if request.param == "file":
        return str(tmp_path / "sessions.db")
    database: Callable[[], str] = request.getfixturevalue("postgres_database")
    return database()


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts gateways, by default with the rule above."""
    with ExitStack() as stack:

        def start(limits: Limits | None = None, **options: Any) -> Served:
            if "policy" not in options and "resume" not in options:
                options = {"policy": "scripted", "assignments": [f"policy.rule={__name__}:rule"], **options}
            return stack.enter_context(served(tmp_path / "runs", limits, **options))

        yield start


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts gateways, each in front of a server that gives these answers."""
    from .upstream import passing

    with ExitStack() as stack:
        yield lambda *script, **more: stack.enter_context(passing(tmp_path / "runs", *script, **more))


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One gateway that several tests may use, each with sessions of its own."""
    rule = f"policy.rule={__name__}:rule"
    with served(tmp_path_factory.mktemp("runs"), policy="scripted", assignments=[rule]) as running:
        yield running
