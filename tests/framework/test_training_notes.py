"""Whoever reads a report learns in its first lines what was not proven."""

from __future__ import annotations

from typing import Any

import pytest

from agentfw.runs.results.run_report import training_notes


def update(served: dict[str, float], **learner: float) -> dict[str, Any]:
    return {"served": served, "learner": learner}


def test_versions_that_were_all_proven_need_no_words() -> None:
    assert training_notes([update({"proven": 1.0}), update({})]) == []


@pytest.mark.parametrize(("first", "words"), [(0.0, "None of 2 versions"), (1.0, "Only 1 of 2 versions")])
def test_versions_that_could_not_be_told_apart_are_counted(first: float, words: str) -> None:
    (note,) = training_notes([update({"proven": first}), update({"proven": 0.0})])

    assert note.startswith(f"{words} could be proven to be served")


def test_what_the_optimizer_says_after_every_update_is_told_once() -> None:
    first, second = {**update({}), "note": "Anchors are idle."}, {**update({}), "note": "Anchors are still idle."}

    assert training_notes([first, second]) == ["Anchors are still idle."]
    assert training_notes([first, update({})]) == [], "it was true at the start only"


def test_a_policy_without_logprobs_is_told_where_tokens_are_learned_from() -> None:
    (note,) = training_notes([update({"publish_seconds": 0.1}, tokens_trained=12)])

    assert "not verified" in note
    assert training_notes([update({"publish_seconds": 0.1})]) == [], "a table has no other program that serves it"
