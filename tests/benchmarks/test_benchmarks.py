"""Each benchmark runs, in a small size, so that none of them rots. What it measures here is no figure to quote."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_timeline_plays_the_same_queue_as_simpy_and_faster(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("simpy")
    result = load("timeline_against_simpy").main(["--customers", "5000", "--repeats", "3", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    rows = {row["engine"]: row for row in result["engines"]}
    assert rows["timeline"]["against simpy, processes"] > 2
    assert rows["engagement"]["against simpy, processes"] > 2


def test_the_overhead_of_a_turn_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("turn_overhead").main(["--turns", "200", "--repeats", "3", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    overhead = result["parts"][0]
    assert overhead["part"] == "overhead"
    # Ten times the limit: a machine under load is no reason to fail here, a quadratic loop is.
    assert 0 < overhead["min"] < 10 * result["limit"]


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


def test_a_clock_teaches_when_to_think_less(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["--setting", "single", "--training", "1500", "--episodes", "150", "--jobs", "1"]
    result = load("deliberation_table").main([*small, "--pictures", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out) == result
    returns = {(row["trained"], row["played"]): row["return"]["mean"] for row in result["rows"]}
    assert returns["event", "event"] > returns["step", "event"]
    assert (tmp_path / "deliberation-single.svg").exists()
    load("deliberation_table").main(small)
    assert "(+0.800)" in capsys.readouterr().out


def test_a_patrol_that_hears_of_alarms_at_once_does_better(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["--depth", "1", "--training", "60", "--episodes", "8", "--jobs", "1"]
    result = load("patrol_table").main([*small, "--pictures", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out) == result
    resolved = {row["controller"]: row["resolved"]["mean"] for row in result["rows"]}
    assert resolved["greedy"] > resolved["loop"]
    assert (tmp_path / "patrol-1.svg").exists()
    load("patrol_table").main(small)
    assert "(51.5%)" in capsys.readouterr().out


def test_a_cook_who_hears_of_signals_at_once_serves_more(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["--variant", "one", "--structures", "1", "--jobs", "1"]
    result = load("kitchen_table").main([*small, "--pictures", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out) == result
    means = {row["player"]: row["utility"]["mean"] for row in result["tables"][0]["rows"] if not row["family"]}
    assert means["step_loop"] < means["event_driven"]
    assert (tmp_path / "kitchen-one.svg").exists()
    load("kitchen_table").main(small)
    assert "the paper's order" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["timeline_against_simpy", "turn_overhead"])
def test_a_benchmark_prints_a_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "timeline_against_simpy":
        pytest.importorskip("simpy")
    size = ["--customers", "200"] if name == "timeline_against_simpy" else ["--turns", "20"]
    load(name).main([*size, "--repeats", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(word in lines[1] for word in ("min", "median", "max"))
