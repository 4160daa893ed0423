"""Importing the public conversations, as they are and damaged."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import UsageError
from agentfw_papers.timing import annotate, validate
from agentfw_papers.worlds.proactive.domains import domain_file, load_domain
from agentfw_papers.worlds.proactive.importers import Imported, importer

SAMPLE = domain_file("abcd").parent / "abcd_sample.json"
ROWS: list[dict[str, Any]] = json.loads(SAMPLE.read_text("utf-8"))


def read(path: Path) -> Imported:
    return importer("abcd")(path, load_domain("abcd"))


def written(folder: Path, data: object) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps(data), "utf-8")
    return path


def test_the_public_conversations_are_imported_with_every_value_named() -> None:
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


def test_windows_and_early_triggers_of_what_was_imported() -> None:
    catalog = load_domain("abcd").catalog
    dialogues = read(SAMPLE).dialogues

    windows = {one.id: annotate(one, catalog).windows for one in dialogues}

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
        gzip.compress(SAMPLE.read_bytes(), mtime=0)[:200] + b"\x00" * 200,
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"3",
        b'{"rows": []}',
        b'{"train": 3}',
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
        (lambda row: row["original"].clear(), "it has no turns"),
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
