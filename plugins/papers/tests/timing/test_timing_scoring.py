"""Figures of whole dialogues: averages, intervals, several runs, and what can't be scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentfw_papers.timing import (
    Annotation,
    Input,
    Opportunity,
    Status,
    TurnOpportunities,
    difference,
    load_domain,
    over_seeds,
    score,
)
from agentfw_rewardmodels.errors import BadInputError


def turn(number: int, *actions: tuple[str, Status], dialogue: str = "d") -> TurnOpportunities:
    return TurnOpportunities(dialogue, number, tuple(Opportunity(name, status) for name, status in actions))


REFERENCE = Annotation(
    "d",
    10,
    (
        turn(3, ("refund", "pending")),
        turn(4, ("refund", "ready_to_trigger"), ("close", "pending")),
        turn(5, ("refund", "triggered")),
    ),
)
EAGER = [turn(number, ("refund", "ready_to_trigger"), ("close", "ready_to_trigger")) for number in (2, 4, 6)]
WAITING = [turn(2), turn(4, ("refund", "pending")), turn(6)]
EXACT = [TurnOpportunities("d", number, REFERENCE.at(number).opportunities) for number in (3, 4, 5)]


def test_turns_are_averaged_within_a_dialogue_and_dialogues_with_one_another() -> None:
    short = Annotation("short", 2, (turn(1, ("refund", "triggered"), dialogue="short"),))

    report = score([*EAGER, turn(1, ("refund", "triggered"), dialogue="short")], [REFERENCE, short])

    # Agreement 0, 1 and 0 in the first dialogue, 1 in the second.
    assert report["ac"].mean == pytest.approx((1 / 3 + 1) / 2)
    assert report["ac"].dialogues == 2
    # Half of the predictions in time at turns 2 and 4, none at turn 6; closing is never ready.
    assert report["pt"].mean == pytest.approx((1 / 3 + 1) / 2)
    assert report["late"].mean == pytest.approx((1 / 6 + 0) / 2)
    assert report["unfounded"].mean == pytest.approx((1 / 2 + 0) / 2)


def test_players_differ_as_they_should() -> None:
    eager, waiting, exact = (score(played, [REFERENCE]) for played in (EAGER, WAITING, EXACT))

    assert (exact["ac"].mean, exact["max_ac"].mean, exact["ftr"].mean) == (1, 1, 0)
    assert exact["pt"].mean == exact["rar"].mean
    assert (eager["rar"].mean, eager["ftr"].mean) == (1, 0.5)
    assert waiting["silent"].mean == pytest.approx(2 / 3)
    assert waiting["missed"].mean == 0
    assert math.isnan(waiting["ftr"].mean)
    assert str(waiting["ftr"]) == "undefined"


def test_a_turn_without_a_prediction_at_an_expected_action_is_missed() -> None:
    report = score([turn(4), turn(7)], [REFERENCE])

    assert (report["silent"].mean, report["missed"].mean) == (1, 0.5)


def test_the_difference_is_the_gap_between_the_best_and_the_average_prediction() -> None:
    report = score([turn(4, ("refund", "pending"), ("reship", "pending"))], [REFERENCE])

    assert (report["ac"].mean, report["max_ac"].mean, report["difference"].mean) == (0.5, 1, 1)


def test_runs_with_several_seeds_are_told_with_their_spread() -> None:
    runs = [
        score([turn(4, ("refund", "pending"))], [REFERENCE]),
        score([turn(4, ("refund", "pending"), ("reship", "pending"))], [REFERENCE]),
    ]

    figures = over_seeds(runs)

    assert (figures["ac"].mean, figures["max_ac"].mean) == (0.75, 1)
    assert figures["ac"].deviation == pytest.approx(0.25 * math.sqrt(2))
    assert (figures["difference"].mean, figures["difference"].deviation) == difference(
        0.75, 1, figures["ac"].deviation, 0
    )
    assert "ftr" not in figures
    assert str(over_seeds(runs[:1])["ac"]) == "1.000±0.000"


def test_a_catalog_adds_spellings_and_the_order_of_workflows(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text("""
name: bakery
slots: {cake: {values: {apple: [Apfelkuchen]}}}
actions: {order: {parameters: [cake]}, bake: {}, deliver: {}}
workflows: {usual: [order, bake, deliver]}
""")
    catalog = load_domain(tmp_path / "domain.yaml").catalog
    ordered = [Opportunity("order", "triggered", (Input("cake", True, value),)) for value in ("Apfelkuchen", "apple")]
    reference = Annotation("d", 3, (TurnOpportunities("d", 1, (ordered[0],)),))
    predictions = [TurnOpportunities("d", 1, (ordered[1],)), turn(3, ("bake", "pending"), ("order", "pending"))]

    without, with_catalog = score(predictions, [reference]), score(predictions, [reference], catalog=catalog)

    assert (without.turns["d", 1].ac, with_catalog.turns["d", 1].ac) == (0, 1)
    assert with_catalog.turns["d", 1].ad is None
    assert with_catalog.turns["d", 3].ad == pytest.approx(0.5, abs=1e-6)
    assert with_catalog.turns["d", 3].ad_mean == with_catalog.turns["d", 3].ad
    assert math.isnan(without["ad"].mean)


def test_questions_are_scored_with_an_encoder() -> None:
    def encode(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "order" in text else [0.0, 1.0] for text in texts]

    reference = Annotation("d", 3, (TurnOpportunities("d", 1, (), ("Which order?",)),))
    predictions = [TurnOpportunities("d", 1, (), ("Your order?", "Nice weather?")), turn(2)]

    report = score(predictions, [reference], encode=encode)

    assert report["ic"].mean == 0.5
    assert report.turns["d", 2].ic is None


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ([], "no predictions to score"),
        ([turn(1, dialogue="other")], 'a prediction for dialogue "other", but no annotation'),
        ([turn(11)], 'at turn 11 of dialogue "d", which has 10 turns'),
        ([turn(1), turn(1)], 'two predictions at turn 1 of dialogue "d"'),
    ],
)
def test_what_does_not_fit_the_annotations_is_refused(predictions: list[TurnOpportunities], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        score(predictions, [REFERENCE])

    assert message in caught.value.message
    assert caught.value.fix
