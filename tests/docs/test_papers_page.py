"""What the page of the papers' claims says was found here is what the pages say that it links to."""

from __future__ import annotations

import re

import pytest
from papers_page import VERDICTS, papers

from .snippets import ROOT

CLAIMS = [claim for paper in papers() for claim in paper["claim"]]


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if "ours" in claim], ids=lambda claim: claim["where"])
def test_every_figure_stands_on_the_page_it_comes_from(claim: dict[str, str]) -> None:
    page = (ROOT / claim["from"]).read_text("utf-8")

    missing = [figure for figure in re.findall(r"\d+\.\d+", claim["ours"]) if figure not in page]

    assert missing == []


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim['where']}: {claim['claim'][:30]}")
def test_a_claim_that_was_not_found_again_says_why(claim: dict[str, str]) -> None:
    assert claim["verdict"] in VERDICTS
    assert "why" in claim or claim["verdict"] == "same"
    assert ("ours" in claim) == ("from" in claim)
    assert "ours" in claim or claim["verdict"] in ("not measured", "not told apart")


def test_equal_by_construction_is_no_verdict_on_a_paper() -> None:
    """A training that is compared with itself, by a setting that changes nothing, is no finding."""
    same = [claim for claim in CLAIMS if claim["verdict"] == "same"]

    assert [claim["claim"] for claim in same if "[+0.000, +0.000]" in claim["ours"]] == []
