"""Gateways that share their sessions learn together: one trains, all serve, and another takes over when it dies."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from waiting import until

from agentfw.errors import StorageError, UsageError

from . import killing
from .test_learning import LIKED, PATIENCE, SPEC, state

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


@pytest.mark.nightly
def test_two_gateways_learn_and_judge_a_trial_by_the_feedback_of_both_and_one_goes_on_when_the_trainer_is_killed(
    postgres_database: Callable[[], str], tmp_path: Path
) -> None:
    where = postgres_database()
    (tmp_path / "spec.toml").write_text(SPEC)
    options = ["--policy", "tiny", "--set", "policy.model=tiny-assistant", "--sessions", where]
    options += ["--learn", "--learn-every", "45", "--learn-spec", str(tmp_path / "spec.toml")]
    gateways = {name: killing.start(tmp_path / name, *options) for name in "ab"}
    file = SharedVersionFile(tmp_path, where)
    draw, number = random.Random(7), 0
    end = time.monotonic() + PATIENCE

    def talk() -> set[str]:
        """A conversation with a thumb at each gateway. Returns the versions that answered."""
        nonlocal number
        versions = set()
        for _, url, _ in gateways.values():
            session, number = f"c{number}", number + 1
            question = f"{draw.choice(['tea', 'bread', 'rice'])} {draw.randint(1, 99)}"
            message = {"role": "user", "content": question}
            body = {"model": "agentfw", "temperature": 1, "max_tokens": 60, "user": "ada", "messages": [message]}
            answer = httpx.post(f"{url}/s/{session}/v1/chat/completions", json=body, timeout=PATIENCE)
            text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
            rating = {"value": "up" if LIKED in text else "down", "user": "ada"}
            httpx.post(f"{url}/s/{session}/feedback", json=rating, timeout=60).raise_for_status()
            versions.add(answer.headers["x-agentfw-version"])
        assert time.monotonic() < end, file.read().said
        return versions

    def trainers() -> list[str]:
        return [name for name, (_, _, run) in gateways.items() if killing.trainer_of(run)]

    try:
        assert set.union(*(talk() for _ in range(23))) == {"v0"}
        until(lambda: len(trainers()) == 1, lambda: file.read().said)
        (first,) = trainers()
        gateways[first][0].kill()  # in the middle of its training
        gateways.pop(first)[0].communicate()
        assert not file.read().versions

        (made,) = until(lambda: file.read().versions)  # by the other from the feedback of both
        assert made.outcome == "canary", made.why
        assert made.ratings > 23, "one gateway alone heard 23"
        gateways["c"] = killing.start(tmp_path / "c", *options[: options.index("--learn")])

        on_trial = set.union(*(talk() for _ in range(23)))
        assert on_trial == {"v0", "v1"}
        until(lambda: not file.read().canary, lambda: file.read().said)
        judged = file.read().version(1)
        assert judged.outcome == "served", judged.why
        counted = re.search(r" of (\d+) answers of the canary and .+ of (\d+) others", judged.why)
        assert counted, judged.why
        assert sum(map(int, counted.groups())) >= 45, "one gateway alone heard 23"
        while talk() != {"v1"}:
            pass
    finally:
        for process, _, _ in gateways.values():
            process.kill()
            process.communicate()
        file.database.close()
