"""A gateway that learns: what beats what, what is served, and that feedback over HTTP makes a better version."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw import Message
from agentfw.errors import StorageError, UsageError
from agentfw_plugins.gateway.learning.comparison import LEVEL, Comparison, compare
from agentfw_plugins.gateway.learning.ratings import Rating
from agentfw_plugins.gateway.learning.shared_versions import SharedVersionFile
from agentfw_plugins.gateway.learning.trainer import judge
from agentfw_plugins.gateway.learning.version_file import Removal, State, Version, VersionFile
from agentfw_plugins.gateway.live import opened


def compared(new: list[float], liked: list[bool], seed: int = 7) -> Comparison:
    """Answers of the policy as it came, which gave all of them as often."""
    return compare({"v0": [0.0] * len(new), "new": new}, "new", "v0", ["v0"] * len(new), liked, seed)


@cache
def by_nothing() -> list[Comparison]:
    draw, likes = random.Random(7), [number % 3 == 0 for number in range(30)]
    return [compared([draw.gauss(-0.5, 1) for _ in likes], likes, seed) for seed in range(240)]


def test_thumbs_that_say_nothing_make_a_version_better_no_more_often_than_the_level() -> None:
    # 12 of 240 are expected at the level of 0.05; more than 23 would be seen in one of a thousand cases.
    assert sum(one.is_better() for one in by_nothing()) <= 23


def test_a_version_is_better_if_it_gives_liked_answers_more_often_than_before() -> None:
    likes = [number % 2 == 0 for number in range(20)]
    changes = [0.5 if like else -0.5 for like in likes]
    found = compared(changes, likes)

    assert found.is_better()
    assert (found.before, found.left, found.answers) == (0.5, 1.0, 20)
    assert found.liked == pytest.approx(math.exp(0.5) / (math.exp(0.5) + math.exp(-0.5)))
    assert not compared([1.0] * 20, likes).is_better(), "all answers are likelier"
    assert not compared([-change for change in changes], likes).is_better()


def test_a_version_that_says_something_else_than_was_rated_is_not_better() -> None:
    likes = [number % 2 == 0 for number in range(20)]
    ruined = compared([(0.5 if like else -0.5) - 20.0 for like in likes], likes)

    assert ruined.liked > ruined.before
    assert ruined.p_value < LEVEL
    assert not ruined.is_better()
    assert "of liked answers only 0.000 is left" in str(ruined)


def test_the_share_of_liked_answers_is_estimated_from_what_two_other_versions_said() -> None:
    """The answers A, B and C; A is liked. What v1 has unlearned and the new version unlearns further gains nothing."""
    shares = {
        "v0": (0.3, 0.3, 0.4),
        "v1": (0.5, 0.49, 0.01),
        "same": (0.5, 0.4999, 0.0001),
        "new": (0.7, 0.2999, 0.0001),
    }
    draw = random.Random(7)
    given_by = ["v0", "v1"] * 400
    said = [draw.choices(range(3), shares[version])[0] for version in given_by]
    logprobs = {version: [math.log(shares[version][one]) for one in said] for version in shares}
    same, better = (compare(logprobs, name, "v1", given_by, [one == 0 for one in said]) for name in ("same", "new"))

    assert [same.before, same.liked] == pytest.approx([0.5, 0.5], abs=0.06)
    assert better.liked == pytest.approx(0.7, abs=0.06)
    assert better.is_better()


def state() -> State:
    versions = [
        Version(1, 1.0, "served", 0, "00001/a", ["one"]),
        Version(2, 2.0, "rejected", 1),
        Version(3, 3.0, "served", 1, "00003/a", ["one", "two"]),
        Version(4, 4.0, "canary", 3, "00004/a", ["three"]),
    ]
    return State(versions, served=3, canary=4, share=0.25)


def numbers(versions: list[Version]) -> list[int]:
    return [one.number for one in versions]


def test_rolling_back_takes_the_canary_and_then_one_served_version_after_the_other() -> None:
    rolled = state()

    assert [rolled.roll_back() for _ in range(3)] == [(4, 3), (3, 1), (1, 0)]
    with pytest.raises(UsageError, match="nothing to roll back"):
        rolled.roll_back()


def test_versions_that_learned_from_removed_feedback_are_withdrawn_and_the_newest_other_one_is_served() -> None:
    removed, all_removed, none_removed = state(), state(), state()

    span = Removal("ada", "tea", since=1.0, until=2.0)
    assert [span.holds("ada", "tea", at) for at in (0.9, 1.0, 2.0)] == [False, True, False]
    assert [span.holds("eve", "tea", 1.5), span.holds("ada", "cake", 1.5)] == [False, False]
    assert numbers(removed.remove(Removal(session="two"), {"two"})) == [3]
    removed.remove(Removal(user="eve"), set())
    assert (removed.served, removed.canary, removed.rebuild) == (1, 4, True)
    assert not removed.rebuilds, "the trial ends first"
    assert numbers(all_removed.remove(Removal(until=9.0), {"one", "two", "three"})) == [1, 3, 4]
    assert (all_removed.served, all_removed.canary) == (0, 0)
    assert none_removed.remove(Removal(user="eve"), set()) == []
    assert (none_removed.served, none_removed.canary, none_removed.rebuild) == (3, 4, False)


def test_a_version_that_went_on_from_a_withdrawn_one_is_withdrawn_too() -> None:
    later = state()
    later.version(4).start = 3

    assert numbers(later.remove(Removal(session="two"), {"two"})) == [3, 4]
    assert (later.served, later.canary) == (1, 0)


def test_a_canary_has_its_share_of_the_sessions_and_keeps_them() -> None:
    given = state()
    names = [f"s{number}" for number in range(2000)]
    versions = [given.for_session(name) for name in names]

    # 500 are expected, and 5 standard deviations are 97.
    assert abs(versions.count(4) - 500) < 97
    assert versions == [given.for_session(name) for name in names]
    given.judge(worse=True, why="")
    assert {given.for_session(name) for name in names} == {3}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--policy", "scripted", "--set", 'policy.replies=["Hello."]', "--learn"), "can't learn while it serves"),
        (("--policy", "tiny", "--canary", "0.1"), "add --learn"),
    ],
)
def test_learning_is_refused_where_it_can_not_be_done(agentfw: Agentfw, options: tuple[str, ...], words: str) -> None:
    answer = agentfw("serve", "--port", "0", *options)

    assert answer.code == 2
    assert words in answer.err


def thumbs(version: str, liked: int, disliked: int, at: float = 5.0) -> list[Rating]:
    return [Rating("tea", "ada", at, number < liked, version, (), (), False) for number in range(liked + disliked)]


def judged(tmp_path: Path, ratings: list[Rating]) -> State:
    file = VersionFile(tmp_path)
    file.create()
    with file.change() as changed:
        given = state()
        changed.versions, changed.served, changed.canary, changed.every = given.versions, 3, 4, 40
    judge(file, ratings)
    return file.read()


def test_a_version_on_trial_replaces_the_served_one_if_it_is_liked_as_often_in_the_same_time(tmp_path: Path) -> None:
    earlier = thumbs("v3", 90, 10, at=3.0)
    found = judged(tmp_path, [*earlier, *thumbs("v3", 10, 10), *thumbs("v4", 10, 10)])

    assert (found.served, found.canary, found.version(4).outcome) == (4, 0, "served")


def test_a_version_that_is_liked_less_on_trial_is_taken_back_with_the_reason(tmp_path: Path) -> None:
    found = judged(tmp_path, [*thumbs("v3", 10, 10), *thumbs("v4", 9, 11)])

    assert (found.served, found.canary, found.version(4).outcome) == (3, 0, "worse as a canary")
    assert "liked 0.45 of 20 answers of the canary and 0.50 of 20 others" in found.version(4).why
    assert found.said == f"v4 worse as a canary: {found.version(4).why}"


def test_a_trial_goes_on_until_enough_answers_of_both_are_rated(tmp_path: Path) -> None:
    few = judged(tmp_path / "few", [*thumbs("v3", 10, 9), *thumbs("v4", 0, 20)])
    one_sided = judged(tmp_path / "one-sided", [*thumbs("v3", 58, 0), *thumbs("v4", 0, 2)])

    assert (few.canary, one_sided.canary) == (4, 4)
    assert one_sided.said == "v4 is on trial: 2 of its answers are rated, 58 others"


def test_the_list_of_versions_says_that_one_is_being_made(agentfw: Agentfw, tmp_path: Path) -> None:
    live = opened(tmp_path, policy="tiny")
    file = VersionFile(live.folder.path)
    file.create()

    async def rate() -> None:
        async with live:
            session = live.begin("tea", user="ada")
            await session.answer([Message("user", "hello")])
            session.feedback(1.0)
            await live.keep(session)
            await (other := live.begin("cake", user="eve")).answer([Message("user", "hello")])
            other.feedback(5.0, metric="stars")
            await live.keep(other)

    asyncio.run(rate())
    few = agentfw("serve", "versions", "--runs", str(tmp_path)).out
    with file.change() as changed:
        changed.every, changed.versions, changed.served = 1, [Version(1, 1.0, "served", 0, "00001/a", ["cake"])], 1
    enough = agentfw("serve", "versions", "--runs", str(tmp_path)).out
    forgotten = agentfw("serve", "forget-feedback", "--user", "eve", "--runs", str(tmp_path), "--json").json

    assert "not enough feedback yet: 1 new ratings, 40 needed" in few
    assert "a version is being made, if a gateway runs: 1 new ratings, 1 needed" in enough
    assert forgotten == {"left_out": 0, "withdrawn": ["v1"], "served": "v0"}, "it learned from another metric"


# -- versions that gateways share --------------------------------------------------------------------------------------


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
    half = b.adapter(version).with_name("made.part")  # of a gateway that was killed while it fetched
    half.parent.mkdir(parents=True)
    if is_folder:
        half.mkdir()
        (half / "adapter.safetensors").write_bytes(b"half")
    else:
        half.write_bytes(b"half")
    fetched = b.fetch(b.read().version(1))
    assert fetched != a.adapter(version)
    weights = fetched / "adapter.safetensors" if is_folder else fetched
    assert weights.read_bytes() == content
    assert (b.heard_elsewhere(3), a.heard_elsewhere(2), b.heard_elsewhere(0), a.heard_elsewhere(0)) == (0, 3, 2, 0)


def test_feedback_at_gateways_that_share_their_sessions_is_left_out(two: Two, anywhere: str, agentfw: Agentfw) -> None:
    told = agentfw("serve", "forget-feedback", "--user", "mallory", "--sessions", anywhere, "--json")

    assert told.json == {"left_out": 0, "withdrawn": [], "served": "v0"}
    assert [gone.user for gone in two[0].read().removals] == ["mallory"]


def test_a_gateway_with_another_policy_does_not_serve_these_versions(two: Two, anywhere: str, tmp_path: Path) -> None:
    with two[0].change() as changed:
        changed.versions = state().versions
    other = SharedVersionFile(tmp_path / "c", anywhere, policy="transformers")

    with pytest.raises(UsageError, match="learn for another policy"):
        other.create()
    other.database.close()
