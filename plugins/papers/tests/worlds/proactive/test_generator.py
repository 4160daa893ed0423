"""Generated dialogues: their shape, their splits and their references."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw_papers.timing import annotation_row, validate
from agentfw_papers.worlds.proactive.dataset import SPLITS, Example, generated, with_placeholders
from agentfw_papers.worlds.proactive.domains import domain_names, load_domain
from agentfw_papers.worlds.proactive.settings import GeneratorSettings

each_domain = pytest.mark.parametrize("name", domain_names())


def rows(examples: tuple[Example, ...]) -> list[object]:
    return [[one.dialogue.as_dict(), annotation_row(one.annotation)] for one in examples]


@pytest.mark.slow
@each_domain
def test_the_same_seed_gives_the_same_dialogues_in_another_process(name: str) -> None:
    code = (
        "import sys, json\n"
        "from agentfw_papers.worlds.proactive.dataset import generated\n"
        "from agentfw_papers.worlds.proactive.domains import load_domain\n"
        "examples = generated(load_domain(sys.argv[1]), 'test', 3, 4)\n"
        "print(json.dumps([one.dialogue.as_dict() for one in examples]))\n"
    )
    printed = subprocess.run([sys.executable, "-c", code, name], capture_output=True, check=True).stdout

    here = [one.dialogue.as_dict() for one in generated(load_domain(name), "test", 3, 4)]
    assert json.loads(printed) == json.loads(json.dumps(here))
    assert rows(generated(load_domain(name), "test", 3, 4)) == rows(generated(load_domain(name), "test", 3, 9)[:4])
    assert rows(generated(load_domain(name), "test", 4, 4)) != rows(generated(load_domain(name), "test", 3, 4))


@pytest.mark.slow
@each_domain
def test_no_sentence_and_no_person_is_in_two_splits(name: str) -> None:
    sentences, people = [], []
    for split in SPLITS:
        examples = generated(load_domain(name), split, seed=7, count=80)
        people.append({json.dumps(one.dialogue.facts, sort_keys=True) for one in examples})
        # What is about a slot has its label or placeholder in it, and the shortest answer is the value alone.
        sentences.append(
            {
                turn.delexed
                for one in examples
                for turn in one.dialogue.turns
                if turn.speaker != "action" and re.sub(r"<\w+>|[,\s]", "", turn.delexed)
            }
        )

    assert all(len(one) > 30 for one in sentences)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert sentences[first] & sentences[second] == set()
        assert people[first] & people[second] == set()


def test_unobserved_domains_have_references_but_show_no_triggers() -> None:
    for one in generated(load_domain("home_loan"), "train", seed=1, count=20):
        assert one.dialogue.triggers == ()
        assert {turn.speaker for turn in one.dialogue.turns} == {"customer", "professional"}
        assert one.annotation.windows


def test_values_can_be_placeholders() -> None:
    example = generated(load_domain("abcd"), "train", 7, 1, GeneratorSettings(flows=("refund_initiate",), early_end=0))[
        0
    ]

    hidden = with_placeholders(example)

    said = " ".join(turn.text for turn in hidden.dialogue.turns)
    email = str(example.dialogue.facts["email"])
    assert email in " ".join(turn.text for turn in example.dialogue.turns)
    assert email not in said
    assert "<email>" in said
    trigger = next(one for one in hidden.dialogue.triggers if one.action == "validate-purchase")
    assert trigger.values == {"username": "<username>", "email": "<email>", "order_id": "<order_id>"}
    last = next(one for one in hidden.annotation.at(trigger.turn).opportunities if one.name == "validate-purchase")
    assert last.inputs["email"].value == "<email>"
    assert hidden.annotation.windows == example.annotation.windows


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(domain_names()), st.sampled_from(SPLITS), st.integers(0, 1000), st.floats(0, 1))
def test_references_by_rule_agree_with_what_was_triggered(name: str, split: str, seed: int, share: float) -> None:
    chosen = GeneratorSettings(volunteered=share, refused=share, ambiguous=share, early_end=share, noise=share / 2)

    [one] = generated(load_domain(name), split, seed, 1, chosen)

    report = validate({one.id: one.dialogue.triggers}, {one.id: one.annotation.windows})
    assert report.margins[0].share in (1.0, None)
    passed = [margin.passed for margin in report.margins]
    assert passed == sorted(passed, reverse=True)
