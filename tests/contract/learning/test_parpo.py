"""PARPO by hand: its two tracks, its anchors, its baselines and scales, and what becomes of them at a restart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import pytest

from agentfw.errors import SettingsError, StorageError
from agentfw.optimizer import Advantage, Optimizer

from .conftest import Chosen, Make, Values

AT_ONCE = {"variance": "batch", "warm_up": 1}
"""Anchors that count from the second batch on and have their batch's variance: these can be followed by hand."""
HALF = pytest.approx(sqrt(0.5), abs=1e-5)


def test_a_new_user_is_compared_within_the_group(chosen: Chosen, make: Make, values: Values) -> None:
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


def _second_batch(chosen: Chosen, make: Make, **settings: object) -> tuple[Optimizer, Sequence[Advantage]]:
    """After ada's anchor came to mean 2 and variance 1: personal 4 and 6, base 1 and 0."""
    parpo = chosen("parpo", {**AT_ONCE, "decay": 0.5, **settings})
    parpo.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])
    return parpo, parpo.advantages([make.tracked([1.0, 0.0], [4.0, 6.0], index=1)])


def test_it_tells_what_share_of_the_groups_an_anchor_judged(chosen: Chosen, make: Make) -> None:
    """Ada's rewards have differed before, ben is new, and nothing that cem got ever differed."""
    parpo, _ = _second_batch(chosen, make)

    batch = [
        make.tracked([1.0, 0.0], [4.0, 6.0], index=2),
        make.tracked([1.0, 0.0], [4.0, 6.0], index=3, user="ben"),
        make.tracked([1.0, 0.0], [0.5, 0.5], index=4, user="cem"),
    ]
    parpo.advantages(batch)

    assert parpo.metrics()["anchored"] == 0.5
    assert parpo.metrics()["warming"] == pytest.approx(2 / 3)


def test_both_tracks_add_up(chosen: Chosen, make: Make, values: Values) -> None:
    """Base: 0.707, -0.707. Personal: mean 5, cap 2 + 1 = 3, b = 3: 1 and 3. A = (0.707 + 1) / 2, (-0.707 + 3) / 2.

    The anchor was read first. Then it goes half way: mean (2 + 5) / 2, variance (1 + 1) / 2.
    """
    parpo, found = _second_batch(chosen, make)

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
def test_baselines_and_scales(
    chosen: Chosen, make: Make, values: Values, settings: dict[str, object], personal: list[float]
) -> None:
    """The personal track alone, ada's anchor at mean 2 and deviation 1, rewards 4 and 6 with mean 5."""
    _, found = _second_batch(chosen, make, base_weight=0.0, personal_weight=1.0, **settings)

    assert values(found) == pytest.approx(personal, abs=1e-5)


def test_without_its_personal_track_it_is_grpo_on_the_base_rewards(chosen: Chosen, make: Make, values: Values) -> None:
    """C3: rewards 1, 0, 0, 1 on the base track, as in GRPO's example, with half the weight."""
    parpo = chosen("parpo", {**AT_ONCE, "personal_weight": 0.0})
    batch = [make.tracked([1.0, 0.0, 0.0, 1.0], [9.0, -9.0, 3.0, 4.0])]

    for _ in range(2):
        assert values(parpo.advantages(batch))[:2] == pytest.approx([sqrt(3) / 4, -sqrt(3) / 4], abs=1e-5)


def test_each_user_has_an_anchor_of_their_own(chosen: Chosen, make: Make, values: Values) -> None:
    """ada's rewards lie at 1 and 3, bob's at 10 and 30; both get the same advantages."""
    parpo = chosen("parpo", AT_ONCE)

    for _ in range(3):
        batch = [
            make.tracked([0.0, 0.0], [1.0, 3.0], user="ada"),
            make.tracked([0.0, 0.0], [10.0, 30.0], user="bob", index=1),
        ]
        found = values(parpo.advantages(batch))

    assert found[:2] == pytest.approx(found[2:], abs=1e-5)
    assert (parpo.state()["anchors"]["ada"][0], parpo.state()["anchors"]["bob"][0]) == pytest.approx((2.0, 20.0))


def test_in_a_group_of_several_users_each_is_measured_from_their_own_anchor(
    chosen: Chosen, make: Make, values: Values
) -> None:
    """ada at 2 with deviation 1, bob at 20 with deviation 10: rewards 3 and 30 are one deviation above for both."""
    parpo = chosen("parpo", {"baseline": "anchor", "base_weight": 0.0, "personal_weight": 1.0})
    parpo.restore({"anchors": {"ada": [2.0, 1.0, 9], "bob": [20.0, 100.0, 9]}})
    ada, bob = make.tracked([0.0, 0.0], [3.0, 30.0]), make.tracked([0.0, 0.0], [3.0, 30.0], user="bob")

    assert values(parpo.advantages([[ada[0], bob[1]]])) == pytest.approx([1.0, 1.0], abs=1e-6)
    assert parpo.state()["anchors"]["bob"][0] == 21.0  # by a tenth of the way


def test_a_single_sample_is_measured_from_the_users_own_history(chosen: Chosen, make: Make, values: Values) -> None:
    """A group of one, anchor at mean 2 and deviation 1, reward 5: 3 from the anchor, where GRPO learns nothing.

    Its variance is taken around the old mean, (5 - 2)^2 = 9, for around its own it would be 0: (1 + 9) / 2.
    """
    parpo = chosen("parpo", {**AT_ONCE, "baseline": "anchor", "base_weight": 0.0, "personal_weight": 1.0, "decay": 0.5})
    parpo.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])

    assert values(parpo.advantages([make.tracked([0.0], [5.0])])) == pytest.approx([3.0], abs=1e-5)
    assert parpo.state()["anchors"]["ada"] == [3.5, 5.0, 2]


@pytest.mark.parametrize("baseline", ["min_upper", "max_lower", "anchor"])
def test_single_samples_are_judged_by_the_anchor_whatever_the_baseline(
    chosen: Chosen, make: Make, values: Values, baseline: str
) -> None:
    """Anchor at mean 2 and deviation 1: rewards 1.5, 2 and 2.5 are half a deviation below, at it, and half above.

    Those at the anchor learn nothing, so they aren't counted as anchored.
    """
    for reward, personal in ((1.5, -0.5), (2.0, 0.0), (2.5, 0.5)):
        settings = {**AT_ONCE, "baseline": baseline, "base_weight": 0.0, "personal_weight": 1.0}
        parpo = chosen("parpo", settings)
        parpo.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])

        assert values(parpo.advantages([make.tracked([0.0], [reward])])) == pytest.approx([personal], abs=1e-5)
        assert parpo.metrics()["anchored"] == float(personal != 0)


def test_with_the_anchor_as_its_baseline_the_variance_is_that_around_the_anchor(chosen: Chosen, make: Make) -> None:
    """Mean 2, then 4 and 6: squares 4 and 16 around 2, mean 10; half of it and half of 1. Within groups it is 2."""
    settings = {"decay": 0.5, "warm_up": 1}
    for baseline, variance in (("anchor", 5.5), ("min_upper", 1.5)):
        parpo = chosen("parpo", {**settings, "baseline": baseline})
        parpo.restore({"anchors": {"ada": [2.0, 1.0, 1]}})
        parpo.advantages([make.tracked([1.0, 0.0], [4.0, 6.0])])

        assert parpo.state()["anchors"]["ada"] == pytest.approx([3.5, variance, 2])


def test_a_user_whose_reward_never_changed_is_compared_within_the_group(
    chosen: Chosen, make: Make, values: Values
) -> None:
    """Five batches of 0, then 1 and 0: an anchor without spread would make of it 1 / 0.01 = 100."""
    parpo = chosen("parpo", {**AT_ONCE, "base_weight": 0.0, "personal_weight": 1.0})
    for _ in range(5):
        parpo.advantages([make.tracked([0.0, 0.0], [0.0, 0.0])])

    assert values(parpo.advantages([make.tracked([0.0, 0.0], [1.0, 0.0])])) == [
        HALF,
        pytest.approx(-sqrt(0.5), abs=1e-5),
    ]


def test_a_group_that_leaves_a_flat_history_is_bounded_and_keeps_its_order(
    chosen: Chosen, make: Make, values: Values
) -> None:
    """Batches of 0.5 and 0.5 + 1e-9: deviation 1e-9 / sqrt(2). Then 0, 0.5 and 1, mean 0.5, which is the baseline.

    By that deviation 0 and 1 would be at 7e8. The farthest reward is at the bound of 4, and zero stays zero.
    """
    parpo = chosen("parpo", {"base_weight": 0.0, "personal_weight": 1.0})
    for _ in range(5):
        parpo.advantages([make.tracked([0.0, 0.0], [0.5, 0.5 + 1e-9])])

    found = values(parpo.advantages([make.tracked([0.0] * 3, [0.0, 0.5, 1.0])]))

    assert found == pytest.approx([-4.0, 0.0, 4.0], abs=1e-6)


def test_anchors_outlive_a_restart(chosen: Chosen, make: Make, values: Values) -> None:
    batches = [[make.tracked([1.0, 0.0], [number, number + 2.5], user=f"{number % 2}")] for number in range(6)]
    undisturbed, before = chosen("parpo", AT_ONCE), chosen("parpo", AT_ONCE)
    for batch in batches[:3]:
        undisturbed.advantages(batch)
        before.advantages(batch)
    after = chosen("parpo", AT_ONCE)
    after.restore(json.loads(json.dumps(before.state())))

    for batch in batches[3:]:
        assert values(after.advantages(batch)) == values(undisturbed.advantages(batch))


def test_a_reward_that_is_no_number_leaves_the_anchors_alone(chosen: Chosen, make: Make) -> None:
    parpo = chosen("parpo", AT_ONCE)
    parpo.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])
    before = parpo.state()

    with pytest.raises(Exception, match="00001-1"):
        parpo.advantages([make.tracked([0.0, 0.0], [4.0, 6.0]), make.tracked([0.0, 0.0], [1.0, float("nan")], index=1)])

    assert parpo.state() == before


@pytest.mark.parametrize("state", [{}, {"anchors": {"ada": [1.0]}}, {"anchors": {"ada": [1.0, "much", 2]}}])
def test_a_foreign_checkpoint_is_refused(chosen: Chosen, state: dict[str, object]) -> None:
    with pytest.raises(StorageError, match="anchors"):
        chosen("parpo", AT_ONCE).restore(state)


def test_alone_a_base_reward_is_measured_from_the_running_mean_of_its_query(
    chosen: Chosen, make: Make, values: Values
) -> None:
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
    again = chosen("parpo", {**AT_ONCE, "base_baseline": "running"})
    again.restore(json.loads(json.dumps(running.state())))
    assert again.state() == running.state()


def test_a_training_starts_with_the_anchors_of_another_one(chosen: Chosen, make: Make, tmp_path: Path) -> None:
    first = chosen("parpo", AT_ONCE)
    first.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"update": 1, "optimizer": first.state()}))

    second = chosen("parpo", {**AT_ONCE, "anchors": str(state)})

    assert second.state()["anchors"] == {"ada": [2.0, 1.0, 1]}
    with pytest.raises(SettingsError, match=r"optimizer\.anchors"):
        chosen("parpo", {"anchors": str(tmp_path / "nothing.json")})


def test_a_user_can_be_forgotten(chosen: Chosen, make: Make) -> None:
    parpo = chosen("parpo", AT_ONCE)
    parpo.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])

    assert parpo.forget("ada")
    assert not parpo.forget("ada")
    assert parpo.state()["anchors"] == {}
