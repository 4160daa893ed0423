"""The ProActor paper's tables, recomputed from its own printed figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentfw_papers.timing import Dependencies, Figures, load_domain, rank
from agentfw_papers.timing.run_agreement import MetricAgreement, RunAgreement

DATA = Path(__file__).parents[1] / "data"
ABCD = Path(__file__).parents[2] / "agentfw_papers/worlds/proactive/domains/abcd"
TABLES: dict[str, Any] = json.loads((DATA / "proactor_tables.json").read_text("utf-8"))
GROUPS: dict[str, list[dict[str, Any]]] = TABLES["table_5"]
METRICS = ("ac", "max_ac", "difference", "pt", "ftr", "rar")
each_group = pytest.mark.parametrize("group", GROUPS)


def figures(row: Mapping[str, Any], **changed: float) -> Figures:
    return Figures(**{metric: row[metric] for metric in METRICS if metric in row} | changed)


def largest_error(rows: list[dict[str, Any]]) -> float:
    printed: dict[str, float] = {row["name"]: row["pri"] for row in rows}
    ranking = rank({row["name"]: figures(row) for row in rows})
    return max(abs(row.pri - printed[row.name]) for row in ranking.rows)


@each_group
def test_the_ranking_index_of_table_5_is_reproduced_to_four_decimals(group: str) -> None:
    rows = GROUPS[group]

    assert len(rows) == 17
    assert largest_error(rows) <= 5e-5


@pytest.mark.parametrize(("group", "error"), [("ABCD+", 0.148), ("Home Loan", 0.001)])
def test_table_1_was_normalised_with_rows_that_it_does_not_show(group: str, error: float) -> None:
    shown = [row for row in GROUPS[group] if row["name"] in TABLES["table_1_members"][group]]

    assert len(shown) == 14
    assert error * 0.95 < largest_error(shown) <= error


@pytest.mark.parametrize("group", ["ABCD+ 100/50", "Home Loan 774/97"])
def test_the_timing_index_of_table_9_leaves_room_for_a_difference_between_0_and_1(group: str) -> None:
    rows = TABLES["table_9"][group]
    printed: dict[str, float] = {row["name"]: row["pri"] for row in rows}
    # Table 9 prints no difference. With the same one for all, each is normalised to 0.5.
    ranking = rank({row["name"]: figures(row, difference=0.0) for row in rows})

    inverted = []
    for row in ranking.rows:
        consistency = printed[row.name] * row.timing / (2 * row.timing - printed[row.name])
        inverted.append(3 * row.consistency + 0.5 - 3 * consistency)

    assert min(inverted) == pytest.approx(0, abs=2e-3)
    assert max(inverted) == pytest.approx(1, abs=2e-3)


def test_transitions_of_the_public_workflows() -> None:
    dependencies = Dependencies.of(load_domain(ABCD / "domain.yaml").catalog)
    after = {name: dependencies.probability("pull-up-account", name) for name in dependencies.actions}

    assert sum(dependencies.transitions.values()) == 176
    assert len(dependencies.transitions) == 82
    assert after["verify-identity"] == pytest.approx(16 / 43, abs=1e-7)
    assert after["validate-purchase"] == after["record-reason"] == pytest.approx(10 / 43, abs=1e-7)
    assert after["promo-code"] == pytest.approx(2.33e-9, rel=5e-3)
    assert sum(after.values()) == pytest.approx(1)
    assert dependencies.probability("select-faq", "promo-code") == pytest.approx(1 / 30)


@pytest.mark.parametrize(
    ("cap", "combined", "over_six"), [("10", 0.9075, (0.979, 0.842)), ("100", 0.7775, (0.901, 0.587))]
)
def test_the_agreement_of_runs_is_the_mean_of_both_parts(
    cap: str, combined: float, over_six: tuple[float, float]
) -> None:
    rows = {name: MetricAgreement(row["final"], row["trajectory"]) for name, row in TABLES["table_15"][cap].items()}
    average = rows.pop("Average")

    assert RunAgreement({"average": average}).combined == pytest.approx(combined)
    # Two of the eight metrics are not printed, so the printed average doesn't follow from the others.
    six = RunAgreement(rows)
    assert (six.final, six.trajectory) == pytest.approx(over_six, abs=6e-4)


def test_the_percentages_of_table_3_follow_from_its_counts() -> None:
    triggers = 29_510

    for row in TABLES["table_3"]:
        assert round(100 * row["count"] / triggers, 2) == pytest.approx(row["percentage"], abs=0.01)
