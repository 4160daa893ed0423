"""The one loss, against small examples worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentfw.errors import UsageError
from agentfw.optimizer import Loss
from agentfw_plugins.optimizers.imitation import KTO, Imitation, ImitationSettings, KTOSettings

torch = pytest.importorskip("torch")

from agentfw_plugins.learners.losses import Figures, Terms, loss_of, made, weights  # noqa: E402


def terms(logprobs: list[float], advantages: list[float], **others: Any) -> Terms:
    """Tokens of one turn unless said otherwise, each of weight one, whose logprobs were 0 before."""
    made = {
        "logprobs": torch.tensor(logprobs, requires_grad=True),
        "before": torch.zeros(len(logprobs)),
        "advantages": torch.tensor(advantages),
        "weights": torch.ones(len(logprobs)),
        "turns": torch.zeros(len(logprobs), dtype=torch.long),
    }
    return Terms(**(made | {name: torch.tensor(value) for name, value in others.items()}))


def value_and_slopes(loss: Loss, given: Terms) -> tuple[float, list[float]]:
    total = loss_of(loss, given, Figures())
    return float(total.detach()), torch.autograd.grad(total, given.logprobs)[0].tolist()


def test_a_ratio_within_bounds_counts_and_beyond_them_earns_nothing_more() -> None:
    """Ratios 1.1 and 1.5 with advantage 2, clipped at 1.2: -(2.2 + 2.4); only the first has a slope, -r A = -2.2."""
    value, slopes = value_and_slopes(Loss(), terms([math.log(1.1), math.log(1.5)], [2.0, 2.0]))

    assert value == pytest.approx(-4.6)
    assert slopes == pytest.approx([-2.2, 0.0])


def test_a_bad_token_that_became_likelier_is_not_clipped_but_capped() -> None:
    """Advantage -1: ratio 0.5 is clipped to 0.8; 3 counts as it is; 20 counts as the cap of 10, with no slope."""
    given = terms([math.log(0.5), math.log(3.0), math.log(20.0)], [-1.0, -1.0, -1.0])

    value, slopes = value_and_slopes(Loss(ratio_cap=10.0), given)

    assert value == pytest.approx(0.8 + 3 + 10)
    assert slopes == pytest.approx([0.0, 3.0, 0.0])


def test_the_bounds_may_differ() -> None:
    """Ratio 1.25 with advantage 1 counts in full below 1.28; ratio 0.75 with advantage -1 is held at 0.8."""
    value, _ = value_and_slopes(Loss(clip_high=0.28), terms([math.log(1.25), math.log(0.75)], [1.0, -1.0]))

    assert value == pytest.approx(-1.25 + 0.8)


def test_a_sequence_ratio_is_the_geometric_mean_over_its_turn() -> None:
    """Turn one: ratios 1.1 and 1 / 1.1 make 1. Turn two: 1.21 and 1 make 1.1, and each token has half of the slope."""
    given = terms([math.log(1.1), -math.log(1.1), math.log(1.21), 0.0], [1.0, 1.0, 2.0, 2.0], turns=[0, 0, 1, 1])

    value, slopes = value_and_slopes(Loss(ratio="sequence"), given)

    assert value == pytest.approx(-(1 + 1 + 2.2 + 2.2))
    assert slopes == pytest.approx([-1, -1, -2.2, -2.2])


def test_a_sampler_that_differs_is_corrected_up_to_the_cap() -> None:
    """The trainer is twice and five times as sure as the sampler was; 5 counts as 3."""
    given = terms([0.0, 0.0], [1.0, 1.0], sampled=[-math.log(2.0), -math.log(5.0)])
    figures = Figures()

    total = loss_of(Loss(importance_cap=3.0), given, figures)

    assert float(total.detach()) == pytest.approx(-(2 + 3))
    assert figures.means(1)["importance_capped"] == 0.5
    assert figures.means(1)["mismatch_largest"] == pytest.approx(math.log(5))


def test_a_turn_may_be_corrected_as_a_whole() -> None:
    """Twice and 1.2 times as sure make 2.4 for both tokens; in the other turn 2 and 5 make 10, which counts as 3."""
    apart = [-math.log(each) for each in (2.0, 1.2, 2.0, 5.0)]
    given = terms([0.0] * 4, [1.0] * 4, sampled=apart, turns=[0, 0, 1, 1])

    value, _ = value_and_slopes(Loss(importance_cap=3.0, importance_level="sequence"), given)

    assert value == pytest.approx(-(2.4 + 2.4 + 3 + 3))


def test_a_turn_that_the_sampler_saw_quite_differently_is_left_out() -> None:
    """Mean log ratios of log 2, of log 1.1, and of -log 2: only the middle one is within 1.5 either way."""
    apart = [-math.log(each) for each in (4.0, 1.0, 1.21, 1.0, 0.5)]
    given = terms([0.0] * 5, [1.0] * 5, sampled=apart, turns=[0, 0, 1, 1, 2])
    figures = Figures()

    total = loss_of(Loss(importance_cap=3.0, importance_mask=1.5), given, figures)

    assert float(total.detach()) == pytest.approx(-(1.21 + 1))
    assert figures.means(1)["importance_masked"] == pytest.approx(3 / 5)
    assert figures.means(1)["importance_corrected"] == pytest.approx(3 / 5), "the capped token is in a turn left out"


def test_a_token_without_a_logprob_of_the_sampler_counts_as_it_is() -> None:
    given = terms([0.0, 0.0], [1.0, 1.0], sampled=[-math.log(1.2), math.nan])

    value, _ = value_and_slopes(Loss(importance_cap=3.0, importance_mask=1.5), given)

    assert value == pytest.approx(-(1.2 + 1))


def test_likelihood_has_no_ratio() -> None:
    value, slopes = value_and_slopes(Imitation(ImitationSettings()).loss(), terms([-2.0, -3.0], [1.0, 0.5]))

    assert value == pytest.approx(2.0 + 1.5)
    assert slopes == pytest.approx([-1.0, -0.5])


def test_kto_values_whole_turns_by_how_far_they_are_from_the_reference() -> None:
    """A good turn of two tokens with R = 1 + 1, a bad one of weight 1.5 with R = 1; beta 0.1, baseline 0.5.

    Good: sigmoid(0.1 (2 - 0.5)) = 0.537430. Bad: sigmoid(0.1 (0.5 - 1)) = 0.487503. Their mean loss is
    (1 - 0.537430) / 2 + 1.5 (1 - 0.487503) / 2 = 0.615658. Each token has the slope of its turn: -0.1 0.537430
    0.462570 / 2 = -0.0124299, and 1.5 0.1 0.487503 0.512497 / 2 = 0.0187383.
    """
    counts = weights(Loss(aggregation="sequence_mean"), [2, 1], ["a", "b"])
    given = terms(
        [-1.0, -0.5, -1.0],
        [1.0, 1.0, -1.5],
        turns=[0, 0, 1],
        weights=[counts[0], counts[0], counts[1]],
        base=[-2.0, -1.5, -2.0],
        baseline=[0.5],
    )
    figures = Figures()

    total = loss_of(KTO(KTOSettings()).loss(), given, figures)

    assert float(total.detach()) == pytest.approx(0.615658, abs=1e-6)
    slopes = torch.autograd.grad(total, given.logprobs)[0].tolist()
    assert slopes == pytest.approx([-0.0124299, -0.0124299, 0.0187383], abs=1e-7)
    found = figures.means(1)
    assert (found["log_ratio_good"], found["log_ratio_bad"], found["baseline"]) == (2.0, 1.0, 0.5)


def test_the_distance_to_the_base_is_a_term_of_its_own() -> None:
    """Twice as likely without adapter: 2 - log 2 - 1, by 0.5; its slope by the logprob is 0.5 (1 - 2)."""
    figures = Figures()
    given = terms([0.0], [0.0], base=[math.log(2.0)])
    total = loss_of(Loss(kl=0.5), given, figures)

    assert float(total.detach()) == pytest.approx(0.5 * (1 - math.log(2)))
    assert torch.autograd.grad(total, given.logprobs)[0].tolist() == pytest.approx([-0.5])
    assert figures.means(1)["kl"] == pytest.approx(1 - math.log(2))
    assert figures.means(1)["policy_loss"] == 0


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (Loss(), [1 / 8, 1 / 8, 1 / 8]),
        (Loss(aggregation="sequence_mean"), [1 / 3, 1 / 9, 1 / 12]),
        (Loss(aggregation="episode_mean"), [1 / 8, 1 / 8, 1 / 8]),
        (Loss(aggregation="token_sum", length=10), [1 / 20, 1 / 20, 1 / 20]),
    ],
)
def test_what_a_token_counts_says_what_is_alike(loss: Loss, expected: list[float]) -> None:
    """Turns of 1 and 3 tokens in one episode, one of 4 in another: all tokens, turns or episodes count alike."""
    assert weights(loss, [1, 3, 4], ["a", "a", "b"]) == pytest.approx(expected)


def test_a_long_episode_counts_no_more_than_a_short_one() -> None:
    """A loser of ten turns and a winner of two, of five tokens each: by turns the loser outweighs it five to one."""
    lengths, episodes = [5] * 12, ["loser"] * 10 + ["winner"] * 2

    by_turn = weights(Loss(aggregation="sequence_mean"), lengths, episodes)
    by_episode = weights(Loss(aggregation="episode_mean"), lengths, episodes)

    assert sum(by_turn[:10]) / sum(by_turn[10:]) == pytest.approx(5)
    assert sum(by_episode[:10]) == pytest.approx(sum(by_episode[10:]))
    assert 5 * sum(by_episode) == pytest.approx(1)


def test_a_ratio_that_no_float_can_hold_is_still_a_number() -> None:
    value, slopes = value_and_slopes(Loss(), terms([500.0, -500.0], [-1.0, 1.0]))

    assert all(map(math.isfinite, [value, *slopes]))


@pytest.mark.parametrize("loss", [Loss("dpo"), Loss("agentfw:Loss"), Loss("math:sqrt"), Loss(aggregation="token_sum")])
def test_a_loss_that_cannot_be_is_refused(loss: Loss) -> None:
    with pytest.raises(UsageError) as caught:
        made(loss)

    assert caught.value.fix
