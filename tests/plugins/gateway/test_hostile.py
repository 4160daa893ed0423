"""No request brings the gateway down or gets an answer of 500, and whatever is recorded can be read."""

from __future__ import annotations

import socket
from collections import Counter

import httpx

from agentfw.runs import read_sessions

from .conftest import CLIENT, Served
from .mutations import mutated

REQUESTS = 300


def sent(url: str, first: int, count: int) -> Counter[int]:
    """Send mutated requests. Returns how often each status came."""
    found: Counter[int] = Counter()
    with httpx.Client(timeout=20) as client:
        for number in range(first, first + count):
            path, raw, headers = mutated(number)
            try:
                answer = client.post(f"{url}{path}", content=raw, headers=headers)
            except (httpx.InvalidURL, httpx.LocalProtocolError):
                found[0] += 1  # the client itself won't send it
                continue
            found[answer.status_code] += 1
            assert answer.status_code < 500, f"request {number}: {answer.status_code} {answer.text[:300]}"
            assert "x-evil" not in answer.headers
            assert "Traceback" not in answer.text
    return found


def test_mutated_requests_are_answered(gateway: Served) -> None:
    found = sent(gateway.url, 0, REQUESTS)

    assert found[200] > 10
    assert found[400] > 50
    assert CLIENT.get(f"{gateway.url}/v1/models").status_code == 200
    assert read_sessions(gateway.live.folder.path)


def test_what_is_no_http_is_survived(gateway: Served) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    for raw in (
        b"\x16\x03\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=5) as line:
            line.sendall(raw)
            line.shutdown(socket.SHUT_WR)
            line.recv(1000)

    assert CLIENT.get(f"{gateway.url}/v1/models").status_code == 200
