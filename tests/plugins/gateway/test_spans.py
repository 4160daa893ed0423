"""Spans that an agent sends to the gateway beside its requests, and the tree of them in `agentfw view`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from chat_server import completion, refusal, tool_call
from viewed_pages import viewed

from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.view.waterfall import spans_file

from .conftest import CLIENT
from .upstream import Passing, passing

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, Tracer

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
MARKUP = "</td><script>window.taken=1</script><img src=x onerror='window.taken=1'>"


@contextmanager
def tracer(endpoint: str) -> Iterator[Tracer]:
    """A tracer of the SDK, whose spans have arrived when the block ends."""
    provider = TracerProvider(resource=Resource.create({"service.name": "weather-agent"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
    yield provider.get_tracer("test")
    assert provider.force_flush()
    provider.shutdown()


def ask(gateway: Passing, session: str, said: list[dict[str, Any]], **headers: str) -> dict[str, Any]:
    body = {"model": "served", "messages": said, "user": "ana", "tools": [WEATHER]}
    answer = CLIENT.post(f"{gateway.url}/s/{session}/v1/chat/completions", json=body, headers=headers)
    message: dict[str, Any] = answer.raise_for_status().json()["choices"][0]["message"]
    return message


def tree(page: str) -> list[tuple[int, str, str]]:
    """The rows of the tree: how deep, the name, and what it is."""
    table = page[page.index('class="waterfall"') :].partition("</table>")[0]
    rows = re.findall(r'<td class="d(\d)">(.*?)</td><td>(.*?)</td>', table, re.S)
    return [
        (int(depth), unescape(re.sub(r"<small>.*|<span.*?</span>|<(?!script).*?>", "", name, flags=re.S)).strip(), kind)
        for depth, name, kind in rows
    ]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Passing]:
    calls = completion(
        None, message={"tool_calls": [tool_call("get_weather", city="Paris")]}, finish_reason="tool_calls"
    )
    with passing(tmp_path / "runs", calls, completion("It rains.")) as found:
        yield found


def test_spans_of_an_agent_and_what_was_recorded_are_one_tree(gateway: Passing) -> None:
    said = [{"role": "user", "content": "What is the weather in Paris?"}]
    with tracer(f"{gateway.url}/s/paris") as spans, spans.start_as_current_span("invoke_agent weather"):
        with spans.start_as_current_span("think"):
            first = ask(gateway, "paris", said)
        with spans.start_as_current_span("execute_tool get_weather") as tool:
            tool.set_status(Status(StatusCode.ERROR, "the station is away"))
            time.sleep(0.1)
        said += [first, {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "3 mm"}]
        ask(gateway, "paris", said)
        ask(gateway, "paris", [{"role": "user", "content": "Look it up"}], **{"x-claude-code-agent-id": "helper"})

    with viewed(gateway.live.folder.path.parent) as url:
        page = CLIENT.get(f"{url}/episode/{gateway.live.folder.id}/00000-0").text
    found = tree(page)

    assert found[0] == (0, "invoke_agent weather", "span")
    assert (1, "think", "span") in found
    assert found[found.index((1, "think", "span")) + 1][::2] == (2, "model call")
    assert (1, "execute_tool get_weather", "tool call") in found, "the span and the record's call are one"
    assert (1, "paris.helper", "sub-agent") in found
    assert [kind for _, _, kind in found].count("tool call") == 1
    assert "the station is away" in page
    assert page.count("3 mm") == 2, "in the call, and hidden for the exact prompt"


def test_a_trace_belongs_to_the_session_that_one_of_its_spans_names(gateway: Passing) -> None:
    inner: dict[str, Any] = {"name": MARKUP, "spanId": "0" * 15 + "2", "parentSpanId": "0" * 15 + "1"}
    outer: dict[str, Any] = {"name": "agent", "spanId": "0" * 15 + "1"}
    outer |= {"attributes": [{"key": "session.id", "value": {"stringValue": "tea"}}]}
    begun = time.time_ns()
    ask(gateway, "tea", [{"role": "user", "content": "Which tea?"}])
    for span in (inner, outer):  # the inner one comes first, which names no session
        times = {"startTimeUnixNano": str(begun), "endTimeUnixNano": str(time.time_ns())}
        sent = {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a" * 32, **span, **times}]}]}]}
        CLIENT.post(f"{gateway.url}/v1/traces", json=sent).raise_for_status()

    with viewed(gateway.live.folder.path.parent) as url:
        page = CLIENT.get(f"{url}/episode/{gateway.live.folder.id}/00000-0").text

    assert [row[::2] for row in tree(page)][:3] == [(0, "span"), (1, "span"), (2, "model call")]
    assert MARKUP not in page
    assert "&lt;script&gt;window.taken=1" in page


def test_spans_stay_with_the_key_and_the_address_that_they_came_by(tmp_path: Path, keys: KeyFile) -> None:
    ana = {"authorization": f"Bearer {keys.add('ana')}"}
    named = [{"key": "session.id", "value": {"stringValue": "tea"}}]
    span = {"traceId": "a" * 32, "spanId": "1" * 16, "attributes": named}
    with passing(tmp_path / "runs", completion("fine"), limits=Limits(key_file=keys.path)) as gateway:
        for path in ("", "/s/cake"):
            sent = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
            CLIENT.post(f"{gateway.url}{path}/v1/traces", json=sent, headers=ana).raise_for_status()

    names = ("ana:tea", "ana:cake", "tea", "cake")
    kept = [spans_file(gateway.live.folder.path, name).exists() for name in names]
    assert kept == [True, True, False, False]


def test_masked_is_also_what_spans_have_and_what_nobody_could_answer(tmp_path: Path) -> None:
    said = "my card is 4111 1111 1111 1111"
    span: dict[str, Any] = {"traceId": "a" * 32, "spanId": "1" * 16, "name": said}
    span |= {"attributes": [{"key": "gen_ai.prompt", "value": {"stringValue": said}}]}
    options: dict[str, Any] = {"hooks": ["redact"], "assignments": ("policy.retries=0",)}
    with passing(tmp_path / "runs", refusal(500, "broken"), **options) as gateway:
        asked = gateway.ask("tea", said).status_code
        gateway.post("/s/tea/v1/traces", {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).raise_for_status()
        gateway.post("/s/tea/end").raise_for_status()

    files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert [file.name for file in files if b"4111 1111" in file.read_bytes()] == []
    masked = {file.parent.name for file in files if b"[masked: card]" in file.read_bytes()}
    assert (asked, masked) == (500, {"spans", gateway.folder.name})


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("/s/paris/v1/traces", b"\xff\xfe no spans", "application/x-protobuf"),
        ("/v1/traces", b"{", "application/json"),
        ("/s/..%2F..%2Fx/v1/traces", b"{}", "application/json"),
    ],
)
def test_what_is_no_span_is_refused(gateway: Passing, path: str, content: bytes, kind: str) -> None:
    answer = CLIENT.post(f"{gateway.url}{path}", content=content, headers={"content-type": kind})

    assert answer.status_code in (400, 404)
    assert not (gateway.live.folder.path / "spans").exists()
