"""KTO and DPO: what was rated becomes advantages, and nothing else does."""

from __future__ import annotations

import pytest

from agentfw.optimizer import Loss, Scored

from .conftest import Chosen, Make, Table


def test_good_answers_get_one_weight_and_bad_ones_another(chosen: Chosen, make: Make, table: Table) -> None:
    kto = chosen("kto", {"desirable": 0.5, "undesirable": 1.5, "beta": 0.2})

    found = table(kto.advantages([make.rewarded([1.0]), make.rewarded([-0.5], index=1), make.rewarded([0.0], index=2)]))

    assert found == {("00000-0", 0): 0.5, ("00001-0", 0): -1.5}
    assert kto.loss() == Loss(
        "agentfw_plugins.optimizers.imitation:KTOLoss",
        sampled=False,
        aggregation="sequence_mean",
        settings={"beta": 0.2},
    )
    assert kto.metrics() == {
        "answers_good": 1.0,
        "answers_bad": 1.0,
        "answers_left_out": 0.0,
        "episodes_unrated": 1.0,
    }


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_an_answer_that_was_cut_off_is_no_example(chosen: Chosen, make: Make, reward: float) -> None:
    kto, group = chosen("kto"), make.rewarded([reward], turns=2)
    group[0].episode.turns[0].finish = "length"

    found = kto.advantages([group])

    assert [(one.turn, one.value) for one in found] == [(1, reward)]
    assert kto.metrics()["answers_left_out"] == 1.0


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_an_answer_that_was_not_understood_or_interrupted_teaches_nothing(
    chosen: Chosen, make: Make, reward: float
) -> None:
    """Whoever liked it liked something else than its format, and a bad one isn't bad for what it says."""
    kto, group = chosen("kto"), make.rewarded([reward], turns=3)
    group[0].episode.turns[0].failures = ("look: the arguments are no JSON",)
    group[0].episode.turns[1].finish = "interrupted"

    found = kto.advantages([group])

    assert [(one.turn, one.value) for one in found] == [(2, reward)]
    assert kto.metrics()["answers_left_out"] == 2.0


def test_no_optimizer_of_demonstrations_follows_an_answer_that_was_not_understood(chosen: Chosen, make: Make) -> None:
    imitation, group = chosen("imitation"), make.rewarded([1.0], turns=2)
    group[0].episode.turns[0].failures = ("look: the arguments are no JSON",)

    assert [one.turn for one in imitation.advantages([group])] == [1]


def test_dpo_compares_the_best_and_the_worst_answer_to_what_was_shown(chosen: Chosen, make: Make, table: Table) -> None:
    dpo = chosen("dpo")

    found = table(dpo.advantages([make.rewarded([0.5, -1.0, 1.0, 0.0]), make.rewarded([1.0, 1.0], index=1)]))

    assert found == {("00000-2", 0): 1.0, ("00000-1", 0): -1.0}
    assert dpo.metrics() == {"pairs": 1.0, "unpaired": 1.0, "answers_left_out": 0.0}


def test_dpo_pairs_no_answers_to_different_requests_and_none_that_was_cut_off(
    chosen: Chosen, make: Make, table: Table
) -> None:
    """Two conversations begin alike and go on differently. The third answer to their beginning was cut off."""
    dpo = chosen("dpo")
    talks = [
        make.conversation(0, "tea?", "which?"),
        make.conversation(1, "tea?", "how long?"),
        make.conversation(2, "tea?"),
    ]
    talks[2].turns[0].finish = "length"

    found = table(
        dpo.advantages([[Scored(talk, (), reward) for talk, reward in zip(talks, (1.0, 0.0, -9.0), strict=True)]])
    )

    assert found == {("00000-0", 0): 1.0, ("00000-1", 0): -1.0}
    assert dpo.metrics() == {"pairs": 1.0, "unpaired": 2.0, "answers_left_out": 1.0}
