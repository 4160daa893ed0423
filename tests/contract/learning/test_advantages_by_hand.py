"""Each optimizer on an example that is worked by hand in its docstring, and the loss that it names."""

from __future__ import annotations

import json
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from agentfw.episode import Message
from agentfw.errors import PluginError, SettingsError
from agentfw.optimizer import Loss, Scored
from agentfw.scores import Score

from .conftest import chosen, make, table, values

NAMES = ["grpo", "dr_grpo", "dapo", "gspo", "gdpo", "gigpo", "parpo", "roundwise", "turnwise", "imitation", "kto"]
IMITATION, DISTILLATION = "agentfw_plugins.optimizers.imitation", "agentfw_plugins.optimizers.distillation"


@pytest.mark.parametrize(
    ("name", "settings", "rewards", "expected"),
    [
        # Mean 1/2; squares 4 x 1/4 = 1, by n - 1 = 3: spread sqrt(1/3), and A = (1/2) / sqrt(1/3).
        ("grpo", {}, [[1, 0, 0, 1], [5]], [sqrt(3) / 2, -sqrt(3) / 2, -sqrt(3) / 2, sqrt(3) / 2, 0]),
        # The spread is left alone: A = r - 1/2.
        ("dr_grpo", {}, [[1, 0, 0, 1]], [0.5, -0.5, -0.5, 0.5]),
        # Of a group in which all fared alike nothing is learned, unless a KL penalty acts on it. The other's spread is
        # sqrt(2), and A = 1 / sqrt(2).
        ("dapo", {}, [[1, 1], [2, 0]], [sqrt(0.5), -sqrt(0.5)]),
        ("dapo", {"kl": 0.01}, [[1, 1], [2, 0]], [0, 0, sqrt(0.5), -sqrt(0.5)]),
        # The groups alone give -0.707, 0.707 and 0, 0, 0. Over the five: mean 0, squares 1, by 4: spread 1/2, with the
        # floor of whitening sqrt(0.26).
        ("gdpo", {}, [[0, 2], [1, 1, 1]], [-sqrt(0.5 / 0.26), sqrt(0.5 / 0.26), 0, 0, 0]),
        ("gdpo", {"whiten": False}, [[0, 2], [1, 1, 1]], [-sqrt(0.5), sqrt(0.5), 0, 0, 0]),
    ],
)
def test_rewards_of_groups(
    name: str, settings: dict[str, object], rewards: list[list[float]], expected: list[float]
) -> None:
    optimizer = chosen(name, settings)

    found = optimizer.advantages([make.rewarded(some, index=index, turns=2) for index, some in enumerate(rewards)])

    for turn in range(2):  # every turn of an episode carries it
        assert [one.value for one in found if one.turn == turn] == pytest.approx(expected, abs=1e-3)
    alone = sum(len(some) == 1 for some in rewards)
    figures = {"groups": len(rewards), "groups_of_one": alone}
    figures["groups_alike"] = sum(len(set(some)) == 1 for some in rewards) - alone
    size = sum(map(abs, expected)) / len(expected)
    assert optimizer.metrics() == pytest.approx({**figures, "advantage_size": size}, abs=1e-3)


def test_gdpo_normalises_each_component_by_itself() -> None:
    """Two samples, quality 1 and 0, preference 0 and 100.

    Normalised: quality 1/sqrt(2) and -1/sqrt(2), preference the other way round, whatever its size. With weights 2 and
    1 their sums are 1/sqrt(2) and -1/sqrt(2). Whitened over the batch of these two, whose spread is 1, they stay so but
    for the floor of whitening: sqrt(1 + 0.1^2).
    """
    gdpo = chosen("gdpo", {"weights": {"quality": 2.0}})
    one, other = make.tracked([1.0, 0.0], [0.0, 100.0])
    said = [Score(other.episode.id, "quality", value) for value in (-2.0, 2.0)]  # what is said twice adds up

    found = values(gdpo.advantages([[one, replace(other, scores=(*other.scores, *said))]]))

    assert found == pytest.approx([sqrt(1 / 2 / 1.01), -sqrt(1 / 2 / 1.01)], abs=1e-5)
    one, other = make.tracked([0.0, 0.0], [0.0, 0.0])
    bonus = Score(one.episode.id, "bonus", 0.5)  # the other has none, which is 0
    assert values(gdpo.advantages([[replace(one, scores=(*one.scores, bonus)), other]]))[0] > 0


@pytest.mark.parametrize(
    ("settings", "door", "later"),
    [({}, 3, 2), ({"step_weight": 0.5}, 2.5, 2), ({"scale": True}, sqrt(2), sqrt(0.5))],
)
def test_gigpo_compares_turns_in_the_same_state_too(settings: dict[str, object], door: float, later: float) -> None:
    """Both begin at the door. One goes left and earns 4 on its second turn; the other goes right and earns nothing.

    Episodes: 4 and 0, mean 2, so 2 and -2. Steps, gamma 1/2: at the door the returns are 2 and 0, so 1 and -1; left
    and right are states that one sample alone was in: 0.

    A = A_episode + A_step: at the door 3 and -3, afterwards 2 and -2. Scaled, all but the zeros are 1/sqrt(2).
    """
    gigpo = chosen("gigpo", {"gamma": 0.5, **settings})

    left = make.conversation(0, "[0]\nthe door", "[1]\nleft")
    right = make.conversation(1, "[0]\nthe door", "[2]\nright")

    found = table(
        gigpo.advantages([[Scored(left, (Score(left.id, "gold", 4.0, turn=1),), 4.0), Scored(right, (), 0.0)]])
    )

    expected = {("00000-0", 0): door, ("00000-1", 0): -door, ("00000-0", 1): later, ("00000-1", 1): -later}
    assert found == pytest.approx(expected, abs=1e-5)
    assert (gigpo.metrics()["turns"], gigpo.metrics()["turns_compared"]) == (4.0, 2.0)


def test_gigpo_knows_a_state_that_comes_back_at_another_time() -> None:
    """One sample is at the door twice, and earns 1 when it leaves: returns 1/2 and 1, mean 3/4."""
    played = make.conversation(0, "[0]\nthe door", "[7.5] round 3 of 20\nthe door")
    batch = [[Scored(played, (Score(played.id, "gold", 1.0, turn=1),), 1.0)]]

    assert table(chosen("gigpo", {"gamma": 0.5}).advantages(batch)) == {("00000-0", 0): -0.25, ("00000-0", 1): 0.25}
    apart, priced = chosen("gigpo", {"gamma": 0.5, "clock": True}), make.conversation(0, "[1] tea", "[2] tea")
    assert table(apart.advantages(batch)) == {("00000-0", 0): 0.0, ("00000-0", 1): 0.0}
    batch = [[replace(batch[0][0], episode=priced)]]  # no clock, which has a line of its own
    assert values(chosen("gigpo").advantages(batch)) == [0.0, 0.0]


def test_a_score_of_a_round_goes_to_its_last_turn_or_to_the_latest_one_before_it() -> None:
    """Turns in rounds 1, 1 and 3. Round 1 brings 1, round 2 brings 2, and neither round 0 nor a turn in it exists.

    Round 3 brings 4, round 4 without a turn 15, and the whole 8. All turns are in one state: 0, 3 and 27, mean 10.
    """
    played = make.episode(0, [1, 1, 3])
    said = [Score(played.id, "right", value, round=number) for number, value in enumerate([64.0, 1.0, 2.0, 4.0, 15.0])]
    batch = [[Scored(played, (*said, Score(played.id, "done", 8.0)), 0.0)]]

    assert values(chosen("gigpo", {"gamma": 0.0}).advantages(batch)) == [-10.0, -7.0, 17.0]


@pytest.mark.parametrize(("found", "compared"), [(("locked", "locked"), 4.0), (("locked", "open"), 2.0)])
def test_gigpo_sees_all_that_came_since_the_last_answer(found: tuple[str, str], compared: float) -> None:
    """Both are at the door, then on its left; what a tool found there is a part of the state too."""
    gigpo, group = chosen("gigpo"), []
    for sample, text in enumerate(found):
        played = make.conversation(sample, "[0]\nthe door\n[1]", f"[{sample}]\nleft")
        played.messages.append(Message("tool", text, answers="1.0"))
        played.turns[1].shown = (*played.turns[1].shown, len(played.messages) - 1)
        group.append(Scored(played, (), float(sample)))

    gigpo.advantages([group])

    assert gigpo.metrics()["turns_compared"] == compared


def test_roundwise_has_one_baseline_for_each_round() -> None:
    """Rewards of rounds 1 and 2: sample 0 has 1, 0, sample 1 has 0, 2. Gamma 1/2.

    G_2 = 0 and 2: mean 1, biased deviation 1, A = -1 and 1. G_1 = 1 + 0 and 0 + 1: alike, A = 0 and 0.
    With gamma 0, G_1 = 1 and 0: A = 1 and -1.
    """
    batch = [make.by_rounds([1.0, 0.0], [0.0, 2.0])]

    found = table(chosen("roundwise", {"gamma": 0.5}).advantages(batch))

    assert found == {
        ("00000-0", 0): 0.0,
        ("00000-0", 1): pytest.approx(-1, abs=1e-5),
        ("00000-1", 0): 0.0,
        ("00000-1", 1): pytest.approx(1, abs=1e-5),
    }
    alone = table(chosen("roundwise", {"gamma": 0.0}).advantages(batch))
    assert [alone["00000-0", 0], alone["00000-1", 0]] == pytest.approx([1, -1], abs=1e-5)


def test_roundwise_gives_every_turn_of_a_round_the_same() -> None:
    """Two turns in round 1, one in round 2; the format score of the first turn belongs to round 1.

    G_1 = 1 and 0, G_2 = 0 and 0, gamma 0: A = 1, 1, 0 and -1, -1, 0.
    """
    one, other = make.episode(0, [1, 1, 2]), make.episode(1, [1, 1, 2])
    batch = [[Scored(one, (Score(one.id, "format", 1.0, turn=0),), 1.0), Scored(other, (), 0.0)]]

    found = table(chosen("roundwise", {"gamma": 0.0}).advantages(batch))

    assert [found["00000-0", place] for place in range(3)] == pytest.approx([1, 1, 0], abs=1e-5)
    assert [found["00000-1", place] for place in range(3)] == pytest.approx([-1, -1, 0], abs=1e-5)


def test_roundwise_leaves_those_out_that_never_came_to_a_round() -> None:
    """Only sample 0 has a round 2: nothing to compare it with. Round 1, gamma 0: 3 and 1, A = 1 and -1."""
    found = table(chosen("roundwise", {"gamma": 0.0}).advantages([make.by_rounds([3.0, 9.0], [1.0])]))

    assert found["00000-0", 1] == 0.0
    assert [found["00000-0", 0], found["00000-1", 0]] == pytest.approx([1, -1], abs=1e-5)


def test_a_reward_of_the_whole_episode_comes_at_its_end() -> None:
    """No scores, rewards 1 and 0, two rounds, gamma 1/2: G_2 = 1 and 0, G_1 = 1/2 and 0: A = 1 and -1 at both."""
    batch = [[Scored(make.episode(place, [1, 2]), (), reward) for place, reward in enumerate([1.0, 0.0])]]

    found = table(chosen("roundwise", {"gamma": 0.5}).advantages(batch))

    assert [found["00000-0", 0], found["00000-0", 1]] == pytest.approx([1, 1], abs=1e-4)
    # Sample 0 reached round 2 without a turn there: half of 1 + 1 at round 1, as much as the other had at its end.
    one, other = make.episode(0, [1]), make.episode(1, [1])
    late = (Score(one.id, "right", 1.0, round=2), Score(one.id, "done", 1.0))
    assert values(
        chosen("roundwise", {"gamma": 0.5}).advantages([[Scored(one, late, 2.0), Scored(other, (), 1.0)]])
    ) == [0, 0]


def test_turnwise_compares_the_same_turn_by_what_it_earned() -> None:
    """Turn 0: 1 and 0, spread sqrt(1/2), A = 1/sqrt(2) and -1/sqrt(2). Turn 1: 5 and 5, left out without a penalty."""
    one, other = make.episode(0, [0, 0]), make.episode(1, [0, 0])
    scores = (Score(one.id, "ac", 1.0, turn=0), Score(one.id, "ac", 5.0, turn=1))
    batch = [[Scored(one, scores, 6.0), Scored(other, (Score(other.id, "ac", 5.0, turn=1),), 5.0)]]
    turnwise, penalised = chosen("turnwise"), chosen("turnwise", {"kl": 0.01})

    high, low = pytest.approx(sqrt(0.5), abs=1e-5), pytest.approx(-sqrt(0.5), abs=1e-5)
    assert table(turnwise.advantages(batch)) == {("00000-0", 0): high, ("00000-1", 0): low}
    assert turnwise.metrics()["turns_alike"] == 1.0
    kept = table(penalised.advantages(batch))
    assert kept == {("00000-0", 0): high, ("00000-1", 0): low, ("00000-0", 1): 0.0, ("00000-1", 1): 0.0}


def test_a_turn_earns_what_its_round_and_its_episode_earned() -> None:
    """Round 1 brings sample 0 a 2, the whole episode brings sample 1 a 1, the turns are in rounds 1 and 2.

    Turn 0: 2 and 1, turn 1: 0 and 1; so A = 0.707, -0.707 and -0.707, 0.707.
    """
    one, other = make.episode(0, [1, 2]), make.episode(1, [1, 2])
    batch = [
        [Scored(one, (Score(one.id, "right", 2.0, round=1),), 2.0), Scored(other, (Score(other.id, "done", 1.0),), 1.0)]
    ]

    found = table(chosen("turnwise").advantages(batch))

    half = pytest.approx(sqrt(0.5), abs=1e-5)
    assert [found["00000-0", 0], found["00000-1", 1]] == [half, half]


def test_imitation_makes_every_whole_answer_more_likely() -> None:
    """Rewards 3 and 1, at least 3: the second episode is left out. So are three of the first one's turns: one that was
    interrupted, one that was not understood, and one that was cut off at its maximum length.
    """
    batch = [make.rewarded([3.0, 1.0], turns=4)]
    batch[0][0].episode.turns[1].finish = "interrupted"
    batch[0][0].episode.turns[2].failures = ("a call without a name",)
    batch[0][0].episode.turns[3].finish = "length"
    picky, easy = chosen("imitation", {"least": 3.0}), chosen("imitation")

    assert table(picky.advantages(batch)) == {("00000-0", 0): 1.0}
    assert picky.metrics() == {"demonstrations": 1.0, "left_out": 1.0, "answers_left_out": 3.0}
    assert len(easy.advantages(batch)) == 1 + 4
    assert easy.loss().name.endswith(":Likelihood")


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("grpo", Loss(aggregation="episode_mean", kl=0.04)),
        ("dr_grpo", Loss(aggregation="token_sum", length=1024)),
        ("dapo", Loss(clip_high=0.28)),
        ("gspo", Loss(clip_low=3e-4, clip_high=4e-4, ratio="sequence", aggregation="episode_mean")),
        ("gdpo", Loss(aggregation="episode_mean")),
        ("gigpo", Loss(aggregation="sequence_mean", kl=0.01)),
        ("parpo", Loss(aggregation="episode_mean", kl=0.01)),
        ("roundwise", Loss(clip_high=0.28, aggregation="sequence_mean")),
        ("turnwise", Loss(clip_high=0.28, ratio_cap=10.0)),
        ("cispo", Loss("agentfw_plugins.optimizers.grpo:TruncatedWeight", clip_high=4.0)),
        ("reinforce", Loss(aggregation="episode_mean", kl=0.01)),
        ("empirical_bayes", Loss(aggregation="episode_mean", kl=0.01)),
        ("distillation", Loss(f"{DISTILLATION}:ReverseKL", teacher=True, settings={"bound": 5.0})),
        ("dpo", Loss(f"{IMITATION}:DPOLoss", sampled=False, aggregation="sequence_mean", settings={"beta": 0.1})),
        ("imitation", Loss(f"{IMITATION}:Likelihood", sampled=False)),
    ],
)
def test_each_names_its_algorithms_loss(name: str, loss: Loss) -> None:
    assert chosen(name).loss() == loss


def test_every_value_of_the_loss_is_a_setting() -> None:
    settings: dict[str, Any] = {
        "clip_low": 0.1,
        "clip_high": 0.3,
        "ratio": "sequence",
        "ratio_cap": 5.0,
        "aggregation": "token_sum",
        "length": 64,
        "kl": 0.02,
        "importance_cap": 2.0,
    }
    for name in NAMES[:-2]:
        assert chosen(name, settings).loss() == Loss(**settings)


def test_a_sum_of_tokens_needs_a_length() -> None:
    with pytest.raises(SettingsError, match="length"):
        chosen("grpo", {"aggregation": "token_sum"})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e200])
@pytest.mark.parametrize("name", [*NAMES, "empirical_bayes"])
def test_a_reward_that_is_no_number_is_an_error_that_names_the_episode(name: str, bad: float) -> None:
    optimizer, group = chosen(name), make.rewarded([1.0, bad])
    optimizer.advantages([make.tracked([0.0, 0.0], [1.0, 3.0])])
    before = json.dumps(optimizer.state())
    played = make.episode(1)
    unscored = [group[0], Scored(played, (Score(played.id, "judge", float("inf")),), 0.0)]

    with pytest.raises(PluginError, match=r"00000-1 .*nothing can be learned from"):
        optimizer.advantages([make.tracked([0.0, 0.0], [4.0, 6.0]), group])
    with pytest.raises(PluginError, match='"judge" of episode 00000-1'):
        optimizer.advantages([unscored])

    assert json.dumps(optimizer.state()) == before


@pytest.mark.parametrize("name", NAMES)
def test_silence_is_part_of_the_comparison_and_nothing_to_learn_from(name: str) -> None:
    """A turn without a token has no advantage; the other sample is still compared with the one that was silent."""
    group = make.rewarded([1.0, 0.0])
    silent = group[1].episode.turns[0]
    silent.text, silent.count, silent.token_ids = "", 0, ()
    group[0].episode.turns[0].text = ""  # a call and nothing else, which is no silence

    found = table(chosen(name).advantages([group]))

    assert list(found) == [("00000-0", 0)]
    assert found["00000-0", 0] > 0


@pytest.mark.parametrize("name", ["grpo", "dapo", "gspo", "gdpo", "gigpo", "parpo", "roundwise", "turnwise"])
def test_differences_far_below_the_floor_are_no_signal(name: str) -> None:
    """A judge's noise of 1e-5 would be an advantage of 1.25 if it were divided by its own spread."""
    optimizer = chosen(name, {"scale": True} if name == "gigpo" else {})
    noise, told_apart = [0.50001, 0.5, 0.5, 0.5, 0.50001], [1.0, 0.0, 0.0, 0.0, 1.0]

    assert 0 < max(map(abs, values(optimizer.advantages([make.rewarded(noise)])))) < 0.1
    assert max(map(abs, values(optimizer.advantages([make.rewarded(told_apart)])))) > 0.5
    assert set(values(optimizer.advantages([make.rewarded([0.1 + 0.2, 0.3])]))) <= {0.0}, "equal but for rounding"


def test_a_user_whose_rewards_hardly_ever_differed_is_not_measured_by_noise() -> None:
    parpo = chosen("parpo", {"baseline": "anchor", "base_weight": 0.0, "personal_weight": 1.0})
    parpo.restore({"anchors": {"ada": [0.5, 1e-10, 9]}})

    assert max(map(abs, values(parpo.advantages([make.tracked([0.0, 0.0], [0.50001, 0.49999])])))) < 0.1
