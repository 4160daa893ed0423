"""The optimizer empirical_bayes: by hand, whatever rewards people give, and beside REINFORCE."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentfw.errors import PluginError, StorageError
from agentfw.optimizer import Optimizer, Scored
from agentfw.scores import Score

from .conftest import Chosen, Make, Values

relaxed = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
Batch = Sequence[tuple[str, Sequence[float]]]
"""The groups of a batch: a user each, and what they give."""
PERSONAL = {"base_weight": 0.0, "personal_weight": 1.0}


def group(make: Make, user: str, rewards: Sequence[float], index: int = 0) -> list[Scored]:
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


def as_batch(make: Make, batch: Batch) -> list[list[Scored]]:
    return [group(make, user, rewards, index) for index, (user, rewards) in enumerate(batch)]


def learn(optimizer: Optimizer, make: Make, batches: Sequence[Batch]) -> None:
    for batch in batches:
        optimizer.advantages(as_batch(make, batch))


def test_a_single_answer_is_measured_from_its_users_history(chosen: Chosen, make: Make, values: Values) -> None:
    """Ada and ben, known well, at 2 and 20 with deviations 1 and 10: rewards one deviation above get the same.

    Half of the variance lies within requests, and that is the unit: sqrt(2) of it are one deviation.
    """
    one = chosen("empirical_bayes", PERSONAL)
    track = {"batches": 0, "noise": 0.5, "requests": 0.5}
    people = {"ada": [1e6, 2.0, 1.0], "ben": [1e6, 20.0, 100.0]}
    one.restore({"base": {"users": {}, **track}, "personal": {"users": people, **track}})

    found = values(one.advantages([group(make, "ada", [3.0]), group(make, "ben", [30.0], 1)]))

    assert found == pytest.approx([math.sqrt(2)] * 2, abs=3e-3)


def test_group_and_history_are_weighed_by_precision(chosen: Chosen, make: Make, values: Values) -> None:
    """Ada at 0 with deviation 1, half of it between requests and half within: tau^2 = sigma^2 = 0.5, e^2 = 0.

    Rewards 2 and 4. Each other sample counts a = 0.5 / (0.5 + 0.5) = 1/2, so b is 2 and 1, and r - b 0 and 3. Their
    variance is 2, where 0.5 is expected: d^2 = (0.5 + 2) / 2. With four samples, a = 0.5 / (0.5 + 0.5 / 3) = 3/4, the
    variance is 4, and d^2 = (0.5 + 9 x 4) / 10.
    """
    one = chosen("empirical_bayes", PERSONAL)
    track = {"batches": 0, "noise": 0.5, "requests": 0.5}
    known = {"base": {"users": {}, **track}, "personal": {"users": {"ada": [1e9, 0.0, 1.0]}, **track}}

    one.restore(known)
    two = values(one.advantages([group(make, "ada", [2.0, 4.0])]))
    assert two == pytest.approx([0.0, 3 / math.sqrt(5 / 4)], abs=5e-3)
    one.restore(known)
    four = values(one.advantages([group(make, "ada", [1.0, 1.0, 1.0, 5.0])]))
    assert four == pytest.approx(
        [value / math.sqrt(3.65) for value in [1 - 0.75 * 7 / 3] * 3 + [5 - 0.75 * 1]], abs=5e-3
    )


def test_in_a_group_of_several_users_each_is_measured_from_their_own_history(
    chosen: Chosen, make: Make, values: Values
) -> None:
    apart, mixed = chosen("empirical_bayes", PERSONAL), chosen("empirical_bayes", PERSONAL)
    for one in (apart, mixed):
        learn(one, make, a_history(3))
    ada, ben = group(make, "0", [5.0]), group(make, "1", [-5.0], 1)

    assert values(mixed.advantages([ada + ben])) == pytest.approx(values(apart.advantages([ada, ben])))


@relaxed
@given(st.integers(0, 10**6), st.floats(-200, 200), st.floats(0.02, 50), st.integers(1, 3))
def test_shifting_or_scaling_one_users_rewards_changes_nothing_once_they_are_known(
    chosen: Chosen, make: Make, values: Values, seed: int, shift: float, scale: float, size: int
) -> None:
    """Known is who has given many rewards. Until then a user is drawn towards the others, as far as these are alike."""
    plain, moved = chosen("empirical_bayes", PERSONAL), chosen("empirical_bayes", PERSONAL)
    *batches, last = a_history(seed, updates=12, size=size)

    def as_moved(batch: Batch) -> Batch:
        return [(user, [shift + scale * one for one in own] if user == "0" else own) for user, own in batch]

    learn(plain, make, batches)
    learn(moved, make, [as_moved(batch) for batch in batches])
    histories = [one.state()["personal"]["users"] for one in (plain, moved)]
    assert histories[1]["0"][1] == pytest.approx(shift + scale * histories[0]["0"][1], abs=1e-6, rel=1e-6)

    found, state = [], plain.state()
    for one, batch in ((plain, last), (moved, as_moved(last))):
        users = {user: [1e6, *rest] for user, (_, *rest) in state["personal"]["users"].items()}
        if one is moved:
            weight, middle, variance = users["0"]
            users["0"] = [weight, shift + scale * middle, scale**2 * variance]
        one.restore({**state, "personal": {**state["personal"], "users": users}})
        found.append(values(one.advantages(as_batch(make, batch))))
    assert found[1] == pytest.approx(found[0], rel=0.06, abs=0.01)


@relaxed
@given(st.integers(0, 10**6), st.floats(1, 4), st.sampled_from([-1, 1]))
def test_a_user_alone_in_a_batch_has_a_signal(
    chosen: Chosen, make: Make, values: Values, seed: int, distance: float, sign: int
) -> None:
    one = chosen("empirical_bayes", PERSONAL)
    learn(one, make, a_history(seed))
    history = one.state()["personal"]["users"]["0"]

    (found,) = values(one.advantages([group(make, "0", [history[1] + sign * distance * math.sqrt(history[2])])]))

    assert 0.3 < sign * found <= 5


@relaxed
@given(st.floats(-1e6, 1e6), st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5))
def test_equal_rewards_give_none(
    chosen: Chosen, make: Make, values: Values, reward: float, sizes: list[int], updates: int
) -> None:
    one = chosen("empirical_bayes")
    for _ in range(updates):
        batch = [make.tracked([reward] * n, [reward] * n, index=place, user=str(n)) for place, n in enumerate(sizes)]
        assert set(values(one.advantages(batch))) == {0.0}


def test_nothing_said_is_no_reward_of_0(chosen: Chosen, make: Make, values: Values) -> None:
    """Ada's second answer got no thumb: it teaches nothing, and her history doesn't know of it."""
    for name in ("empirical_bayes", "reinforce"):
        with_silence, without = chosen(name, PERSONAL), chosen(name, PERSONAL)
        rated = [group(make, "ada", [1.0]), group(make, "ben", [-1.0], 1), group(make, "cem", [0.5], 2)]
        silent = Scored(make.episode(index=3), (Score("00003-0", "length", 9.0),), 9.0)

        assert values(with_silence.advantages([*rated, [silent]])) == [*values(without.advantages(rated)), 0.0]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e101])
def test_a_reward_that_nothing_can_be_learned_from_changes_nothing(chosen: Chosen, make: Make, wrong: float) -> None:
    one = chosen("empirical_bayes")
    learn(one, make, a_history(1, updates=3))
    before = json.dumps(one.state())

    with pytest.raises(PluginError, match="nothing can be learned from"):
        one.advantages([group(make, "0", [0.5]), group(make, "1", [wrong], 1)])

    assert json.dumps(one.state()) == before


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
def test_any_rewards_give_finite_advantages_within_the_bound(
    chosen: Chosen, make: Make, values: Values, batches: list[list[tuple[str, list[float]]]]
) -> None:
    one = chosen("empirical_bayes", PERSONAL)
    for batch in batches:
        found = values(one.advantages(as_batch(make, batch)))
        assert all(abs(value) <= 5 for value in found)
    one.restore(json.loads(json.dumps(one.state())))


def test_a_resumed_training_goes_on_as_if_it_had_never_stopped(chosen: Chosen, make: Make, values: Values) -> None:
    whole, resumed = chosen("empirical_bayes"), chosen("empirical_bayes")
    *batches, last = a_history(2, size=2)
    learn(whole, make, batches)
    resumed.restore(json.loads(json.dumps(whole.state())))

    batch = as_batch(make, last)
    assert values(resumed.advantages(batch)) == values(whole.advantages(batch))
    with pytest.raises(StorageError, match="no histories of empirical_bayes"):
        resumed.restore({"anchors": {}})


def test_who_is_forgotten_begins_anew(chosen: Chosen, make: Make) -> None:
    one = chosen("empirical_bayes")
    learn(one, make, a_history(2))

    assert one.forget("0")
    assert not one.forget("0")
    assert "0" not in one.state()["personal"]["users"]


def test_reinforce_compares_with_the_batch(chosen: Chosen, make: Make, values: Values) -> None:
    """Base 1 and 0, personal 1 and 3: deviations sqrt(1/2) and sqrt(2), so both tracks cancel; the base track alone."""
    batch = [make.tracked([1.0], [1.0]), make.tracked([0.0], [3.0], index=1, user="ben")]

    assert values(chosen("reinforce").advantages(batch)) == pytest.approx([0.0, 0.0], abs=1e-5)
    alone = values(chosen("reinforce", {"personal_weight": 0.0}).advantages(batch))
    assert alone == pytest.approx([math.sqrt(0.5) / 2, -math.sqrt(0.5) / 2], abs=1e-5)
