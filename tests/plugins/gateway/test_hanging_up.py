"""A client that hangs up stops what was asked for it, and no client takes the place of the others."""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from asynchronous import asynchronous
from waiting import until

from agentfw_plugins.gateway.answering import Line
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.protocols.bodies import BadRequest

from .conftest import CLIENT, Serve, Served
from .endless_upstream import Upstream, endless
from .test_sessions import ask, body


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
        hung_up = [gateway.live.sessions[f"gone-{number}"].episode.events for number in range(12)]
        until(lambda: all(any(event.name == "hung_up" for event in events) for events in hung_up))


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
        assert len(gateway.live.sessions["tea"].episode.turns) == 2


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
