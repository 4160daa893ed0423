"""The benchmarks of the skill graph run, in a small size."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from agentfw import Message

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.fixture
def sets(tmp_path: Path) -> list[str]:
    """The options that name a small set of English and Chinese paragraphs, and a conversation."""
    (tmp_path / "xquad").mkdir()
    for code, subjects in (("en", ("harbour", "violin", "garden")), ("zh", ("港口", "小提琴", "花园"))):
        paragraphs = [{"context": f"{one} 1, {one} 2", "qas": [{"question": f"{one}?"}]} for one in subjects]
        told = json.dumps({"data": [{"title": code, "paragraphs": paragraphs}]})
        (tmp_path / f"xquad/xquad.{code}.json").write_text(told)
    return ["--data", str(tmp_path), "--json"]


def test_public_sets_are_asked_beside_words_and_vectors(sets: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bm25s")
    sizes = ["--sets", "xquad-en", "xquad-zh", "--embedders", "hash", "hash:64", "--parts"]
    result = load("memory_questions").main([*sets, *sizes])

    assert json.loads(capsys.readouterr().out) == result
    assert [row["questions"] for row in result["sets"]] == [3, 3]
    for row in result["sets"]:
        systems = row["systems"]
        assert {"skill graph", "BM25", "words alone", "the paper's score", "skill graph, hash:64"} <= systems.keys()
        assert systems["skill graph"]["MRR"]["mean"] == systems["BM25"]["MRR"]["mean"] == 1.0
    with pytest.raises(SystemExit, match="git clone https://github"):
        load("memory_questions").main([*sets, "--sets", "realtalk"])


def test_recorded_work_becomes_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = {"id": "c", "function": {"name": "cancel", "arguments": '{"seat": 7}'}}
    said = "Hi, I'd like to book the same flights as my current reservation for my friend Ivan."  # is on the tape
    turns = [
        {"role": "system", "content": "You can cancel seats."},
        {"role": "user", "content": said},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    info = {"task": {"user_id": "ivan_muller_7015", "actions": [{"name": "cancel", "kwargs": {"seat": 7}}]}}
    runs = [{"task_id": 1, "traj": turns, "info": info, "trial": one, "reward": float(one != 1)} for one in range(4)]
    (tmp_path / "historical_trajectories").mkdir()
    (tmp_path / "historical_trajectories" / "gpt-4o-airline.json").write_text(json.dumps(runs))
    result = load("cases").main(["--tau", str(tmp_path), "--embedder", "hash", "--json"])
    assert json.loads(capsys.readouterr().out)["cases"] == result["cases"]
    counts = ("trajectories", "that succeeded", "cases", "good cases")
    assert [result[name] for name in counts] == [3, 2, 2, 1]
    assert load("cases").main(["--tau", str(tmp_path), "--embedder", "hash", "--tape"])["sentences"] == 1


def test_a_model_trained_on_others_files_with_cases_and_without(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    cases, making, model, known = load("cases"), load("agentfw_plugins.models.making"), tmp_path / "m", tmp_path / "csv"
    shown = [([Message("user", "Card lost")], name) for name in cases.OTHER_NAMES]
    making.write_folder(model, making.word_tokenizer(shown, r" ?\w+|[^\w]"), about=making.ABOUT)
    making.train(model, shown, making.Recipe(steps=80, rate=1e-2))
    rows = [f"{verb} {what},{what}" for what in ("card", "fee", "pin", "loan") for verb in ("Lost", "Need", "Bad")]
    known.write_text("\n".join(["text,category", *rows]))
    size = ["--people=4", "--messages=8", "--subjects=2", "--others=4", "--updates=2", "--every=2", "--json"]
    chosen = ["--model", str(model), "--banking77", str(known), "--train", str(tmp_path), *size]
    result = cases.main(chosen)
    parts = (result["right"][name]["mean"] for name in ("both", "memory", "training", "neither"))
    assert result["both - the sum"]["mean"] == pytest.approx(np.dot([*parts], [1, -1, -1, 1]))
    asked = "".join(path.read_text() for path in tmp_path.glob("runs/*/rollouts/*/episodes.jsonl"))
    assert asked.count("\n") == 2 * 8 * 8
    assert not any(name in asked for name in cases.NAMES), "nobody who is measured was trained on"
    assert cases.main(chosen) == result, "parts that are there aren't done again"


def test_a_skill_is_chosen_better_with_outcomes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bm25s")
    guides = {
        what: {
            "description": f"Makes a {what}",
            "subflows": {
                what: {
                    "instructions": [f"The customer wants to send a {what}."],
                    "actions": [{"text": f"Ask for the {what} first.", "subtext": [f"Then write the {what}."]}],
                }
            },
        }
        for what in ("letter", "form", "report", "speech")
    }
    (tmp_path / "guidelines.json").write_text(json.dumps(guides))
    result = load("skill_choice").main(["--abcd", str(tmp_path), "--sizes", "60", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    arms = result["60 skills"]["arms"]
    outcomes, plain = (
        arms[name]["right first"]["mean"] for name in ("graph, descriptions and outcomes", "graph, descriptions")
    )
    assert outcomes >= plain


def test_a_dump_of_a_forum_is_read_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ['<?xml version="1.0" encoding="utf-8"?>', "<posts>"]
    for place in range(10):
        day, title = f"2024-01-{place + 1:02}T10:00:00.000", f"How cold is pilsner {place}?"
        rows += [
            f'<row Id="{2 * place + 1}" PostTypeId="1" OwnerUserId="{place % 3}" AcceptedAnswerId="{2 * place + 2}" '
            f'CreationDate="{day}" Title="{title}" Tags="&lt;beer&gt;&lt;cold&gt;" Body="hm" Score="1"/>',
            f'<row Id="{2 * place + 2}" PostTypeId="2" ParentId="{2 * place + 1}" OwnerUserId="9" CreationDate="{day}" '
            f'Body="&lt;p&gt;Pilsner {place} is best at {place} degrees.&lt;/p&gt;" Score="4"/>',
        ]
    path = tmp_path / "Posts.xml"
    path.write_text("\n".join([*rows, "</posts>"]))

    result = load("cases").main(["--posts", str(path), "--embedder", "hash"])

    assert (result["questions"], result["replies"], result["asked"]) == (10, 10, 4)
    assert result["after"]["mean"] == 1.0
    assert result["gain"]["mean"] >= -0.005
    assert "gain" in capsys.readouterr().out
