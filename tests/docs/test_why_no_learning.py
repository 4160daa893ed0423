"""The page that says why a training doesn't learn names figures that there are, and messages as they are printed."""

from __future__ import annotations

import re

import pytest

from agentfw.runs.records.summary import WHY_NO_LEARNING, nothing_learned

from .snippets import ROOT

PAGE = ROOT / "docs" / "guides" / "why-no-learning.md"
CASES = [
    {"groups": 8, "groups_alike": 8, "groups_learned": 0},
    {"groups": 8, "groups_alike": 2, "groups_learned": 0},
    {"groups": 0, "groups_alike": 0, "groups_learned": 0},
    {"groups": 8, "groups_alike": 2, "groups_learned": 6},
]


def test_its_figures_are_those_that_are_recorded() -> None:
    sources = [*(ROOT / "framework").rglob("*.py"), *(ROOT / "plugins" / "agentfw_plugins").rglob("*.py")]
    code = "\n".join(path.read_text("utf-8") for path in sources)

    named = re.findall(r"`(?:rollouts|learner|served)\.([a-z_]+)`", PAGE.read_text("utf-8"))

    assert len(named) > 6
    assert [name for name in named if not re.search(rf"\b{name}\b[\"\s]*[=:,)]", code)] == []


@pytest.mark.parametrize("figures", CASES, ids=str)
def test_its_messages_are_those_that_are_printed(figures: dict[str, int]) -> None:
    assert f"`{nothing_learned({'rollouts': figures, 'served': {}})}`" in PAGE.read_text("utf-8")


def test_messages_name_the_page() -> None:
    assert str(PAGE.relative_to(ROOT)) in WHY_NO_LEARNING
