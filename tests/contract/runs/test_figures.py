"""A figure that is declared once is in the table, the notebook, the report, the comparison, JSON and the view."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import agentfw
from agentfw.runs import EPISODE_FIGURES, figure_text, figures_of

SITE = Path(__file__).parents[2] / "site"
TITLE = "answer length (tokens)"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Two finished runs of a policy that samples tokens; the plugin agentfw-laboratory is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SITE))
    return [agentfw.run("guessing", policy="hashing", episodes=3, seed=seed) for seed in (1, 1)]


def test_a_declared_figure_is_everywhere(runs: list[Any], agentfw: Callable[..., Any]) -> None:
    result = runs[0]
    lengths = [fmean(turn.count for turn in episode.turns) for episode in result.episodes]
    mean = fmean(lengths)
    written = figure_text("answer_tokens", mean)

    assert result.figures["answer_tokens"].estimate == pytest.approx(mean)
    assert f"{TITLE} {written} " in " ".join(agentfw("runs", "show", result.path.name).out.split())
    assert f"<th>{TITLE}</th>" in result._repr_html_()
    page = (result.path / "report.html").read_text("utf-8")
    assert page.count(TITLE) == 3, "explained, among the figures, and as a column of the episodes"
    assert agentfw("view", result.path.name, "--bundle", "site").code == 0
    assert f">{TITLE}</th>" in Path("site", "index.html").read_text("utf-8")
    compared = {row["figure"]: row for row in agentfw("compare", *(one.path.name for one in runs), "--json").json}
    assert compared["answer_tokens"]["runs"][0]["mean"] == pytest.approx(mean)
    assert agentfw("runs", "show", "last", "--json").json["summary"]["figures"]["answer_tokens"]["count"] == 3
    assert [compared[name]["better"] for name in ("error", "reward", "answer_tokens")] == ["lower", "higher", None]
    assert "the lower the error, the better" in agentfw("compare", *(one.path.name for one in runs)).err


def test_what_no_episode_has_measured_is_nowhere() -> None:
    program = {"reward": 1.0, "utility": 1.0, "outcome": {}, "turns": 4, "tokens": 0, "usage": {"cost": 0.0}}

    assert "answer_tokens" not in figures_of(program)
    assert "cost" not in figures_of(program, averaged=False)


def test_every_figure_says_what_it_is() -> None:
    for name, figure in EPISODE_FIGURES.items():
        assert figure.name == name
        assert figure.heading
        is_seen = figure.averaged or figure.listed or name in ("failures", "failed_calls", "prompt_tokens")
        assert is_seen, "else nobody would see it"


def test_a_comparison_says_which_way_is_better(runs: list[Any], agentfw: Callable[..., Any]) -> None:
    found = agentfw("compare", *(one.path.name for one in runs))
    rows = agentfw("compare", *(one.path.name for one in runs), "--json").json

    assert "the lower the error, the better" in found.err
    better = {row["figure"]: row["better"] for row in rows}
    assert (better["error"], better["reward"], better["answer_tokens"]) == ("lower", "higher", None)
