"""DAPO by hand: overlong reward shaping, the mask of truncated answers, and how many groups a batch still needs."""

from __future__ import annotations

from math import sqrt

import pytest

from agentfw.errors import SettingsError
from agentfw.optimizer import Scored

from .conftest import Chosen, Make, Table, Values

LONG = {"max_answer": 100, "overlong_buffer": 20}
HALF = pytest.approx(sqrt(0.5), abs=1e-4)


def answered(make: Make, lengths: list[int], rewards: list[float], *, index: int = 0) -> list[Scored]:
    """A group of one-turn episodes whose answers have these many tokens."""
    group = make.rewarded(rewards, index=index)
    for scored, length in zip(group, lengths, strict=True):
        scored.episode.turns[0].count = length
    return group


def test_a_long_answer_loses_reward_from_the_buffer_on(chosen: Chosen, make: Make, values: Values) -> None:
    """At most 100 tokens, the last 20 of them the buffer: 80 tokens lose 0, 85 lose 5/20, 100 and more lose 1.

    All four earned 1, so their rewards are 1, 0.75, 0 and 0: mean 0.4375, and A is the difference from it.
    """
    dapo = chosen("dapo", {**LONG, "scale": False})

    found = values(dapo.advantages([answered(make, [80, 85, 100, 130], [1.0] * 4)]))

    assert found == pytest.approx([0.5625, 0.3125, -0.4375, -0.4375])


def test_the_longest_answer_of_an_episode_counts(chosen: Chosen, make: Make, table: Table) -> None:
    """Two turns of 100 tokens lose no more than one: rewards 1 - 0.5 and 1, so A = -0.25 and 0.25."""
    group = make.rewarded([1.0, 1.0], turns=2)
    for turn in group[0].episode.turns:
        turn.count = 100

    found = table(chosen("dapo", {**LONG, "scale": False, "overlong_penalty": 0.5}).advantages([group]))

    assert [found["00000-0", 0], found["00000-1", 1]] == [-0.25, 0.25]


def test_truncated_answers_are_compared_and_not_learned_from(chosen: Chosen, make: Make, table: Table) -> None:
    """Rewards 1 and 0, the second answer was cut off: the first still has A = 1/sqrt(2), the second has none."""
    group = make.rewarded([1.0, 0.0])
    group[1].episode.turns[0].finish = "length"
    masking, plain = chosen("dapo", {"mask_truncated": True}), chosen("dapo")

    assert table(masking.advantages([group])) == {("00000-0", 0): HALF}
    assert masking.metrics()["turns_truncated"] == 1.0
    assert len(plain.advantages([group])) == 2


def test_a_batch_is_filled_with_groups_that_differ(chosen: Chosen, make: Make) -> None:
    """Four groups are planned. Of four, two are equal: 2 are missing. One of those is equal, too: 1. Then none."""
    dapo = chosen("dapo")
    equal, different = make.rewarded([1.0, 1.0]), make.rewarded([1.0, 0.0])

    assert dapo.missing([different, equal, different, equal], wanted=4) == 2
    assert dapo.missing([different, equal, different, equal, equal, different], wanted=4) == 1
    assert dapo.missing([different, equal, different, equal, equal, different, different], wanted=4) == 0


def test_it_stops_asking_when_the_limit_is_reached(chosen: Chosen, make: Make) -> None:
    """Nothing but equal groups, two planned: with resample 3 at most 2 x 3 groups are played in their place."""
    equal = make.rewarded([1.0, 1.0])
    dapo = chosen("dapo")
    groups = [equal, equal]

    asked = []
    while missing := dapo.missing(groups, wanted=2):
        asked.append(missing)
        groups += [equal] * missing

    assert asked == [2, 2, 2]
    assert chosen("dapo", {"resample": 0}).missing([equal, equal], wanted=2) == 0


@pytest.mark.parametrize("name", ["grpo", "gdpo", "parpo", "roundwise", "turnwise", "imitation"])
def test_no_other_optimizer_asks_for_further_groups(chosen: Chosen, make: Make, name: str) -> None:
    assert chosen(name).missing([make.rewarded([1.0, 1.0])], wanted=4) == 0


@pytest.mark.parametrize("values", [{"overlong_buffer": 20}, {"max_answer": 10, "overlong_buffer": 20}])
def test_a_buffer_is_part_of_an_answer(chosen: Chosen, values: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="overlong_buffer needs max_answer"):
        chosen("dapo", values)
