"""Domains and dialogues: what ships, what is generated, and what is imported of public conversations, also damaged."""

from __future__ import annotations

import copy
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw.errors import SettingsError, UsageError
from agentfw_papers.timing import annotate, annotation_row, validate
from agentfw_papers.worlds.proactive.command import proactive
from agentfw_papers.worlds.proactive.dataset import SPLITS, Example, generated, with_placeholders
from agentfw_papers.worlds.proactive.domains import domain_file, domain_names, load_domain
from agentfw_papers.worlds.proactive.generator import DialogueGenerator
from agentfw_papers.worlds.proactive.importers import Imported, importer
from agentfw_papers.worlds.proactive.settings import GeneratorSettings


def check(name: str) -> dict[str, object]:
    shown = CliRunner().invoke(proactive, ["domain", "check", name, "--json"], catch_exceptions=False)
    facts: dict[str, object] = json.loads(shown.stdout)
    return facts


def test_the_public_domain_has_what_its_ontology_says_and_the_second_is_a_yaml_file() -> None:
    public, second = check("abcd"), check("home_loan")

    counts = [public[key] for key in ("actions", "workflows", "slots", "without_parameters", "flows")]
    assert counts == [30, 55, 25, 17, 10]
    assert public["workflows_without_openings"] == []
    assert [second[key] for key in ("actions", "workflows", "observed")] == [13, 6, False]
    assert {file.suffix for file in domain_file("home_loan").parent.iterdir()} == {".yaml"}
    with pytest.raises(UsageError, match='no domain is called "abdc"; did you mean "abcd"'):
        load_domain("abdc")


SIX = "[a1, a2, a3, a4, a5, a6]"
SHOP = f"""
name: shop
slots: {{order: {{pattern: "[0-9]+"}}}}
actions: {{refund: {{parameters: [order], required: [order]}}, call-back: {{}}}}
workflows: {{return: [refund], complaint: [call-back, refund]}}
phrases:
  openings:
    return: {SIX}
"""


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("    complaint: [a1]\n", "openings.complaint"),
        (f"    complaint: {SIX}\n", 'the opening "a1" of the domain "shop" fits both "return" and "complaint"'),
        ("  slots: {color: {label: color}}\n", '"color", which no action uses'),
        ('  slots: {order: {value: "{number}"}}\n', 'needs "number", which has no value of its own'),
        ('  slots: {order: {value: "{order}"}}\n', 'needs "order", which has no value of its own'),
        ("  escalation: shout\n", '"shout", which is not an action'),
        ("  shape: {turns: 4, spread: -1}\n", "shape.spread"),
    ],
)
def test_phrases_that_cannot_be_used_are_refused(tmp_path: Path, extra: str, message: str) -> None:
    (tmp_path / "domain.yaml").write_text(SHOP + extra, "utf-8")

    with pytest.raises(SettingsError) as caught:
        DialogueGenerator(load_domain(str(tmp_path)), "train", 0, GeneratorSettings())

    assert message in caught.value.message
    assert caught.value.fix


# -- generated dialogues: their shape, their splits and their references -----------------------------------------------


def rows(examples: tuple[Example, ...]) -> list[object]:
    return [[one.dialogue.as_dict(), annotation_row(one.annotation)] for one in examples]


def test_the_same_seed_gives_the_same_dialogues_in_another_process() -> None:
    code = (
        "import json; from agentfw_papers.worlds.proactive import dataset, domains\n"
        "examples = dataset.generated(domains.load_domain('abcd'), 'test', 3, 4)\n"
        "print(json.dumps([one.dialogue.as_dict() for one in examples]))\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout

    here, other, more = (generated(load_domain("abcd"), "test", *given) for given in ((3, 4), (4, 4), (3, 9)))
    assert json.loads(printed) == json.loads(json.dumps([one.dialogue.as_dict() for one in here]))
    assert rows(here) == rows(more[:4])
    assert rows(here) != rows(other)


@pytest.mark.parametrize("name", domain_names())
def test_no_sentence_and_no_person_is_in_two_splits(name: str) -> None:
    sentences, people = list[set[str]](), list[set[str]]()
    for split in SPLITS:
        examples = generated(load_domain(name), split, seed=7, count=80)
        people.append({json.dumps(one.dialogue.facts, sort_keys=True) for one in examples})
        # What is about a slot has its label or placeholder in it, and the shortest answer is the value alone.
        spoken = {turn.delexed for one in examples for turn in one.dialogue.turns if turn.speaker != "action"}
        sentences.append({said for said in spoken if re.sub(r"<\w+>|[,\s]", "", said)})

    assert all(len(one) > 30 for one in sentences)
    for of_splits in (sentences, people):
        assert sum(map(len, of_splits)) == len(set.union(*of_splits))


def test_unobserved_domains_have_references_but_show_no_triggers() -> None:
    for one in generated(load_domain("home_loan"), "train", seed=1, count=20):
        assert one.dialogue.triggers == ()
        assert {turn.speaker for turn in one.dialogue.turns} == {"customer", "professional"}
        assert one.annotation.windows


def test_values_can_be_placeholders() -> None:
    refund = GeneratorSettings(flows=("refund_initiate",), early_end=0)
    [example] = generated(load_domain("abcd"), "train", 7, 1, refund)

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


# -- importing the public conversations, as they are and damaged -------------------------------------------------------

SAMPLE = domain_file("abcd").parent / "abcd_sample.json"
ROWS: list[dict[str, Any]] = json.loads(SAMPLE.read_text("utf-8"))


def read(path: Path) -> Imported:
    return importer("abcd")(path, load_domain("abcd"))


def written(folder: Path, data: object) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps(data), "utf-8")
    return path


def test_the_public_conversations_are_imported_with_every_value_named_and_their_windows() -> None:
    imported = read(SAMPLE)

    dialogues = imported.dialogues
    assert [one.id for one in dialogues] == ["3592", "9489", "3695"]
    assert sum(len(one.turns) for one in dialogues) == 72
    assert sum(len(one.triggers) for one in dialogues) == 9
    assert imported.left_out == {}
    assert imported.named_by == {"scenario": 9, "allowed values": 2}
    assert [dict(one.values) for one in dialogues[0].triggers] == [
        {"customer_name": "crystal minh"},
        {"username": "cminh730", "email": "cminh730@email.com", "order_id": "3348917502"},
        {"phone": "(977) 625-2661"},
        {"company_team": "manager"},
    ]
    assert dialogues[2].triggers[2].values == {"storewide_query": "timing_4"}
    assert [one.subflow for one in dialogues] == ["return_size", "refund_status", "timing"]
    assert dialogues[0].facts["order"]["products"][0]["brand"] == "michael_kors"

    windows = {one.id: annotate(one, load_domain("abcd").catalog).windows for one in dialogues}

    spans = {id: {action: (turns[0], turns[-1]) for action, turns in one.items()} for id, one in windows.items()}
    assert spans == {
        "3592": {
            "pull-up-account": (5, 7),
            "validate-purchase": (12, 13),
            "enter-details": (22, 23),
            "notify-team": (20, 24),
        },
        "9489": {"pull-up-account": (4, 6), "validate-purchase": (10, 12)},
        "3695": {"search-faq": (3, 14), "search-timing": (3, 15), "select-faq": (3, 16)},
    }
    report = validate({one.id: one.triggers for one in dialogues}, windows)
    assert [row.passed for row in report.margins] == [9, 9, 7, 4, 4]
    third = report.margins[2]
    assert third.scores == {"3592": 0.5, "9489": 1.0, "3695": 1.0}
    assert (third.above(), third.mean) == pytest.approx((2 / 3, 2.5 / 3))
    assert third.deviation == pytest.approx(0.2887, abs=1e-4)


@pytest.mark.parametrize(
    "change", [lambda data: b"\xef\xbb\xbf" + data, lambda data: gzip.compress(data, mtime=0)], ids=["mark", "gzip"]
)
def test_the_file_is_read_by_its_content(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(change(SAMPLE.read_bytes()))

    assert read(path).dialogues == read(SAMPLE).dialogues


@pytest.mark.parametrize(
    "content",
    [
        SAMPLE.read_bytes()[:-100],
        gzip.compress(SAMPLE.read_bytes(), mtime=0)[:-20],
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"rows": []}',
        b'{"train": [], "other": []}',
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(content)

    with pytest.raises(UsageError, match=r"data\.json") as caught:
        read(path)

    assert caught.value.fix


def damaged(row: dict[str, Any], how: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    changed = copy.deepcopy(row)
    how(changed)
    return changed


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (lambda row: row.pop("convo_id"), "it has no convo_id"),
        (lambda row: row["original"].pop(), "original and delexed differ in length"),
        (lambda row: row.update(delexed=None), "it has no turns"),
        (lambda row: row["original"][0].__setitem__(0, "robot"), 'unknown speaker "robot"'),
        (lambda row: row["original"].__setitem__(0, "hi"), "a turn isn't a speaker and a text"),
        (lambda row: row["delexed"].__setitem__(0, "hi"), "an entry of delexed isn't an object"),
        (lambda row: row["delexed"][4].pop("targets"), "an entry has no targets"),
        (lambda row: row["delexed"][6]["targets"].__setitem__(2, "dance"), 'unknown action "dance"'),
        (lambda row: row["delexed"][6]["targets"].__setitem__(3, None), "the values of an action aren't a list"),
    ],
)
def test_a_conversation_that_cannot_be_placed_is_left_out_with_its_reason(
    tmp_path: Path, how: Callable[[dict[str, Any]], object], reason: str
) -> None:
    path = written(tmp_path, [damaged(ROWS[0], how), *ROWS[1:], ROWS[1]])

    imported = read(path)

    assert [one.id for one in imported.dialogues] == ["9489", "3695"]
    ids = ["without id" if reason == "it has no convo_id" else "3592"]
    assert imported.left_out == {reason: ids, "the id is there twice": ["9489"]}
    assert imported.share_left_out == 0.5


def test_values_are_named_by_pattern_where_the_scenario_is_silent(tmp_path: Path) -> None:
    row = damaged(ROWS[0], lambda row: row["scenario"].update(personal={}, order={}))
    row["delexed"][22]["targets"][3] = ["(977) 625-2661", "something else"]

    imported = read(written(tmp_path, [row]))

    triggers = imported.dialogues[0].triggers
    # Of the name, the ontology has a list of all that are allowed.
    assert triggers[0].values == {"customer_name": "crystal minh"}
    assert triggers[1].values == {"value_1": "cminh730", "email": "cminh730@email.com", "order_id": "3348917502"}
    assert triggers[2].values == {"phone": "(977) 625-2661", "value_2": "something else"}
    assert imported.named_by == {"allowed values": 2, "pattern": 3, "no way": 2}
