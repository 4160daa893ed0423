"""The ProActor paper's tables, recomputed from its own printed figures."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentfw_papers.timing import Dependencies, load_domain
from agentfw_papers.timing.run_agreement import MetricAgreement, RunAgreement
from agentfw_papers.worlds.proactive.command import proactive

DATA = Path(__file__).parents[1] / "data"
ABCD = Path(__file__).parents[2] / "agentfw_papers/worlds/proactive/domains/abcd"
TABLES: dict[str, Any] = json.loads((DATA / "proactor_tables.json").read_text("utf-8"))


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
    both = dependencies.alignment(["pull-up-account", "select-faq"], ["verify-identity"])
    assert both == pytest.approx(after["verify-identity"] + dependencies.probability("select-faq", "verify-identity"))
    assert dependencies.alignment([], ["promo-code"]) is None


@pytest.mark.parametrize(
    ("cap", "combined", "over_six"), [("10", 0.9075, (0.979, 0.842)), ("100", 0.7775, (0.901, 0.587))]
)
def test_the_agreement_of_runs_is_a_mean_of_two_parts(cap: str, combined: float, over_six: tuple[float, float]) -> None:
    rows = {name: MetricAgreement(row["final"], row["trajectory"]) for name, row in TABLES["table_15"][cap].items()}
    average = rows.pop("Average")

    assert RunAgreement({"average": average}).combined == pytest.approx(combined)
    # Two of the eight metrics are not printed, so the printed average doesn't follow from the others.
    six = RunAgreement(rows)
    assert (six.final, six.trajectory) == pytest.approx(over_six, abs=6e-4)


@pytest.mark.parametrize("table", ["ABCD+", "Home Loan"])
def test_systems_are_ranked_as_in_the_paper(tmp_path: Path, table: str) -> None:
    group = TABLES["table_5"][table]
    path = tmp_path / "systems.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["name", "ac", "max_ac", "difference", "pt", "ftr", "rar"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(group)

    ranking = json.loads(CliRunner().invoke(proactive, ["rank", str(path), "--json"], catch_exceptions=False).stdout)

    assert len(ranking["group"]) == 17
    found = {row["name"]: row["pri"] for row in ranking["rows"]}
    assert found == pytest.approx({row["name"]: row["pri"] for row in group}, abs=5e-5)
    assert list(found.values()) == sorted(found.values(), reverse=True)
