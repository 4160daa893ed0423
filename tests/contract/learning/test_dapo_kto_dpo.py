"""By hand: what DAPO leaves out, shortens and asks for, and what KTO and DPO make of what was rated."""

from __future__ import annotations

from math import sqrt

import pytest

from agentfw.episode import Event
from agentfw.errors import SettingsError, UsageError
from agentfw.optimizer import Loss, Scored

from .conftest import chosen, hinted, make, margins, table, values

LONG = {"max_answer": 100, "overlong_buffer": 20}
HALF = pytest.approx(sqrt(0.5), abs=1e-4)


def answered(lengths: list[int], rewards: list[float], *, index: int = 0) -> list[Scored]:
    """A group of one-turn episodes whose answers have these many tokens."""
    group = make.rewarded(rewards, index=index)
    for scored, length in zip(group, lengths, strict=True):
        scored.episode.turns[0].count = length
    return group


def test_a_long_answer_loses_reward_from_the_buffer_on() -> None:
    """At most 100 tokens, the last 20 of them the buffer: 80 tokens lose 0, 85 lose 5/20, 100 and more lose 1.

    All four earned 1, so their rewards are 1, 0.75, 0 and 0: mean 0.4375, and A is the difference from it.
    """
    dapo = chosen("dapo", {**LONG, "scale": False})

    found = values(dapo.advantages([answered([80, 85, 100, 130], [1.0] * 4)]))

    assert found == pytest.approx([0.5625, 0.3125, -0.4375, -0.4375])


def test_the_longest_answer_of_an_episode_counts() -> None:
    """Two turns of 100 tokens lose no more than one: rewards 1 - 0.5 and 1, so A = -0.25 and 0.25."""
    group = make.rewarded([1.0, 1.0], turns=2)
    for turn in group[0].episode.turns:
        turn.count = 100

    found = table(chosen("dapo", {**LONG, "scale": False, "overlong_penalty": 0.5}).advantages([group]))

    assert [found["00000-0", 0], found["00000-1", 1]] == [-0.25, 0.25]


def test_truncated_answers_are_compared_and_not_learned_from() -> None:
    """Rewards 1 and 0, the second answer was cut off: the first still has A = 1/sqrt(2), the second has none."""
    group = make.rewarded([1.0, 0.0])
    group[1].episode.turns[0].finish = "length"
    masking, plain = chosen("dapo", {"mask_truncated": True}), chosen("dapo")

    assert table(masking.advantages([group])) == {("00000-0", 0): HALF}
    assert masking.metrics()["turns_truncated"] == 1.0
    assert len(plain.advantages([group])) == 2


def test_a_batch_is_filled_with_groups_that_differ() -> None:
    """Four groups are planned. Of four, two are equal: 2 are missing. One of those is equal, too: 1. Then none."""
    dapo = chosen("dapo")
    equal, different = make.rewarded([1.0, 1.0]), make.rewarded([1.0, 0.0])

    assert dapo.missing([different, equal, different, equal], wanted=4) == 2
    assert dapo.missing([different, equal, different, equal, equal, different], wanted=4) == 1
    assert dapo.missing([different, equal, different, equal, equal, different, different], wanted=4) == 0
    for name, keeping in (("dapo", {"skip": False}), ("dapo", {"kl": 0.01}), ("grpo", {})):  # the equal ones
        assert chosen(name, keeping).missing([equal, equal], wanted=2) == 0
    # Equal rewards of answers of which one is too long differ, once it has lost some.
    assert chosen("dapo", LONG).missing([answered([80, 100], [1.0, 1.0]), equal], wanted=2) == 1


def test_it_stops_asking_when_the_limit_is_reached() -> None:
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


@pytest.mark.parametrize("values", [{"overlong_buffer": 20}, {"max_answer": 10, "overlong_buffer": 20}])
def test_a_buffer_is_part_of_an_answer(values: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="overlong_buffer needs max_answer"):
        chosen("dapo", values)


# -- what was rated ----------------------------------------------------------------------------------------------------


def test_good_answers_get_one_weight_and_bad_ones_another() -> None:
    kto = chosen("kto", {"desirable": 0.5, "undesirable": 1.5, "beta": 0.2})

    found = table(kto.advantages([make.rewarded([1.0]), make.rewarded([-0.5], index=1), make.rewarded([0.0], index=2)]))

    assert found == {("00000-0", 0): 0.5, ("00001-0", 0): -1.5}
    assert kto.loss() == Loss(
        "agentfw_plugins.optimizers.imitation:KTOLoss",
        sampled=False,
        aggregation="sequence_mean",
        settings={"beta": 0.2},
    )
    assert kto.metrics() == {"answers_good": 1.0, "answers_bad": 1.0, "answers_left_out": 0.0, "episodes_unrated": 1.0}


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_an_answer_that_was_not_understood_interrupted_or_cut_off_teaches_nothing(reward: float) -> None:
    """Whoever liked it liked something else than its format, and a bad one isn't bad for what it says."""
    kto, group = chosen("kto"), make.rewarded([reward], turns=4)
    group[0].episode.turns[0].failures = ("look: the arguments are no JSON",)
    group[0].episode.turns[1].finish = "interrupted"
    group[0].episode.turns[2].finish = "length"

    found = kto.advantages([group])

    assert [(one.turn, one.value) for one in found] == [(3, reward)]
    assert kto.metrics()["answers_left_out"] == 3.0


def test_dpo_compares_the_best_and_the_worst_answer_to_what_was_shown() -> None:
    dpo = chosen("dpo")

    found = table(dpo.advantages([make.rewarded([0.5, -1.0, 1.0, 0.0]), make.rewarded([1.0, 1.0], index=1)]))

    assert found == {("00000-2", 0): 1.0, ("00000-1", 0): -1.0}
    assert dpo.metrics() == {"pairs": 1.0, "unpaired": 1.0, "answers_left_out": 0.0}


def test_dpo_pairs_no_answers_to_different_requests_and_none_that_was_cut_off() -> None:
    """Two conversations begin alike and go on differently. The third answer to their beginning was cut off.

    The fourth began differently and comes to the same question, and so does one in another group.
    """
    dpo = chosen("dpo")
    talks = [
        make.conversation(0, "tea?", "which?"),
        make.conversation(1, "tea?", "how long?"),
        make.conversation(2, "tea?"),
        make.conversation(3, "coffee?", "which?"),
        make.conversation(4, "tea?", "which?"),
    ]
    talks[2].turns[0].finish = "length"

    *group, other = [Scored(talk, (), reward) for talk, reward in zip(talks, (1.0, 0.0, -9.0, 0.0, 0.0), strict=True)]
    found = table(dpo.advantages([group, [other]]))

    assert found == {("00000-0", 0): 1.0, ("00000-1", 0): -1.0}
    assert dpo.metrics() == {"pairs": 1.0, "unpaired": 6.0, "answers_left_out": 1.0}


def test_a_hint_is_about_the_answer_that_it_names_or_about_all() -> None:
    talk = make.conversation(0, "tea?", "which?", "how long?")
    talk.turns[2].finish = "length"
    said = {"kind": "observation", "name": "feedback"}
    talk.events.append(Event(1, data={"turn": 1, "text": "shorter"}, **said))
    hint = chosen("hint")

    assert table(hint.advantages([[Scored(talk, (), 0.0)]])) == {("00000-0", 1): 1.0}
    talk.events.append(Event(1, data={"text": "in German"}, **said))
    assert table(hint.advantages([[Scored(talk, (), 0.0)]])) == {("00000-0", 0): 1.0, ("00000-0", 1): 1.0}
    assert hint.metrics() == {"hints": 2.0, "answers_left_out": 1.0}
    shown = hinted(hint, talk, talk.turns[1])
    assert shown == ["tea?", "well", "which?\n\nFeedback on an earlier answer: in German"]


def test_to_a_teacher_every_answer_is_worth_the_same() -> None:
    assert values(chosen("distillation").advantages([make.rewarded([-2.0, 0.0])])) == [1.0, 1.0]


def test_the_margin_of_a_pair_is_that_of_its_two_answers_to_one_prompt() -> None:
    """Two pairs of one prompt, and one of another. R is 5 and 4 better than 1 and 2: margins 4 and 2; and 3 - 7."""
    sides = [(1, 1.0), (1, -1.0), (2, -1.0), (1, 1.0), (1, -1.0), (2, 1.0)]

    assert margins(sides, [5.0, 1.0, 7.0, 4.0, 2.0, 3.0]) == [4.0, 4.0, -4.0, 2.0, 2.0, -4.0]
    with pytest.raises(UsageError, match=r"turn 3 of episode .*has no other answer to its prompt in its minibatch"):
        margins([*sides[:3], *sides[4:]], [0.0] * 5)
