"""`Choices` of `agentfw_papers.linear`: what a policy of a few weights decides, and what its answers say of that."""

from __future__ import annotations

import math

import pytest

from agentfw import Intervention, Moment, Request, Task
from agentfw.request import Sampling
from agentfw_papers.linear import Choices, read_decisions

WEIGHTS = {"fame": math.log(3), "stated": 0.0}
OPTIONS = ((0.0, 1.0), (1.0, 0.0))


def request(seed: int, temperature: float | None = None) -> Request:
    return Request([], moment=Moment(0), task=Task(0, 7), sampling=Sampling(temperature=temperature, seed=seed))


def test_options_are_chosen_as_often_as_their_weights_say() -> None:
    chosen = [Choices(WEIGHTS, request(seed)).decide(("fame", "stated"), OPTIONS) for seed in range(2000)]

    # 3 of 4, give or take four standard deviations
    assert abs(sum(chosen) / 2000 - 0.75) < 4 * math.sqrt(0.75 * 0.25 / 2000)
    assert Choices(WEIGHTS, request(3)).decide(("fame", "stated"), OPTIONS) == chosen[3]


def test_at_temperature_0_the_likeliest_option_is_chosen() -> None:
    choices = Choices(WEIGHTS, request(1, temperature=0))

    assert [choices.decide(("fame", "stated"), OPTIONS), choices.flip("fame")] == [1, True]
    assert choices.generation((), "start").temperature == 0


def test_an_answer_has_its_decisions_with_their_logprobs() -> None:
    choices = Choices(WEIGHTS, request(5))
    choices.decide(("fame", "stated"), OPTIONS)
    choices.flip("fame")

    answer = choices.generation([Intervention("take")], "start")

    decisions = read_decisions(answer.text)
    assert [(one.names, one.choice) for one in decisions] == [
        (("fame", "stated"), answer.token_ids[0]),
        (("fame",), answer.token_ids[1]),
    ]
    assert list(answer.logprobs) == pytest.approx([one.logprob(WEIGHTS) for one in decisions])
    assert (answer.calls[0].name, answer.said, answer.version) == ("take", "", "start")


def test_a_turn_without_a_decision_has_a_token_that_was_certain() -> None:
    answer = Choices(WEIGHTS, request(5)).generation((), "start")

    assert (answer.token_ids, answer.logprobs) == ((0,), (0.0,))
