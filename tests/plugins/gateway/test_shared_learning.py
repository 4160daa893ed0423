"""Gateways that share their sessions learn together: one trains, all serve, and another takes over when it dies."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentfw.errors import StorageError, UsageError

from .test_learning import state

pytest.importorskip("sqlalchemy")

from agentfw_plugins.gateway.learning.shared_versions import SharedVersionFile
from agentfw_plugins.gateway.learning.version_file import Version

LEASE = 0.5


@pytest.fixture
def two(anywhere: str, tmp_path: Path) -> Iterator[tuple[SharedVersionFile, SharedVersionFile]]:
    """The versions as two gateways see them, each with a run of its own."""
    a, b = (SharedVersionFile(tmp_path / name, anywhere, policy="tiny", lease=LEASE) for name in "ab")
    for one in (a, b):
        one.create()
    yield a, b
    for one in (a, b):
        one.close()


Two = tuple[SharedVersionFile, SharedVersionFile]


@pytest.mark.slow
def test_one_gateway_trains_until_it_ends_or_says_nothing_for_the_time_of_its_lease(two: Two, anywhere: str) -> None:
    a, b = two
    trainer = SharedVersionFile(a.run, anywhere, policy="tiny", holder=a.holder)

    assert (a.lead(), b.lead(), a.lead()) == (True, False, True)
    with trainer.change() as changed:
        changed.said = "made"
    time.sleep(2 * LEASE)  # a was killed
    assert (b.lead(), a.lead()) == (True, False)
    with pytest.raises(StorageError, match="another gateway trains"), trainer.change() as changed:
        changed.said = "made too late"
    assert b.read().said == "made"
    with a.change() as changed:
        assert changed.said == "made", "a person may roll back at any gateway"

    trainer.database.close()
    b.close()  # stopped in order: nobody waits
    assert a.lead()


@pytest.mark.slow
@pytest.mark.parametrize("is_folder", [True, False])
def test_what_one_gateway_made_is_served_by_all_and_what_they_hear_is_counted_together(
    two: Two, tmp_path: Path, is_folder: bool
) -> None:
    a, b = two
    made = tmp_path / "made"
    content = random.Random(7).randbytes(2**23 + 5)  # more than fits into one row
    if is_folder:
        made.mkdir()
        (made / "adapter.safetensors").write_bytes(content)
        (made / "adapter_config.json").write_text("{}")
    else:
        made.write_bytes(content)
    version = Version(1, 1.0, "served", 0, "00001/made", ["one"])
    a.keep(version, made)
    with a.change() as changed:
        changed.versions, changed.served = [version], 1

    assert b.read() == a.read()
    fetched = b.fetch(b.read().version(1))
    assert fetched != a.adapter(version)
    weights = fetched / "adapter.safetensors" if is_folder else fetched
    assert weights.read_bytes() == content
    assert (b.heard_elsewhere(3), a.heard_elsewhere(2), b.heard_elsewhere(0), a.heard_elsewhere(0)) == (0, 3, 2, 0)


@pytest.mark.slow
def test_a_gateway_with_another_policy_does_not_serve_these_versions(two: Two, anywhere: str, tmp_path: Path) -> None:
    with two[0].change() as changed:
        changed.versions = state().versions
    other = SharedVersionFile(tmp_path / "c", anywhere, policy="transformers")

    with pytest.raises(UsageError, match="learn for another policy"):
        other.create()
    other.database.close()
