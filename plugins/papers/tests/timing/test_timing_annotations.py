"""References by rule, their files, and how they are validated against what was observed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw_papers import timing
from agentfw_papers.timing import Dialogue, Input, Opportunity, Trigger, Turn, TurnOpportunities, Windows, annotate
from agentfw_rewardmodels.errors import BadInputError, StorageError


def talk(*lines: str) -> tuple[Turn, ...]:
    """Turns whose speaker is told by the first letter: c, p or a."""
    speakers = {speaker[0]: speaker for speaker in ("customer", "professional", "action")}
    return tuple(Turn(speakers[line[0]], line[2:]) for line in lines)  # type: ignore[arg-type]


def test_what_is_known_and_what_is_not_is_told_turn_by_turn() -> None:
    wish = "c I never got the parcel you sent"
    turns = talk("c hi", wish, "p Your order?", "c It is 33", "c Call +1 5", "a called", "p Bye")
    dialogue = Dialogue("d", turns, (Trigger(6, "call-back", {"order": "33", "phone": "(1) 5", "reason": "r_7"}),))

    annotation = annotate(dialogue)

    inputs = [annotation.at(turn).opportunities[0].inputs.values() for turn in range(2, 7)]
    known = [tuple(one.provided for one in some) for some in inputs]
    # The reason is never said, so it is known with the wish.
    assert known == [(False, False, True)] * 2 + [(True, False, True)] + [(True, True, True)] * 2
    statuses = ("pending", "pending", "pending", "ready_to_trigger", "triggered")
    assert annotation.statuses("call-back") == tuple(enumerate(statuses, 2))
    assert annotation.at(1).opportunities == annotation.at(7).opportunities == ()


def test_the_window_is_from_when_the_wish_shows_to_the_last_trigger() -> None:
    twice = talk("c please do it twice for me", "a once", "p And now?", "c again", "a twice")
    again = annotate(Dialogue("d", twice, (Trigger(2, "do"), Trigger(5, "do"))))
    assert again.windows == {"do": (1, 2, 3, 4, 5)}
    assert again.statuses("do")[1] == (2, "triggered")

    turns = talk("c hi", "p hello", "c refund", "p yes", "a refunded")
    dialogue = Dialogue("d", turns, (Trigger(5, "refund"),))
    # Nobody says five words, so without help the wish only shows in the trigger itself.
    assert annotate(dialogue).windows == {"refund": (5,)}
    assert annotate(dialogue, recognisable=3).windows == {"refund": (3, 4, 5)}


def test_the_catalog_says_what_is_optional_and_how_a_value_is_spelt(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text("""
name: bakery
slots: {cake: {values: {apple: [Apfelkuchen]}}, day: {}}
actions: {order-cake: {parameters: [cake, day], required: [cake], aliases: [Order]}}
""")
    catalog = timing.load_domain(tmp_path / "domain.yaml").catalog
    turns = talk("c I would like an Apfelkuchen please", "p When?", "c On Friday", "a ordered")
    dialogue = Dialogue("d", turns, (Trigger(4, "Order", {"cake": "apple", "day": "friday"}),))

    first = annotate(dialogue, catalog).at(1).opportunities[0]

    cake = Input("cake", True, "apple")
    assert first == Opportunity("order-cake", "pending", (cake,), (Input("day"),), "medium", "high")
    with pytest.raises(BadInputError, match='"dance" is triggered in the dialogue "d", but not in the catalog'):
        annotate(Dialogue("d", turns, (Trigger(1, "dance"),)), catalog)


words = st.sampled_from(["order 33", "my name is Joyce Wu", "I want all of my money back", "hello", "monday"])
values = st.dictionaries(st.sampled_from("xyz"), st.sampled_from(["33", "Joyce Wu", "monday", "never said", ""]))


@st.composite
def dialogues(draw: st.DrawFn) -> Dialogue:
    speakers = st.sampled_from(["customer", "professional", "action"])
    turns = draw(st.lists(st.builds(Turn, speakers, words), min_size=1, max_size=15))
    observed = st.builds(Trigger, st.integers(1, len(turns)), st.sampled_from("abc"), values)
    unique = st.lists(observed, max_size=5, unique_by=lambda one: (one.turn, one.action))
    return Dialogue("d", tuple(turns), tuple(draw(unique)))


@settings(max_examples=60)
@given(dialogues())
def test_rule_annotations_pass_their_own_validation(dialogue: Dialogue) -> None:
    annotation = annotate(dialogue)

    report = timing.validate({"d": dialogue.triggers}, {"d": annotation.windows})

    assert report.margins[0].passed == len(dialogue.triggers)
    # Triggered exactly where it was, and gone after the last time.
    for action in annotation.windows:
        at = {trigger.turn for trigger in dialogue.triggers if trigger.action == action}
        statuses = annotation.statuses(action)
        assert {turn for turn, status in statuses if status == "triggered"} == at
        assert statuses[-1][0] == max(at)


def test_dialogues_without_triggers_are_kept_and_counted_apart() -> None:
    early, late, quiet = Windows({"a": [1]}), Windows({"a": [9]}), Windows({})
    observed = {"good": [Trigger(5, "a")], "bad": [Trigger(5, "a"), Trigger(9, "a")], "quiet": []}

    report = timing.validate(observed, {"good": early, "bad": late, "quiet": quiet})

    assert report.kept() == ("good", "quiet")
    assert report.kept(0.4) == ("good", "bad", "quiet")
    assert report.without_triggers == ("quiet",)
    with pytest.raises(BadInputError, match="1 dialogues have no annotation"):
        timing.validate(observed, {"good": early, "bad": late})
    nothing = timing.validate({"quiet": []}, {"quiet": quiet})
    assert (nothing.margins[0].share, nothing.margins[0].mean, nothing.margins[0].above()) == (None, None, None)


def test_predictions_annotations_and_dialogues_come_back_from_their_files(tmp_path: Path) -> None:
    # One can be known without its value; and names may be those that the file uses itself.
    odd = Input("name", True, "Ana\u2028\n\ud800")
    inputs = (odd, Input("value", True), Input("provided"), Input("status", True, ""))
    full = Opportunity("status", "repeatable", inputs[:2], inputs[2:], "low", "high", 'Say "hi"')
    rows = [
        TurnOpportunities("d", 1, (full, Opportunity("name", "dismissed"))),
        TurnOpportunities("turn", 9, (), ("Which order?",)),
        TurnOpportunities("d", 2),
    ]
    annotations = [timing.Annotation(one.dialogue, 9, (one,)) for one in rows]

    timing.write_rows(tmp_path / "predictions.jsonl", map(timing.turn_row, rows))
    timing.write_rows(tmp_path / "annotations.jsonl.gz", map(timing.annotation_row, annotations))

    assert timing.read_predictions(tmp_path / "predictions.jsonl") == rows
    assert timing.read_annotations(tmp_path / "annotations.jsonl.gz") == annotations

    turns = (Turn("customer", "It is 33", "It is <order>"), *talk("p Thanks", "a called"))
    dialogues = [
        Dialogue("d", turns, (Trigger(3, "call-back", {"order": "33"}),)),
        Dialogue("e", (Turn("customer", "", time=1.5),), facts={"order": {"id": 3}}),
    ]

    timing.write_rows(tmp_path / "dialogues.jsonl", (dialogue.as_dict() for dialogue in dialogues))

    assert timing.read_dialogues(tmp_path / "dialogues.jsonl") == dialogues


LINE = json.dumps({"dialogue": "d", "turn": 1, "opportunities": []})


def lines(row: Mapping[str, Any], **changed: Any) -> bytes:
    """A good row, and one in which this is different."""
    return f"{json.dumps(row)}\n{json.dumps({**row, **changed})}\n".encode()


PREDICTION = json.loads(LINE)
ANNOTATION = {"dialogue": "a", "length": 3, "turns": []}
DIALOGUE = {"id": "a", "turns": [{"speaker": "customer", "text": "hi"}]}
TALK, NOTES, SAID = timing.read_dialogues, timing.read_annotations, timing.read_predictions


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (SAID, f"{LINE}\n{{".encode(), "line 2 is not JSON"),
        (SAID, f"{LINE}\n[1]".encode(), "line 2 is not a JSON object"),
        (SAID, b"[" * 100_000, "line 1 is not JSON"),
        (SAID, lines(PREDICTION, turn=0), "line 2: 0 is not a turn number"),
        (SAID, lines(PREDICTION, dialogue=3), 'line 2: "dialogue" is 3, not a text'),
        (SAID, lines(PREDICTION, opportunities=[{"name": "a", "status": "soon"}]), 'line 2: "soon" is not a status'),
        (SAID, lines(PREDICTION, opportunities=[{"status": "pending"}]), "an opportunity has no name"),
        (SAID, b"\xff\xfe\x00", "can't be read"),
        (SAID, gzip.compress(LINE.encode() * 99, mtime=0)[:-20], "can't be read"),
        (SAID, gzip.compress(LINE.encode(), mtime=0)[:12] + b"\xff" * 30, "can't be read"),
        (NOTES, lines(ANNOTATION, turns=[{"turn": 4, "opportunities": []}]), "a reference at turn 4"),
        (NOTES, lines(ANNOTATION, turns=[{"turn": 1, "opportunities": []}] * 2), "two references at turn 1"),
        (TALK, lines(DIALOGUE, triggers=[{"turn": 2, "action": "a"}]), "line 2"),
    ],
)
def test_damage_is_told_by_place(tmp_path: Path, read: Callable[[Path], object], content: bytes, message: str) -> None:
    path = tmp_path / "dialogues.jsonl"
    path.write_bytes(content)

    with pytest.raises(BadInputError) as caught:
        read(path)

    assert str(path) in caught.value.message
    assert message in caught.value.message
    assert caught.value.fix


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    with pytest.raises(StorageError, match="can't be written"):
        timing.write_rows(blocked / "rows.jsonl", [])
    with pytest.raises(TypeError):
        timing.write_rows(tmp_path / "rows.jsonl", [{"set": {1}}])

    assert [path.name for path in tmp_path.iterdir()] == ["file"]
