"""What a service manager and a dashboard are told, and what a deploy leaves."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from asynchronous import asynchronous
from serving_gateways import begun, told
from waiting import until

from agentfw.runs import RunFolder, read_sessions
from agentfw_plugins.gateway.answering import Line
from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits, gateway_of, opened
from agentfw_plugins.protocols import BadRequest

from .conftest import CLIENT, Serve, Served
from .endless_upstream import Upstream, endless
from .test_keys import bearer
from .test_sessions import ask, body

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana.json"


def test_a_gateway_counts_what_it_does_and_the_dashboard_asks_for_that(serve: Serve) -> None:
    gateway = serve()
    ask(gateway.session("tea"), body("hello"))
    CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body("hello", stream=True)).raise_for_status()
    CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body())
    gateway.post("/s/tea/feedback", {"value": 1})

    lines = CLIENT.get(f"{gateway.url}/metrics").text.splitlines()

    rows = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    found = {name: float(value) for name, value in rows}
    assert found['agentfw_requests_total{status="200",what="chat/completions"}'] == 2
    assert found['agentfw_requests_total{status="409",what="chat/completions"}'] == 1
    assert found['agentfw_requests_total{status="200",what="feedback"}'] == 1
    assert found['agentfw_answers_total{end="complete"}'] == 2
    assert found["agentfw_answer_seconds_count"] == 2
    assert found["agentfw_first_piece_seconds_count"] == 1
    assert found["agentfw_sessions"] == 1
    assert found["agentfw_answers_in_progress"] == found["agentfw_requests_waiting"] == 0
    assert found["agentfw_ready"] == 1
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(asked) >= 8
    for expression in asked:
        assert any(name.partition("{")[0] in expression for name in found), expression


def test_health_needs_no_key_and_figures_need_the_operators(serve: Serve, keys: KeyFile) -> None:
    ada = keys.add("ada")
    gateway = serve(Limits(keys=("the-operators",), key_file=keys.path))

    assert [gateway.request("GET", path).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 401]
    assert CLIENT.get(f"{gateway.url}/metrics", headers=bearer(ada)).status_code == 403
    assert CLIENT.get(f"{gateway.url}/metrics", headers=bearer("the-operators")).status_code == 200


def test_a_deploy_lets_answers_end_cuts_off_what_takes_longer_than_the_drain_and_keeps_sessions(tmp_path: Path) -> None:
    with endless() as upstream:
        settings = {"base_url": upstream.url, "model": "served", "token_ids": "off"}
        options = ["--policy", "openai", *(f"--set=policy.{name}={value}" for name, value in settings.items())]
        process = begun(tmp_path, *options, "--log", "json")
        url, run = told(process)
        story = {"model": "served", "messages": [{"role": "user", "content": "Tell a secret."}], "stream": True}
        short = {"model": "served", "messages": [{"role": "user", "content": "now"}], "user": "ada"}
        CLIENT.post(f"{url}/s/tea/v1/chat/completions?user=ada", json=short).raise_for_status()
        CLIENT.post(f"{url}/s/tea/v1/chat/completions", content=b"{")
        with CLIENT.stream("POST", f"{url}/s/tale/v1/chat/completions", json=story) as answer:
            said = answer.iter_text()
            until(lambda: "word" in next(said))
            process.send_signal(signal.SIGTERM)
            until(lambda: _refused(url))
            following = begun(tmp_path, *options, "--drain", "1")
            upstream.stopping.set()
            rest = "".join(said)
        _, log = process.communicate(timeout=300)
        assert process.returncode == 0
        again, same = told(following)
        rated = CLIENT.post(f"{again}/s/tea/feedback", json={"value": 1, "user": "ada"})
        goes_on = CLIENT.post(f"{again}/s/tale/v1/chat/completions", json={**short, "user": ""})
        upstream.stopping.clear()
        with CLIENT.stream("POST", f"{again}/s/long/v1/chat/completions", json=story) as answer:
            said = answer.iter_text()
            until(lambda: "word" in next(said))
            following.send_signal(signal.SIGTERM)
            following.communicate(timeout=300)
            assert following.returncode == 0

    assert rest.rstrip().endswith("data: [DONE]")
    assert same == run
    assert rated.status_code == 200
    assert goes_on.headers["x-agentfw-session"] == "tale"
    kept = {episode.task.query: episode for episode in read_sessions(run)}
    assert kept["tale"].turns[0].text.startswith("word ")
    assert len(kept["tale"].turns) == 2
    [cut] = [event.data for event in kept["long"].events if event.name == "cut_off"]
    assert cut["text"].startswith("word ")
    assert not any(episode.finish for episode in kept.values())
    assert RunFolder.open(run).state == "stopped"

    # It is logged as JSON, without what was said.
    lines = [json.loads(line) for line in log.splitlines() if not line.startswith("still importing")]
    requests = [line for line in lines if line["message"] == "request" and line["what"] == "chat/completions"]
    assert [(line["what"], line["status"], line["session"]) for line in requests] == [
        ("chat/completions", 200, "tea"),
        ("chat/completions", 400, "tea"),
        ("chat/completions", 200, "tale"),
    ]
    assert all(line["time"] and line["level"] == "INFO" and line["client"] == "127.0.0.1" for line in requests)
    assert not any(word in log for word in ("a secret", "word", "ada"))


def _refused(url: str) -> bool:
    try:
        CLIENT.get(f"{url}/v1/models")
    except httpx.TransportError:
        return True
    return False


# -- clients that hang up ----------------------------------------------------------------------------------------------


def in_front_of(serve: Serve, upstream: Upstream, concurrency: int, limits: Limits | None = None) -> Served:
    settings = {"base_url": upstream.url, "model": "served", "concurrency": concurrency, "token_ids": "off"}
    return serve(
        limits or Limits(concurrency=concurrency),
        policy="openai",
        assignments=[f"policy.{name}={value}" for name, value in settings.items()],
    )


def asking(gateway: Served, session: str, *, stream: bool) -> socket.socket:
    """A connection on which an answer without an end was asked for."""
    host, port = gateway.url.removeprefix("http://").split(":")
    line = socket.create_connection((host, int(port)))
    line.sendall(request(session, stream=stream))
    return line


def request(session: str, *, stream: bool) -> bytes:
    given = json.dumps(body("for ever", stream=stream)).encode()
    head = f"POST /s/{session}/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    return f"{head}Content-Length: {len(given)}\r\n\r\n".encode() + given


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_stops_its_request_upstream(serve: Serve, stream: bool) -> None:
    with endless() as upstream:
        gateway = in_front_of(serve, upstream, 4)
        lines = [asking(gateway, f"gone-{number}", stream=stream) for number in range(12)]
        until(lambda: upstream.begun == 4)
        for line in lines:
            line.close()
        until(lambda: upstream.gone == upstream.begun)

        answer = ask(gateway.session("next"), body("now"))

        assert answer["choices"][0]["message"]["content"] == "fine"
        assert upstream.begun <= 12
        hung_up = [gateway.episode(f"gone-{number}").events for number in range(12)]
        until(lambda: all(any(event.name == "hung_up" for event in events) for events in hung_up))
        assert 'agentfw_answers_total{end="hung_up"}' in CLIENT.get(f"{gateway.url}/metrics").text


def test_a_session_does_not_end_while_its_request_waits_in_the_line(serve: Serve) -> None:
    with endless() as upstream, ThreadPoolExecutor() as threads:
        gateway = in_front_of(serve, upstream, 1, Limits(concurrency=1, idle=2, queue_timeout=600))
        for name in ("tea", "other"):
            ask(gateway.session(name), body("now"))
        first = asking(gateway, "first", stream=True)
        first.recv(1)
        waits = threads.submit(ask, gateway.session("tea"), body("now"))
        until(lambda: "\nagentfw_requests_waiting 1.0" in CLIENT.get(f"{gateway.url}/metrics").text)

        for name in ("tea", "other"):
            gateway.live.sessions[name].used -= 1000
        until(lambda: "other" in gateway.live.ended)
        first.close()

        assert waits.result()["session"] == "tea"
        assert len(gateway.episode().turns) == 2


@asynchronous
async def test_a_gateway_whose_program_fails_works_on_nothing_any_more(tmp_path: Path) -> None:
    live = opened(tmp_path, policy="scripted", assignments=['policy.replies=["fine"]'])
    async with live:
        with pytest.raises(ZeroDivisionError):
            async with gateway_of(live, Limits()) as (_, _, caring):
                raise ZeroDivisionError
        assert caring.cancelled()


@asynchronous
async def test_clients_take_turns() -> None:
    served: list[str] = []
    line = Line(at_once=1, waiting=100)

    async def one(client: str) -> None:
        async with line.place(client):
            served.append(client)
            await asyncio.sleep(0)

    await asyncio.gather(*(one(client) for client in ["greedy"] * 8 + ["modest"] * 2))

    assert line.length == 0
    assert not line.served
    assert served == ["greedy", "greedy", "modest", "greedy", "modest", *["greedy"] * 5]


@asynchronous
async def test_a_full_line_costs_the_client_that_fills_it() -> None:
    line, refused = Line(at_once=1, waiting=4), dict.fromkeys(("greedy", "modest"), 0)
    go_on = asyncio.Event()

    async def one(client: str) -> None:
        try:
            async with line.place(client):
                await go_on.wait()
        except BadRequest as error:
            refused[client] += error.status == 503

    asked = [asyncio.create_task(one(client)) for client in ["greedy"] * 6 + ["modest"] * 2]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*asked)

    assert refused == {"greedy": 3, "modest": 0}
