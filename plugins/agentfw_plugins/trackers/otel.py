"""Sends OpenTelemetry spans of a run to a collector, named by the semantic conventions for generative AI.

An episode is a trace: `invoke_agent` is its root, and below it are `chat` for each answer of the policy,
`execute_tool`, `retrieval` for what a memory recalls, and `evaluate` for a reward model, with an event for each score.
What was said is sent only if `content` is on.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from pydantic import Field

from agentfw import Message, Settings, Task, Tracker
from agentfw.episode import Usage
from agentfw.errors import AgentfwError
from agentfw.tracker import Operation, PlayedEpisode, PolicyCall, Recall, Scoring, ToolCall

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import Span

_MOST_SCORES = 10_000  # events of a span; the SDK's default is 128, and a reward model may score every round
_EVALUATION = "gen_ai.evaluation"


class OtelSettings(Settings):
    endpoint: str = Field(
        "",
        description="URL of an OTLP/HTTP collector, with its path /v1/traces. Default: as the variables "
        "OTEL_EXPORTER_OTLP_* say, or port 4318 of this machine.",
    )
    content: bool = Field(
        False, description="Also send what was said: messages, arguments and answers of tools, recalled texts."
    )


class OtelTracker(Tracker):
    """One trace for each episode."""

    def __init__(self, settings: OtelSettings, *, exporter: SpanExporter | None = None) -> None:
        """`exporter` takes the place of the collector."""
        self.settings, self._exporter = settings, exporter
        self._provider: Any = None
        self._roots: dict[Task, Span] = {}  # the span of each episode that goes on or isn't scored yet

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "agentfw"), "agentfw.run": run})
        # A provider of its own: a program that uses agentfw may have another one for itself.
        self._provider = TracerProvider(resource=resource, span_limits=SpanLimits(max_events=_MOST_SCORES))
        exporter = self._exporter or OTLPSpanExporter(self.settings.endpoint or None)
        self._sent = _Sent(exporter)
        self._provider.add_span_processor(BatchSpanProcessor(cast("SpanExporter", self._sent)))
        # It would write several long lines for each batch that it can't send; `close` says it once.
        logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)
        self._tracer = self._provider.get_tracer("agentfw")
        self._run, self._policy = run, settings["policy"]
        self._environment = settings["environment"]["name"]

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Does nothing: metrics aren't spans. The run's folder and other trackers have them."""

    def trace(self, operation: Operation) -> None:
        """Send a span of what took time, below that of its episode."""
        from opentelemetry.trace import NonRecordingSpan, SpanKind, set_span_in_context

        root, kind, name = self._root(operation), SpanKind.INTERNAL, operation.name
        attributes: dict[str, Any]
        match operation:
            case PlayedEpisode():
                root.set_attributes({f"agentfw.outcome.{figure}": value for figure, value in operation.outcome.items()})
                self._end(root, operation)
                # Its scores still need its place in the trace, and nothing else of it.
                self._roots[operation.task] = NonRecordingSpan(root.get_span_context())
                return
            case PolicyCall():
                does, kind, attributes = "chat", SpanKind.CLIENT, self._of_call(operation)
                name = attributes["gen_ai.request.model"]
            case ToolCall():
                does, attributes = "execute_tool", {"gen_ai.tool.name": name, "gen_ai.tool.type": "function"}
                if self.settings.content:
                    attributes["gen_ai.tool.call.arguments"] = json.dumps(operation.arguments, default=str)
                    attributes["gen_ai.tool.call.result"] = operation.answer
            case Recall():
                does, found = "retrieval", operation.found
                attributes = {"gen_ai.data_source.id": name, "agentfw.recalled": len(found)}
                if self.settings.content:
                    attributes["gen_ai.retrieval.query.text"] = operation.query.text
                    documents = [{"content": one.text, "score": one.score} for one in found]
                    attributes["gen_ai.retrieval.documents"] = json.dumps(documents)
            case Scoring():
                does, used = "evaluate", Usage.total(score.usage for score in operation.scores)
                attributes = _usage(used) if used.tokens else {}
            case _:
                return
        span: Span = self._tracer.start_span(
            f"{does} {name}",
            context=set_span_in_context(root),
            attributes=_known({**self._about(does), **attributes}),
            start_time=_nanoseconds(operation.began),
            kind=kind,
        )
        for score in operation.scores if isinstance(operation, Scoring) else ():
            figure = {
                f"{_EVALUATION}.name": score.component,
                f"{_EVALUATION}.score.value": float(score.value),
                "agentfw.round": score.round,
                "agentfw.turn": score.turn,
            }
            span.add_event(f"{_EVALUATION}.result", _known(figure), _nanoseconds(operation.ended))
        self._end(span, operation)

    def close(self) -> None:
        provider, self._provider = self._provider, None
        if provider is not None:
            for root in self._roots.values():
                if root.is_recording():  # the run was stopped in the middle of the episode
                    root.end()
            provider.shutdown()
            if self._sent.lost:
                wrong = f"{self._sent.lost} spans could not be sent to {self.settings.endpoint or 'the collector'}"
                raise AgentfwError(wrong, fix="start a collector there, or set tracker.otel.endpoint")

    def _of_call(self, call: PolicyCall) -> dict[str, Any]:
        generation, settings = call.generation, self._policy.get("settings", {})
        model = str(settings.get("model") or (generation and generation.version) or call.name)
        attributes: dict[str, Any] = {
            "gen_ai.request.model": model,
            "gen_ai.request.temperature": call.sampling.temperature,
            "gen_ai.request.top_p": call.sampling.top_p,
            "gen_ai.request.max_tokens": call.sampling.max_tokens,
            "gen_ai.request.seed": call.sampling.seed,
        }
        if isinstance(url := settings.get("base_url"), str):
            attributes |= {"server.address": urlsplit(url).hostname, "server.port": urlsplit(url).port}
        if generation is not None:
            attributes |= {
                "gen_ai.response.model": generation.version or model,
                "gen_ai.response.finish_reasons": [generation.finish],
                **_usage(generation.usage),
            }
        if self.settings.content:
            attributes["gen_ai.input.messages"] = json.dumps([_message(message) for message in call.messages])
            if generation is not None:
                said = _message(Message("assistant", generation.text, generation.calls))
                attributes["gen_ai.output.messages"] = json.dumps([{**said, "finish_reason": generation.finish}])
        return attributes

    def _about(self, operation: str) -> dict[str, Any]:
        return {"gen_ai.operation.name": operation, "gen_ai.provider.name": self._policy["name"]}

    def _root(self, operation: Operation) -> Span:
        """The episode's span, which begins with the first thing that is told of it."""
        task = operation.task
        root = self._roots.get(task)
        # A task can be played again, as in the next update of a training.
        if root is None or not (root.is_recording() or isinstance(operation, Scoring)):
            attributes = {
                **self._about("invoke_agent"),
                "gen_ai.agent.name": self._policy["name"],
                "gen_ai.conversation.id": f"{self._run}/{task.id}",
                "agentfw.environment": self._environment,
                "agentfw.split": task.split,
            }
            name, began = f"invoke_agent {self._policy['name']}", _nanoseconds(operation.began)
            root = self._roots[task] = self._tracer.start_span(name, attributes=attributes, start_time=began)
        return root

    def _end(self, span: Span, operation: Operation) -> None:
        from opentelemetry.trace import Status, StatusCode

        if operation.error:
            span.set_attribute("error.type", operation.error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_nanoseconds(operation.ended))


class _Sent:
    """An exporter that counts the spans which the other one couldn't send."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter, self.lost = exporter, 0
        self.shutdown, self.force_flush = exporter.shutdown, exporter.force_flush

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        from opentelemetry.sdk.trace.export import SpanExportResult

        result = self.exporter.export(spans)
        self.lost += len(spans) if result is not SpanExportResult.SUCCESS else 0
        return result


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.output_tokens": usage.sampled,
        "agentfw.usage.cost": usage.cost or None,
    }


def _message(message: Message) -> dict[str, Any]:
    """A message as the conventions write it."""
    parts: list[dict[str, Any]] = []
    if message.role == "tool":
        parts.append({"type": "tool_call_response", "id": message.answers, "response": message.content})
    elif message.content:
        parts.append({"type": "text", "content": message.content})
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": dict(call.arguments)}
        for call in message.calls
    ]
    return {"role": message.role, "parts": parts}


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """OpenTelemetry has no value for what isn't known."""
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
