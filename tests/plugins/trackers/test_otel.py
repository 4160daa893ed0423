"""OpenTelemetry spans of real runs: through the real SDK, over HTTP, decoded with the real protobuf messages."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Handler, listening

from agentfw import Generation, Host, Intervention, Message, Moment, Score, Task
from agentfw.episode import Call, Usage
from agentfw.memory import Query, Recollection
from agentfw.request import Sampling
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.testing import fresh_host
from agentfw.tracker import PlayedEpisode, PolicyCall, Recall, Scoring, ToolCall
from agentfw_plugins.trackers.otel import OtelSettings, OtelTracker

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

SETTINGS = {"environment": {"name": "inbox"}, "policy": {"name": "openai", "settings": {"model": "gpt-x"}}}
TASK = Task(3, seed=7, user="ana")


# -- a run that is followed --------------------------------------------------------------------------------------------


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A collector that speaks OTLP/HTTP, and the bodies that it was sent."""
    bodies: list[bytes] = []

    class Collector(Handler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("content-length", "0")
            self.end_headers()

    with listening(Collector) as address:
        yield f"{address}/traces", bodies


def spans_in(bodies: list[bytes]) -> list[Any]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    resources = [one for body in bodies for one in ExportTraceServiceRequest.FromString(body).resource_spans]
    assert {attributes(one.resource)["service.name"] for one in resources} == {"agentfw"}
    return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def looks_first(moment: Moment) -> Iterable[Intervention | str]:
    if moment.of("conflict"):
        yield Intervention("strategy_hub", {"action": "list"})
    else:
        yield Intervention("decide", {"accept": "A", "ranking": ["A", "B", "C", "D", "E"]})


def test_an_episode_is_a_trace_with_its_answers_tool_calls_recalls_and_scores(
    host: Host, tmp_path: Path, collector: tuple[str, list[bytes]]
) -> None:
    endpoint, bodies = collector
    spec = {
        "environment": {"name": "calendar", "settings": {"rounds": 3}},
        "policy": {"name": "scripted", "settings": {"rule": f"{__name__}:looks_first"}},
        "memories": ["strategyhub"],
        "rewards": ["calendar_decision"],
        "trackers": [{"name": "otel", "settings": {"endpoint": endpoint}}],
        "episodes": 1,
        "samples": 2,
    }
    run = Run.create(parse_spec(spec), host, tmp_path)
    asyncio.run(run.execute())

    spans = spans_in(bodies)
    roots = [span for span in spans if not span.parent_span_id]
    assert len(roots) == len({root.trace_id for root in roots}) == 2
    for root in roots:
        parts = [span for span in spans if span.trace_id == root.trace_id and span is not root]
        assert {part.parent_span_id for part in parts} == {root.span_id}
        expected = {"chat script": 6, "retrieval strategyhub": 6, "execute_tool strategy_hub": 3}
        assert Counter(part.name for part in parts) == {**expected, "evaluate calendar_decision": 1}
        for part in parts:
            assert part.start_time_unix_nano <= part.end_time_unix_nano
            within = root.start_time_unix_nano <= part.start_time_unix_nano < root.end_time_unix_nano
            assert within != part.name.startswith("evaluate"), "it is scored when it is over"
        (evaluation,) = (part for part in parts if part.name.startswith("evaluate"))
        assert [event.name for event in evaluation.events] == ["gen_ai.evaluation.result"] * 3
        assert {attributes(event)["gen_ai.evaluation.name"] for event in evaluation.events} == {"calendar_decision"}
    assert {attributes(root)["gen_ai.conversation.id"] for root in roots} == {
        f"{run.id}/{episode.id}" for episode in run.folder.episodes()
    }
    everything = b"".join(bodies)
    events = [event.data for episode in run.folder.episodes() for event in episode.events]
    said = {line.encode() for data in events for line in data.get("text", "").splitlines()}
    assert said
    assert not any(line in everything for line in said)


# -- what a span says --------------------------------------------------------------------------------------------------


def spans_of(*operations: Any, content: bool = False) -> list[Any]:
    """The spans of these operations, as the SDK has them."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    tracker = OtelTracker(OtelSettings(content=content), exporter=exporter)
    tracker.begin("run", Path(), SETTINGS)
    for operation in operations:
        tracker.trace(operation)
    tracker.close()
    tracker.close()
    return list(exporter.get_finished_spans())


def traced(*operations: Any, content: bool = False) -> dict[str, Any]:
    """The spans of one episode by their names."""
    return {span.name: span for span in spans_of(*operations, content=content)}


TUESDAY = {"day": "Tuesday"}
CALL, SAMPLING = Call("book", TUESDAY, "c1"), Sampling(temperature=0.5, max_tokens=9)
TALK = (Message("system", "Be brief."), Message("user", "when?"), Message("tool", "no", answers="c0"))
ANSWER = Generation("I book it.", (CALL,), version="gpt-x-2026", finish="length", usage=Usage(100, 40, 7, 0.25))
FOUND, SCORE = Recollection("Tuesdays", 0.5), Score("00003-0", "rubric", 0.75, usage=Usage(50, 0, 5))
OPERATIONS = (
    Recall(task=TASK, name="notes", began=1, ended=2, query=Query("when?", TASK), found=(FOUND,)),
    PolicyCall(task=TASK, name="openai", began=2, ended=4.5, messages=TALK, sampling=SAMPLING, generation=ANSWER),
    ToolCall(task=TASK, name="book", began=4.5, ended=5, error="tool_error", arguments=TUESDAY, answer="full"),
    PlayedEpisode(task=TASK, name="inbox", began=1, ended=6, finish="quiet", outcome={"handled": 1.0}),
    Scoring(task=TASK, name="rubric", began=6, ended=7, scores=(SCORE,)),
)


def test_a_span_has_times_tokens_and_names_by_the_conventions() -> None:
    from opentelemetry.trace import SpanKind, StatusCode

    spans = traced(*OPERATIONS)

    others = {"retrieval notes", "invoke_agent openai", "evaluate rubric"}
    assert spans.keys() == {"chat gpt-x", "execute_tool book"} | others
    chat, tool = spans["chat gpt-x"], spans["execute_tool book"]
    assert (chat.start_time, chat.end_time, chat.kind) == (2_000_000_000, 4_500_000_000, SpanKind.CLIENT)
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.model": "gpt-x-2026",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.output_tokens": 7,
        "agentfw.usage.cost": 0.25,
    }
    assert (tool.status.status_code, tool.attributes["error.type"]) == (StatusCode.ERROR, "tool_error")
    assert spans["evaluate rubric"].attributes["gen_ai.usage.input_tokens"] == 50
    (event,) = spans["evaluate rubric"].events
    assert event.attributes == {"gen_ai.evaluation.name": "rubric", "gen_ai.evaluation.score.value": 0.75}
    root = spans["invoke_agent openai"]
    assert (root.start_time, root.end_time) == (1_000_000_000, 6_000_000_000)
    assert {span.parent.span_id for span in spans.values() if span is not root} == {root.context.span_id}


def test_what_is_played_again_or_by_somebody_else_is_a_trace_of_its_own_also_if_it_is_stopped_in_the_middle() -> None:
    spans = spans_of(*OPERATIONS, *OPERATIONS, replace(OPERATIONS[1], task=replace(TASK, user="bo")))

    assert sorted(Counter(span.context.trace_id for span in spans).values()) == [2, 5, 5]
    assert len({span.context.trace_id for span in spans if span.name == "evaluate rubric"}) == 2
    assert len([span for span in spans if span.parent is None]) == 3


def test_a_collector_that_takes_no_spans_is_told_of_once_and_stops_nothing(
    tmp_path: Path, collector: tuple[str, list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = collector[0].replace("/v1/", "/v0/")
    host = fresh_host(builtins=True, strict=False)
    spec = {"environment": "inbox", "policy": "scripted", "episodes": 1, "max_turns": 2}
    spec["trackers"] = [{"name": "otel", "settings": {"endpoint": endpoint}}]

    summary = asyncio.run(Run.create(parse_spec(spec), host, tmp_path).execute())

    assert summary.turns == 2
    (note,) = (note for note in host.notes if "spans" in note)
    assert note.startswith(f"3 spans could not be sent to {endpoint}")
    assert not caplog.records


def test_what_was_said_is_sent_only_on_request() -> None:
    said = ("when?", "Tuesday", "Be brief.", "I book it.", "full")

    without, given = (traced(*OPERATIONS, content=content) for content in (False, True))

    told = json.dumps([dict(span.attributes) for span in without.values()])
    assert not any(word in told for word in said)
    chat = given["chat gpt-x"].attributes
    messages = json.loads(chat["gen_ai.input.messages"])
    assert messages[1] == {"role": "user", "parts": [{"type": "text", "content": "when?"}]}
    assert messages[2] == {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": "no"}]}
    call = {"type": "tool_call", "id": "c1", "name": "book", "arguments": {"day": "Tuesday"}}
    parts = [{"type": "text", "content": "I book it."}, call]
    (output,) = json.loads(chat["gen_ai.output.messages"])
    assert output == {"role": "assistant", "parts": parts, "finish_reason": "length"}
    assert given["execute_tool book"].attributes["gen_ai.tool.call.result"] == "full"
    assert json.loads(given["retrieval notes"].attributes["gen_ai.retrieval.documents"])[0]["content"] == "Tuesdays"
