"""Each benchmark runs, in a small size, so that none of them rots. What it measures here is no figure to quote."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from agentfw_benchmarks import make_model

load = importlib.import_module


@pytest.mark.slow
def test_the_timeline_plays_the_same_queue_as_simpy_and_faster(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("simpy")
    result = load("timeline_against_simpy").main(["--customers", "5000", "--repeats", "3", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    rows = {row["engine"]: row for row in result["engines"]}
    assert rows["timeline"]["against simpy, processes"] > 2
    assert rows["engagement"]["against simpy, processes"] > 2


@pytest.mark.slow
def test_the_overhead_of_a_turn_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("turn_overhead").main(["--turns", "200", "--repeats", "3", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    overhead = result["parts"][0]
    assert overhead["part"] == "overhead"
    # Ten times the limit: a machine under load is no reason to fail here, a quadratic loop is.
    assert 0 < overhead["min"] < 10 * result["limit"]


@pytest.mark.slow
def test_a_quota_that_ends_costs_no_answer_twice(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("quota").main(["--users", "4", "--rounds", "2", "--answered", "10", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["answered before the quota ended"] == 10
    assert result["turns in the record"] == result["requests of the run"] == 28
    assert result["answered after resuming"] == 18
    assert result["asked again although answered"] == 0


@pytest.mark.slow
def test_hearing_of_mails_sooner_pays(capsys: pytest.CaptureFixture[str]) -> None:
    inbox = load("inbox_interfaces")
    result = inbox.main(["--seeds", "4", "--jobs", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    balanced = {
        (row["decomposition"], row["interface"]): row["balanced"]["mean"] for row in result["rows"] if "balanced" in row
    }
    for decomposition in ("milestones", "single"):
        loop, polling, events = (
            balanced[decomposition, interface] for interface in ("step_loop", "polling:15", "event_driven")
        )
        assert loop < polling < events
    inbox.main(["--seeds", "1", "--jobs", "1"])
    assert "(+2.293)" in capsys.readouterr().out


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


def test_abstracts_are_looked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("leidenalg")
    document = "<doc><docno>{0}</docno><author>ana,{0}.</author><text>{1} flow</text></doc>"
    words = ("laminar", "turbulent", "viscous")
    documents = "".join(document.format(place, word) for place, word in enumerate(words, start=1))
    (tmp_path / "cran.all.1400.xml").write_text(documents, "utf-8")
    (tmp_path / "cran.qry.xml").write_text("".join(f"<title>{word} ?</title>" for word in words), "utf-8")
    (tmp_path / "cranqrel.trec.txt").write_text("1 0 1 2\n2 0 2 1\n3 0 1 -1\n", "utf-8")

    result = load("memory_second").main(["--data", str(tmp_path), "--embedder", "hash", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert (result["documents"], result["questions"]) == (3, 2)
    assert all(row["R@1"]["mean"] == 1.0 for row in result["systems"])


def test_the_word_index_is_measured_beside_full_text_search(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("memory_words").main(["--texts", "500", "--queries", "10", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["ms of a search"]["word index"]["p50"] > 0


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
def test_parpo_learns_of_both_tracks_and_a_single_track_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    bias = load("optimizers_bias")
    some = ["--optimizers", "parpo", "parpo, no base track (C2)", "grpo (C1)", "--regimes", "groups of 4"]
    result = bias.main([*some, "--seeds", "3", "--updates", "24", "--draws", "10", "--processes", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    rows = {row["optimizer"]: row for row in result["rows"]}
    means = {name: sum(row["reached"]) / 3 for name, row in rows.items()}
    assert means["parpo"] > means["parpo, no base track (C2)"]
    assert all(value > 0 for value in rows["grpo (C1)"]["error"])
    bias.show(result["rows"])
    assert len(capsys.readouterr().out.splitlines()) == 8


@pytest.mark.slow
def test_a_tree_computes_less_than_rows_and_the_same_gradients(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peft")
    tree = load("tree_training")
    result = tree.main(["--trees", "4", "--repeats", "1", "--scale", "0.3", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert max(row["apart"] for row in result["rows"]) < 1e-4
    assert max(row["spared"] for row in result["rows"]) > 2
    assert all(row["faster"] > 0 for row in result["rows"])


@pytest.mark.slow
def test_a_model_is_trained_and_loaded_again_in_four_bits(capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("peft", "bitsandbytes"):
        pytest.importorskip(module)
    result = load("four_bit").main(["--updates", "6", "--precisions", "nf4", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    (row,) = result["rows"]
    assert row["loss last"] < row["loss first"]
    assert row["resumed to the last bit"]
    assert row["logprobs apart"] < 1e-3


@pytest.mark.slow
def test_a_training_proves_each_version(capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    loop = load("vllm_loop")
    result = loop.main(["--policies", "transformers", "--updates", "2", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    ((first, second),) = (one["updates"] for one in result["results"])
    assert (first["version"], second["version"]) == ("policy@1", "policy@2")
    assert all(
        row["proven"] == 1 and row["probe, most"] < 1e-4 and row["tokens, most"] < 1e-4 for row in (first, second)
    )
    loop.show(result["results"])
    assert len(capsys.readouterr().out.splitlines()) == 12


@pytest.mark.slow
def test_a_step_is_that_of_trl(capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("peft", "trl", "datasets"):
        pytest.importorskip(module)
    size = ["--scale", "0.05", "--repeats", "1", "--steps", "2", "--threads", "1"]
    result = load("trl_side_by_side").main(["--workload", "group", "--sides", "tree", "trl", *size, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    tree, trl = result["results"][0]["sides"]
    assert tree["gradient_norm"] == pytest.approx(trl["gradient_norm"], rel=1e-3)
    assert tree["computed"] < trl["computed"]


@pytest.mark.slow
def test_rows_for_a_gpu_run_in_small_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("peft", "transformers", "bitsandbytes"):
        pytest.importorskip(module)
    names = ["flex", "train"]  # the others are those of trl_side_by_side with another model

    result = load("gpu_rows").main(["--device", "cpu", "--small", "--json", "--rows", *names])

    assert json.loads(capsys.readouterr().out) == result
    rows = {row["row"]: row for row in result["rows"]}
    assert [name for name in names if "failed" in rows[name]] == []
    assert max(each["output, tree from fp32"] for each in rows["flex"]["trees"]) < 0.01
    assert [update["proven"] for update in rows["train"]["updates"]] == [1]


def test_rows_for_a_gpu_say_what_to_do_where_there_is_none() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")

    with pytest.raises(SystemExit, match="--device cpu --small"):
        load("gpu_rows").main(["--rows", "flex"])


@pytest.mark.slow
def test_a_training_on_the_calendar_is_told_by_its_held_out_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    size = ["updates=1", "tasks=2", "samples=2", "evaluation.tasks=2", "environment.rounds=2"]
    settings = [part for setting in size for part in ("--set", setting)]

    result = load("calendar_training").main(["--seeds", "1", "--runs", str(tmp_path), *settings])

    (row,) = result["rows"]
    assert [number for number, _ in row["curve"]] == [0, 1]
    assert f"| roundwise | 1 | {row['before']:.3f} |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["timeline_against_simpy", "turn_overhead"])
def test_a_benchmark_prints_a_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "timeline_against_simpy":
        pytest.importorskip("simpy")
    size = ["--customers", "200"] if name == "timeline_against_simpy" else ["--turns", "20"]
    load(name).main([*size, "--repeats", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(word in lines[1] for word in ("min", "median", "max"))


@pytest.mark.slow
@pytest.mark.parametrize("variant", load("processors").VARIANTS)
def test_what_is_promised_holds_on_every_processor_that_can_be_imitated(
    variant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("peft", "bitsandbytes"):
        pytest.importorskip(module)
    processors = load("processors")
    if not processors.can_imitate(variant):
        pytest.skip("needs a C compiler")
    result = processors.main(["--variants", variant, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    (row,) = result["rows"]
    # To the last bit: a training that is resumed meets other neighbours, and has to be the same training.
    assert row["neighbours apart"] == 0.0
    assert row["four bits apart"] < 1e-4


@pytest.mark.slow
def test_replicas_answer_as_one_process_does(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("pool_scaling").main(["--requests", "8", "--repeats", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["answers equal to one process"]


@pytest.mark.slow
def test_a_pool_schedules_nearly_linearly(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("pool_queue").main(["--requests", "120", "--repeats", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    # In order, whatever else the machine does meanwhile.
    assert [row["servers"] for row in result["scaling"]] == [1, 2, 4, 8]
    assert result["scaling"][1]["seconds"] < result["scaling"][0]["seconds"]


@pytest.mark.slow
def test_a_run_whose_replica_is_killed_is_equal(capsys: pytest.CaptureFixture[str]) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("finds its replicas in /proc")
    result = load("pool_kill").main(["--kills", "1", "--episodes", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert (result["kills"], result["equal"]) == (1, 1)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peft")
    size = ["--tasks", "3", "--samples", "2", "--prompt", "20", "--answer", "8", "--repeats", "1", "--shape", "small"]
    result = load("parallel_step").main([*size, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["largest relative difference of weights"] < 1e-5


@pytest.mark.slow
def test_a_warm_cache_asks_no_judge(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("judge_parallel").main(["--groups", "8", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["questions"] == {"cold": 8, "warm": 0}
    assert result["eight against one"] > 1.5


@pytest.mark.slow
def test_a_list_of_many_components_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load("plugins_list").main(["--components", "100", "--zoo", "10", "--runs", "1", "--json"])

    rows = json.loads(capsys.readouterr().out)
    assert [row["budget"] for row in rows] == [None, None, None, 0.15, None]
    assert all(row["median"] > 0 for row in rows)


@pytest.mark.slow
def test_the_guards_of_a_run_cost_little(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("guard_cost").main(["--episodes", "5", "--repeats", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    # A machine under load is no reason to fail here, a guard that waits is.
    assert all(0.2 < row["ratio"]["median"] < 5 for row in result["rows"].values())


@pytest.mark.slow
def test_shared_flushes_are_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("group_commit").main(["--episodes", "100", "--repeats", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["flushes"]["shared flushes"] < result["flushes"]["a flush each"]


@pytest.mark.slow
def test_shares_of_a_step_are_less_noisy_than_replicated_ones(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peft")
    size = ["--tasks", "8", "--each", "2", "--seeds", "0", "--draws", "200"]

    result = load("parallel_modes").main([*size, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    noise = result["noise of a step's gradient"]
    assert 0 < noise["exact"] < noise["replicated"] < noise["copies"]


@pytest.mark.slow
def test_a_long_tree_has_the_gradient_of_its_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    benchmark = load("long_tree")
    model = str(make_model(tmp_path / "model", **benchmark.SHAPE))
    size = ["--prompt", "120", "--answer", "20", "--model", model]

    tree, plain = (benchmark.main([*size, "--side", side]) for side in ("tree", "plain"))

    assert json.loads(capsys.readouterr().out.splitlines()[0]) == tree
    assert tree["gradient norm"] == pytest.approx(plain["gradient norm"], rel=1e-3)
    assert (tree["tokens computed"], plain["tokens computed"]) == (120 + 8 * 19, 8 * 139)


def test_mutated_requests_and_kills_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    gateway = load("gateway")
    hostile = gateway.main(["hostile", "--requests", "40", "--json"])
    killed = gateway.main(["kill", "--kills", "1", "--json"])
    assert str(hostile["requests"]) in capsys.readouterr().out
    assert hostile["requests"] == sum(hostile["answers"].values()) == 40
    assert (hostile["of 500 and above"], hostile["alive"]) == (0, True)
    assert (killed["kills"], killed["lost"]) == (1, 0)


@pytest.mark.slow
def test_reasons_and_titles_are_understood_in_four_languages(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("snowballstemmer")
    result = load("calendar_words").main(["--json"])
    assert json.loads(capsys.readouterr().out) == result
    for language, parts in result.items():
        assert parts["reasons"]["understood"] >= 0.9, language
        assert parts["titles"]["understood"] >= 0.9, language
        assert parts["paraphrases"]["understood"] >= 0.5, language
        assert parts["paraphrases"]["mistaken"] <= 0.2, language


@pytest.mark.slow
def test_weeks_of_yes_change_nothing_of_what_is_proposed_later(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("icalendar")
    pytest.importorskip("snowballstemmer")
    size = ["--persons", "2", "--months", "1", "--answered", "1", "--json"]
    ways = load("six_months").main(size)["ways"]
    assert json.loads(capsys.readouterr().out)["ways"] == ways
    assert ways["yes"]["acceptance"] == ways["nothing"]["acceptance"]
    # What was learned would have shown.
    assert ways["unread"]["acceptance"] != ways["nothing"]["acceptance"]
