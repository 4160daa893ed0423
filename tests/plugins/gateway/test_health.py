"""What a service manager and a dashboard are told."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits

from .conftest import CLIENT, Serve
from .killing import begun, told
from .test_keys import bearer
from .test_sessions import ask, body

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana.json"


def figures(answer: httpx.Response) -> dict[str, float]:
    rows = [line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in rows}


def test_a_gateway_counts_what_it_does(serve: Serve) -> None:
    gateway = serve()
    ask(gateway.session("tea"), body("hello"))
    CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body("hello", stream=True)).raise_for_status()
    CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body())
    CLIENT.post(f"{gateway.url}/s/tea/feedback", json={"value": 1})

    found = figures(CLIENT.get(f"{gateway.url}/metrics"))

    assert found['agentfw_requests_total{status="200",what="chat/completions"}'] == 2
    assert found['agentfw_requests_total{status="409",what="chat/completions"}'] == 1
    assert found['agentfw_requests_total{status="200",what="feedback"}'] == 1
    assert found['agentfw_answers_total{end="complete"}'] == 2
    assert found["agentfw_answer_seconds_count"] == 2
    assert found["agentfw_first_piece_seconds_count"] == 1
    assert found["agentfw_sessions"] == 1
    assert found["agentfw_answers_in_progress"] == found["agentfw_requests_waiting"] == 0
    assert found["agentfw_ready"] == 1


def test_the_dashboard_asks_for_figures_that_there_are(serve: Serve) -> None:
    gateway = serve()
    ask(gateway.session("tea"), body("hello"))
    known = {name.partition("{")[0] for name in figures(CLIENT.get(f"{gateway.url}/metrics"))}

    asked = [
        target["expr"] for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"] for target in panel["targets"]
    ]

    assert len(asked) >= 8
    for expression in asked:
        assert any(name in expression for name in known), expression


def test_health_needs_no_key_and_figures_need_the_operators(serve: Serve, keys: KeyFile) -> None:
    ada = bearer(keys.add("ada"))
    gateway = serve(Limits(keys=("the-operators",), key_file=keys.path))

    assert [CLIENT.get(f"{gateway.url}/{path}").status_code for path in ("healthz", "readyz", "metrics")] == [
        200,
        200,
        401,
    ]
    assert CLIENT.get(f"{gateway.url}/metrics", headers=ada).status_code == 403
    assert CLIENT.get(f"{gateway.url}/metrics", headers=bearer("the-operators")).status_code == 200


@pytest.mark.slow
def test_requests_are_logged_as_json_without_what_was_said(tmp_path: Path) -> None:
    process = begun(tmp_path, "--policy", "scripted", "--set", 'policy.replies=["a reply"]', "--log", "json")
    url, _ = told(process)
    asked = body("a secret", user="ada")
    CLIENT.post(f"{url}/s/tea/v1/chat/completions?user=ada", json=asked).raise_for_status()
    CLIENT.post(f"{url}/s/tea/v1/chat/completions", content=b"{")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)

    lines = [json.loads(line) for line in errors.splitlines() if not line.startswith("still importing")]
    requests = [line for line in lines if line["message"] == "request"]
    assert [(line["what"], line["status"], line["session"]) for line in requests] == [
        ("chat/completions", 200, "tea"),
        ("chat/completions", 400, "tea"),
    ]
    assert all(line["time"] and line["level"] == "INFO" and line["client"] == "127.0.0.1" for line in requests)
    assert not any(word in errors for word in ("a secret", "a reply", "ada"))
