"""What is known of users, in PARPO's anchors and in the histories of empirical_bayes: by hand, and by properties."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw.errors import SettingsError
from agentfw.optimizer import Advantage, Optimizer, Scored
from agentfw.scores import Score

from .conftest import chosen, make, values

AT_ONCE = {"variance": "batch", "warm_up": 1}
"""Anchors that count from the second batch on and have their batch's variance: these can be followed by hand."""


def test_a_new_user_is_compared_within_the_group() -> None:
    """Personal 1 and 3, base 1 and 0; nothing is known of ada.

    Both tracks by the group's spread: personal -0.707, 0.707, base 0.707, -0.707; half of each: 0 and 0. Without the
    base track: half of -0.707 and 0.707. Afterwards ada's anchor has mean 2, and variance 1 (by n).
    """
    batch = [make.tracked([1.0, 0.0], [1.0, 3.0])]
    parpo = chosen("parpo", AT_ONCE)

    assert values(parpo.advantages(batch)) == pytest.approx([0.0, 0.0], abs=1e-5)
    assert parpo.state()["anchors"] == {"ada": [2.0, 1.0, 1]}
    assert parpo.metrics()["warming"] == 1.0
    alone = chosen("parpo", {**AT_ONCE, "base_weight": 0.0})
    assert values(alone.advantages(batch)) == pytest.approx([-sqrt(0.5) / 2, sqrt(0.5) / 2], abs=1e-5)


def _second_batch(**settings: object) -> tuple[Optimizer, Sequence[Advantage]]:
    """After ada's anchor came to mean 2 and variance 1: personal 4 and 6, base 1 and 0."""
    parpo = chosen("parpo", {**AT_ONCE, "decay": 0.5, **settings})
    parpo.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])
    return parpo, parpo.advantages([make.tracked([1.0, 0.0], [4.0, 6.0], index=1)])


def test_it_tells_what_share_of_the_groups_an_anchor_judged() -> None:
    """Ada's rewards have differed before, ben is new, and nothing that cem got ever differed."""
    parpo, _ = _second_batch()

    batch = [
        make.tracked([1.0, 0.0], [4.0, 6.0], index=2),
        make.tracked([1.0, 0.0], [4.0, 6.0], index=3, user="ben"),
        make.tracked([1.0, 0.0], [0.5, 0.5], index=4, user="cem"),
    ]
    parpo.advantages(batch)
    begun = chosen("parpo")
    begun.advantages(batch)

    assert "lower optimizer.warm_up" in begun.note()
    assert parpo.note() == ""
    assert parpo.metrics()["anchored"] == 0.5
    assert parpo.metrics()["warming"] == pytest.approx(2 / 3)


def test_both_tracks_add_up() -> None:
    """Base: 0.707, -0.707. Personal: mean 5, cap 2 + 1 = 3, b = 3: 1 and 3. A = (0.707 + 1) / 2, (-0.707 + 3) / 2.

    The anchor was read first. Then it goes half way: mean (2 + 5) / 2, variance (1 + 1) / 2.
    """
    parpo, found = _second_batch()

    assert values(found) == pytest.approx([(sqrt(0.5) + 1) / 2, (3 - sqrt(0.5)) / 2], abs=1e-5)
    assert parpo.state()["anchors"]["ada"] == [3.5, 1.0, 2]
    assert parpo.metrics()["anchor_mean"] == 3.5
    assert parpo.metrics()["anchor_spread"] == 1.0


@pytest.mark.parametrize(
    ("settings", "personal"),
    [
        ({}, [1.0, 3.0]),  # b = min(5, 2 + 1)
        ({"margin": 0.5}, [1.5, 3.5]),  # b = min(5, 2 + 0.5)
        ({"baseline": "max_lower"}, [-1.0, 1.0]),  # b = max(5, 2 - 1)
        ({"baseline": "anchor"}, [2.0, 4.0]),  # b = 2
        ({"baseline": "group"}, [-1.0, 1.0]),  # b = 5
        ({"scale": "group"}, [sqrt(0.5), 3 * sqrt(0.5)]),  # spread of 4 and 6: sqrt(2)
        ({"bound": 1.5}, [0.5, 1.5]),  # 3 from the baseline must be at most 1.5: the anchor's deviation counts as 2
        ({"scale": "group", "bound": 1.0}, [1 / 3, 1.0]),  # the same for the group's
        ({"warm_up": 2}, [-sqrt(0.5), sqrt(0.5)]),  # one batch is not enough to be an anchor
    ],
)
def test_baselines_and_scales(settings: dict[str, object], personal: list[float]) -> None:
    """The personal track alone, ada's anchor at mean 2 and deviation 1, rewards 4 and 6 with mean 5."""
    _, found = _second_batch(base_weight=0.0, personal_weight=1.0, **settings)

    assert values(found) == pytest.approx(personal, abs=1e-5)


def test_in_a_group_of_several_users_each_is_measured_from_their_own_anchor() -> None:
    """ada at 2 with deviation 1, bob at 20 with deviation 10: rewards 3 and 30 are one deviation above for both."""
    parpo = chosen("parpo", {"baseline": "anchor", "base_weight": 0.0, "personal_weight": 1.0})
    parpo.restore({"anchors": {"ada": [2.0, 1.0, 9], "bob": [20.0, 100.0, 9]}})
    ada, bob = make.tracked([0.0, 0.0], [3.0, 30.0]), make.tracked([0.0, 0.0], [3.0, 30.0], user="bob")

    assert values(parpo.advantages([[ada[0], bob[1]]])) == pytest.approx([1.0, 1.0], abs=1e-6)
    assert parpo.state()["anchors"]["bob"][0] == 21.0  # by a tenth of the way
    # The limit is a deviation away, 30 and 10, or half of one, 15; and bob's rewards are on average 50 and 2.
    for baseline, margin, rewards, found in (
        ("min_upper", 1.0, [40.0, 60.0], [1.0, 3.0]),
        ("max_lower", 1.0, [0.0, 4.0], [-1.0, -0.6]),
        ("max_lower", 0.5, [0.0, 4.0], [-1.5, -1.1]),
    ):
        own = {"baseline": baseline, "margin": margin, "base_weight": 0.0, "personal_weight": 1.0}
        one = chosen("parpo", own)
        one.restore({"anchors": {"bob": [20.0, 100.0, 9]}})
        assert values(one.advantages([make.tracked([0.0, 0.0], rewards, user="bob")])) == pytest.approx(found)


def test_the_first_batches_count_alike_and_later_ones_by_the_decay() -> None:
    """Means 0, 3, 6 and 7: one half, a third, and then a quarter of the way. Then 8, of two groups.

    The variance is that within groups: nothing at first, and then a quarter of the mean of 2 and 0.
    """
    parpo, means = chosen("parpo", {"decay": 0.75}), []
    for number, reward in enumerate([0.0, 3.0, 6.0, 7.0]):
        parpo.advantages([make.tracked([0.0, 0.0], [reward, reward], index=number)])
        means.append(parpo.state()["anchors"]["ada"][0])
    parpo.advantages([make.tracked([0.0, 0.0], rewards, index=place) for place, rewards in ((5, [7, 9]), (6, [8, 8]))])

    assert means == pytest.approx([0.0, 1.5, 3.0, 4.0])
    assert parpo.state()["anchors"]["ada"] == pytest.approx([5.0, 0.25, 5])


@pytest.mark.parametrize("baseline", ["min_upper", "max_lower", "anchor", "group"])
def test_single_samples_are_judged_by_the_anchor_whatever_the_baseline(baseline: str) -> None:
    """Anchor at mean 2 and deviation 1: rewards 1.5, 2 and 5 are half a deviation below, at it, and 3 above.

    Compared within the group, nothing is learned.

    Those at the anchor learn nothing, so they aren't counted as anchored. GRPO would learn nothing of any. The variance
    of a single reward is taken around the old mean, (5 - 2)^2 = 9, for around its own it would be 0: (1 + 9) / 2.
    """
    for reward, personal in ((1.5, -0.5), (2.0, 0.0), (5.0, 3.0)):
        personal *= baseline != "group"
        settings = {**AT_ONCE, "baseline": baseline, "base_weight": 0.0, "personal_weight": 1.0, "decay": 0.5}
        parpo = chosen("parpo", settings)
        parpo.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])

        assert values(parpo.advantages([make.tracked([0.0], [reward])])) == pytest.approx([personal], abs=1e-5)
        assert parpo.metrics()["anchored"] == float(personal != 0)
    assert parpo.state()["anchors"]["ada"] == [3.5, 5.0, 2]


def test_with_the_anchor_as_its_baseline_the_variance_is_that_around_the_anchor() -> None:
    """Mean 2, then 4 and 6: squares 4 and 16 around 2, mean 10; half of it and half of 1. Within groups it is 2."""
    settings = {"decay": 0.5, "warm_up": 1}
    for baseline, variance in (("anchor", 5.5), ("min_upper", 1.5)):
        parpo = chosen("parpo", {**settings, "baseline": baseline})
        parpo.restore({"anchors": {"ada": [2.0, 1.0, 1]}})
        parpo.advantages([make.tracked([1.0, 0.0], [4.0, 6.0])])

        assert parpo.state()["anchors"]["ada"] == pytest.approx([3.5, variance, 2])


def test_a_user_whose_reward_never_changed_is_compared_within_the_group() -> None:
    """Five batches of 0, then 1 and 0: an anchor without spread would make of it 1 / 0.01 = 100."""
    parpo = chosen("parpo", {**AT_ONCE, "base_weight": 0.0, "personal_weight": 1.0})
    for _ in range(5):
        parpo.advantages([make.tracked([0.0, 0.0], [0.0, 0.0])])

    found = values(parpo.advantages([make.tracked([0.0, 0.0], [1.0, 0.0])]))

    assert found == pytest.approx([sqrt(0.5), -sqrt(0.5)], abs=1e-5)


def test_alone_a_base_reward_is_measured_from_the_running_mean_of_its_query() -> None:
    """Base rewards 1 and 3 come first, in groups of one: mean 2, variance 1, over both users.

    Base 5: (5 - 2) / 1 = 3, half of it is 1.5. The anchor was read first. Without the setting, there is no base track.
    """
    first = [make.tracked([1.0], [0.5]), make.tracked([3.0], [0.5], index=1, user="ben")]
    second = [make.tracked([5.0], [0.5], index=2, user="cem")]
    running, plain = (chosen("parpo", {**AT_ONCE, "base_baseline": one}) for one in ("running", "group"))
    for parpo in (running, plain):
        assert values(parpo.advantages(first)) == [0.0, 0.0]

    assert values(running.advantages(second)) == pytest.approx([1.5])
    assert values(plain.advantages(second)) == [0.0]
    # One far off is bounded; nothing is known of another query; in a group of two, they are compared; one is too few.
    other = make.tracked([5.0], [0.5], index=4)
    other[0].episode.task = replace(other[0].episode.task, query="another")
    batch = [make.tracked([102.0], [0.5], index=3), other, make.tracked([5.0, 4.0], [0.5, 0.5], index=5)]
    for warm_up, bounded in ((1, 2.0), (2, 0.0)):
        known = chosen("parpo", {**AT_ONCE, "base_baseline": "running", "warm_up": warm_up})
        known.restore({"anchors": {}, "queries": {"": [2.0, 1.0, 1]}})
        half = sqrt(0.5) / 2
        assert values(known.advantages(batch)) == pytest.approx([bounded, 0.0, half, -half], abs=1e-5)
    assert known.state()["queries"]["another"] == [5.0, 0.0, 1]
    again = chosen("parpo", {**AT_ONCE, "base_baseline": "running"})
    again.restore(json.loads(json.dumps(running.state())))
    assert again.state() == running.state()


def test_a_training_starts_with_the_anchors_of_another_one(tmp_path: Path) -> None:
    first = chosen("parpo", AT_ONCE)
    first.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"update": 1, "optimizer": first.state()}))

    second = chosen("parpo", {**AT_ONCE, "anchors": str(state)})

    assert second.state()["anchors"] == {"ada": [2.0, 1.0, 1]}
    with pytest.raises(SettingsError, match=r"optimizer\.anchors"):
        chosen("parpo", {"anchors": str(tmp_path / "nothing.json")})


# -- empirical_bayes ---------------------------------------------------------------------------------------------------


relaxed = settings(deadline=None, max_examples=25)
Batch = Sequence[tuple[str, Sequence[float]]]
"""The groups of a batch: a user each, and what they give."""
PERSONAL = {"base_weight": 0.0, "personal_weight": 1.0}


def group(user: str, rewards: Sequence[float], index: int = 0) -> list[Scored]:
    """The samples of one request, with a reward on the personal track only."""
    episodes = [make.episode(sample, index=index, user=user) for sample in range(len(rewards))]
    return [
        Scored(episode, (Score(episode.id, "thumb", reward, "personal"),), reward)
        for episode, reward in zip(episodes, rewards, strict=True)
    ]


def a_history(seed: int, users: int = 6, updates: int = 30, size: int = 1) -> list[Batch]:
    """Batches of what some users give, each with a centre and a scale of their own."""
    drawn = random.Random(seed)
    people = [(drawn.gauss(0, 3), math.exp(drawn.gauss(0, 1))) for _ in range(users)]
    return [
        [
            (str(user), [centre + scale * drawn.gauss(0, 1) for _ in range(size)])
            for user, (centre, scale) in enumerate(people)
        ]
        for _ in range(updates)
    ]


def as_batch(batch: Batch) -> list[list[Scored]]:
    return [group(user, rewards, index) for index, (user, rewards) in enumerate(batch)]


def learn(optimizer: Optimizer, batches: Sequence[Batch]) -> None:
    for batch in batches:
        optimizer.advantages(as_batch(batch))


def test_a_single_answer_is_measured_from_its_users_history() -> None:
    """Ada and ben, known well, at 2 and 20 with deviations 1 and 10: rewards one deviation above get the same.

    Half of the variance lies within requests, and that is the unit: sqrt(2) of it are one deviation. Cem is new and as
    these two are on average; one whose weight has halved to a single reward is no part of that.
    """
    track = {"batches": 0, "noise": 0.5, "requests": 0.5}
    people = {"ada": [1e6, 2.0, 1.0], "ben": [1e6, 20.0, 100.0], "rare": [2.0, 1e3, 1.0]}
    for changes, expected in ((PERSONAL, math.sqrt(2)), ({"personal_weight": 0.25, "bound": 1.2}, 0.3)):
        one = chosen("empirical_bayes", {**changes, "discount": 0.5})
        one.restore({"base": {"users": {}, **track}, "personal": {"users": people, **track}})

        found = values(one.advantages([group("ada", [3.0]), group("ben", [30.0], 1), group("cem", [11.0], 2)]))

        assert found == pytest.approx([expected, expected, 0.0], abs=3e-3)
        assert one.state()["personal"]["users"]["ada"][0] == 1e6 / 2 + 1
        assert [one.metrics()[name] for name in ("new_users", "history_share")] == pytest.approx([1 / 3, 1.0])


def test_group_and_history_are_weighed_by_precision() -> None:
    """Ada at 0 with deviation 1, half of it between requests and half within: tau^2 = sigma^2 = 0.5, e^2 = 0.

    Rewards 2 and 4. Each other sample counts a = 0.5 / (0.5 + 0.5) = 1/2, so b is 2 and 1, and r - b 0 and 3. Their
    variance is 2, where 0.5 is expected: d^2 = (0.5 + 2) / 2. With four samples, a = 0.5 / (0.5 + 0.5 / 3) = 3/4, the
    variance is 4, and d^2 = (0.5 + 9 x 4) / 10.

    The first batch alone says how large the shares are: 2, and 3^2 less a half of what was expected; ten is the most.
    """
    one = chosen("empirical_bayes", PERSONAL)
    track = {"batches": 0, "noise": 0.5, "requests": 0.5}
    known = {"base": {"users": {}, **track}, "personal": {"users": {"ada": [1e9, 0.0, 1.0]}, **track}}

    one.restore(known)
    two = values(one.advantages([group("ada", [2.0, 4.0])]))
    assert two == pytest.approx([0.0, 3 / math.sqrt(5 / 4)], abs=5e-3)
    assert [one.state()["personal"][share] for share in ("noise", "requests")] == pytest.approx([2.0, 8.75], abs=5e-3)
    one.restore(known)
    one.advantages([group("ada", [20.0, 22.0])])
    assert one.state()["personal"]["requests"] == 10.0
    one.restore(known)
    four = values(one.advantages([group("ada", [1.0, 1.0, 1.0, 5.0])]))
    assert four == pytest.approx(
        [value / math.sqrt(3.65) for value in [1 - 0.75 * 7 / 3] * 3 + [5 - 0.75 * 1]], abs=5e-3
    )


def test_in_a_group_of_several_users_each_is_measured_from_their_own_history() -> None:
    apart, mixed = chosen("empirical_bayes", PERSONAL), chosen("empirical_bayes", PERSONAL)
    for one in (apart, mixed):
        learn(one, a_history(3))
    ada, ben = group("0", [5.0]), group("1", [-5.0], 1)

    assert values(mixed.advantages([ada + ben])) == pytest.approx(values(apart.advantages([ada, ben])))


@relaxed
@given(st.floats(-1e6, 1e6), st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5))
def test_equal_rewards_give_none(reward: float, sizes: list[int], updates: int) -> None:
    one = chosen("empirical_bayes")
    for _ in range(updates):
        batch = [make.tracked([reward] * n, [reward] * n, index=place, user=str(n)) for place, n in enumerate(sizes)]
        assert set(values(one.advantages(batch))) == {0.0}


def test_in_a_first_batch_each_is_measured_from_the_others() -> None:
    """1 and -1 are 2 apart; the variance of both is 2, and the half of it that lies within requests is the unit."""
    found = values(chosen("empirical_bayes", PERSONAL).advantages([group("ada", [1.0]), group("ben", [-1.0], 1)]))

    assert found == pytest.approx([2.0, -2.0], abs=0.01)


def test_nothing_said_is_no_reward_of_0() -> None:
    """Ada's second answer got no thumb: it teaches nothing, and her history doesn't know of it."""
    for name in ("empirical_bayes", "reinforce", "parpo"):
        with_silence, without = chosen(name, PERSONAL), chosen(name, PERSONAL)
        rated = [group("ada", [1.0]), group("ben", [-1.0, 2.0], 1), group("cem", [0.5], 2)]
        silent = Scored(make.episode(index=3), (Score("00003-0", "length", 9.0),), 9.0)

        assert values(with_silence.advantages([*rated, [silent]])) == [*values(without.advantages(rated)), 0.0]
        assert with_silence.state().get("anchors") == without.state().get("anchors")


@pytest.mark.parametrize("name", ["grpo", "dapo", "gdpo", "gigpo", "turnwise", "reinforce", "empirical_bayes", "dpo"])
def test_what_nobody_has_rated_is_compared_with_nothing(name: str) -> None:
    rated = [make.rewarded([5.0, 5.5]), make.rewarded([6.0, 6.0], index=1)]
    silent = [
        [*group, Scored(make.episode(2, index=index), (), 0.0, unrated=True)] for index, group in enumerate(rated)
    ]

    assert chosen(name).advantages(silent) == chosen(name).advantages(rated)
    assert chosen(name).missing(silent, 2) == chosen(name).missing(rated, 2)


@relaxed
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=3)), min_size=1
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_rewards_give_finite_advantages_within_the_bound(batches: list[list[tuple[str, list[float]]]]) -> None:
    one = chosen("empirical_bayes", PERSONAL)
    for batch in batches:
        found = values(one.advantages(as_batch(batch)))
        assert all(abs(value) <= 5 for value in found)
    one.restore(json.loads(json.dumps(one.state())))


def test_reinforce_compares_with_the_batch() -> None:
    """Base 1 and 0, personal 1 and 3: deviations sqrt(1/2) and sqrt(2), so both tracks cancel; the base track alone."""
    batch = [make.tracked([1.0], [1.0]), make.tracked([0.0], [3.0], index=1, user="ben")]

    assert values(chosen("reinforce").advantages(batch)) == pytest.approx([0.0, 0.0], abs=1e-5)
    alone = values(chosen("reinforce", {"personal_weight": 0.0}).advantages(batch))
    assert alone == pytest.approx([math.sqrt(0.5) / 2, -math.sqrt(0.5) / 2], abs=1e-5)


def test_a_scale_that_changes_overnight_is_learned_within_weeks() -> None:
    """From 0 to 1 stars to 0 to 100: bounded on the first day, and as large as before after fifty updates."""
    one, drawn = chosen("empirical_bayes", PERSONAL), random.Random(5)
    learn(one, [[("ada", [drawn.random()]), ("ben", [drawn.random()])] for _ in range(40)])

    first = values(one.advantages([group("ada", [80.0]), group("ben", [0.5], 1)]))
    assert first[0] == 5.0
    assert abs(first[1]) < 1.0
    learn(one, [[("ada", [100 * drawn.random()]), ("ben", [drawn.random()])] for _ in range(50)])
    later = values(one.advantages([group("ada", [90.0]), group("ben", [0.9], 1)]))
    assert later == pytest.approx([1.4, 1.4], abs=0.7)


def test_one_thumb_a_year_is_measured_from_the_population() -> None:
    """Others give -1 and 1. A user who hasn't been seen for three hundred updates is as good as new, and not kept."""
    one, drawn = chosen("empirical_bayes", PERSONAL), random.Random(5)
    others = [[(str(user), [drawn.choice([-1.0, 1.0])]) for user in range(8)] for _ in range(300)]
    learn(one, [[*others[0], ("rare", [1.0])], *others[1:]])

    assert "rare" not in one.state()["personal"]["users"]
    (found,) = values(one.advantages([group("rare", [1.0])]))
    assert found == pytest.approx(1.0, abs=0.5)
