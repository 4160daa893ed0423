"""OpenTelemetry spans that an agent sends beside its requests, kept beside the record of its session.

Its exporter needs `OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:8765/s/NAME`. Without a session in the address, the
attribute `session.id` or `gen_ai.conversation.id` of one span names that of its trace. Each session has a file,
`spans/SESSION.jsonl` in the folder of the run, and so has each trace of which some spans came without a name. What was
received is on disk before the answer. `agentfw view` shows it.
"""

from __future__ import annotations

import asyncio
import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from agentfw.boundary.gate import needing
from agentfw.runs import Journal, make_folder

from ..protocols import BadRequest
from ..view.waterfall import spans_file
from .handling import bytes_of
from .sessions.session_finder import SESSION_NAME

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_NAMES = ("session.id", "gen_ai.conversation.id")
_LONGEST = 20_000  # characters of an attribute that are kept
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"


class Spans:
    def __init__(self, run: Path, masked: Callable[[Any], Any] | None = None) -> None:
        """`masked` is a text, or the texts in a table, as they are recorded. Default: as they come."""
        self._run, self._masked, self._lock = run, masked, asyncio.Lock()

    async def receive(self, request: Request) -> Response:
        with needing("the endpoint for spans", "otel"):
            from google.protobuf.json_format import Parse, ParseError
            from google.protobuf.message import DecodeError
            from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        session = str(request.path_params.get("session", ""))
        if session and not SESSION_NAME.fullmatch(session):
            raise BadRequest("this is no name of a session", field="session")
        is_json = request.headers.get("content-type", "").partition(";")[0].strip() == _JSON
        raw, sent = await bytes_of(request), ExportTraceServiceRequest()
        try:
            if is_json:
                Parse(raw, sent, ignore_unknown_fields=True)
            else:
                sent.ParseFromString(raw)
        except (DecodeError, ParseError, UnicodeDecodeError) as error:
            raise BadRequest(f"these are no spans of OTLP/HTTP: {error}") from None

        def hexed(read: bytes) -> str:
            """An id. In JSON, OTLP has it in base 16, and protobuf's reader has taken it for base 64."""
            return b64encode(read).decode().lower() if is_json else read.hex()

        found: dict[str, list[dict[str, Any]]] = {}
        for resource in sent.resource_spans:
            about = _values(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    line = _line(span, hexed)
                    line["service"] = str(about.get("service.name", ""))
                    named = {**about, **line["attributes"]}
                    name = session or next((str(named[key]) for key in _NAMES if key in named), "")
                    of_session = f"{request.state.caller.space}{name}"
                    if self._masked is not None:
                        line |= {key: self._masked(line[key]) for key in ("name", "error", "attributes")}
                    file = of_session if SESSION_NAME.fullmatch(name) else f"~{line['trace']}"
                    found.setdefault(file, []).append(line)
        async with self._lock:  # two requests at once may be of one session
            await asyncio.to_thread(self._write, found)
        return Response("{}" if is_json else b"", media_type=_JSON if is_json else _PROTOBUF)

    def _write(self, found: dict[str, list[dict[str, Any]]]) -> None:
        for name, spans in found.items():
            make_folder(spans_file(self._run, name).parent)
            with Journal.open(spans_file(self._run, name)) as journal:
                journal.append({"spans": spans})


def _line(span: Span, hexed: Callable[[bytes], str]) -> dict[str, Any]:
    return {
        "trace": hexed(span.trace_id),
        "span": hexed(span.span_id),
        "parent": hexed(span.parent_span_id),
        "name": span.name[:_LONGEST],
        "start": span.start_time_unix_nano / 1e9,
        "end": span.end_time_unix_nano / 1e9,
        "error": (span.status.message[:_LONGEST] or "failed") if span.status.code == 2 else "",
        "attributes": _values(span.attributes),
    }


def _values(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return json.dumps([_value(one) for one in value.array_value.values], ensure_ascii=False)[:_LONGEST]
    if kind == "kvlist_value":
        return json.dumps(_values(value.kvlist_value.values), ensure_ascii=False)[:_LONGEST]
    if kind in (None, "bytes_value"):
        return ""
    found = getattr(value, kind)
    if isinstance(found, float) and not math.isfinite(found):  # JSON has no such number
        return str(found)
    return found[:_LONGEST] if isinstance(found, str) else found
