"""What the page of the papers' claims says was found here is what the pages say that it links to."""

from __future__ import annotations

import re

import pytest
from papers_page import papers

from .snippets import ROOT

CLAIMS = [claim for paper in papers() for claim in paper["claim"]]
VERDICTS = {"same", "different", "not told apart", "not measured"}


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
