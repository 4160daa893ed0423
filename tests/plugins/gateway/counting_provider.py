"""A provider on this machine that speaks four protocols, and counts what it charges for by prices of its own.

    with counting(seed=7) as provider:
        provider.url          # http://127.0.0.1:PORT/v1
        provider.charged      # one Charge for each answer

The numbers are drawn. They include cached tokens, tokens written to a cache, and thoughts.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from chat_server import Handler, listening

MODELS = {"chat": "gpt-5", "responses": "gpt-5", "messages": "claude-sonnet-4-5", "google": "gemini-2.5-pro"}
PRICES = {
    "gpt-5": {"new": "1.25", "cached": "0.125", "sampled": "10"},
    "claude-sonnet-4-5": {"new": "3", "cached": "0.3", "sampled": "15", "written": "3.75", "written_long": "6"},
    "gemini-2.5-pro": {"new": "1.25", "cached": "0.125", "sampled": "10"},
}
"""Dollars for a million tokens."""


class Charge(NamedTuple):
    """What one answer is charged for."""

    model: str
    new: int
    cached: int
    written: int
    """To the cache, for five minutes and, as `written_long`, for an hour."""
    written_long: int
    sampled: int
    """Tokens of the answer, thoughts included."""
    thoughts: int

    @property
    def prompt(self) -> int:
        return self.new + self.cached + self.written + self.written_long

    @property
    def money(self) -> Decimal:
        prices = PRICES[self.model]
        kinds = ("new", "cached", "written", "written_long", "sampled")
        return sum((getattr(self, kind) * Decimal(prices.get(kind, "0")) for kind in kinds), Decimal()) / 1_000_000


class Provider:
    def __init__(self, seed: int, draw: Callable[[str, random.Random], Charge], seconds: float) -> None:
        self._random, self._draw, self.seconds = random.Random(seed), draw, seconds
        self.charged: list[Charge] = []
        self.lock, self.url = threading.Lock(), ""
        self.lies: Callable[[dict[str, Any]], Any] = lambda usage: usage
        """What becomes of the usage that is told."""

    def charge(self, model: str) -> Charge:
        with self.lock:
            self.charged.append(self._draw(model, self._random))
            return self.charged[-1]


def any_numbers(model: str, draw: random.Random) -> Charge:
    cached = draw.choice((0, draw.randrange(5000)))
    writes = model.startswith("claude")
    written, written_long = (draw.choice((0, draw.randrange(2000))) if writes else 0 for _ in range(2))
    sampled = draw.randrange(1, 2000)
    return Charge(model, draw.randrange(1, 3000), cached, written, written_long, sampled, draw.randrange(sampled))


@contextmanager
def counting(
    seed: int = 7, draw: Callable[[str, random.Random], Charge] = any_numbers, seconds: float = 0.0
) -> Iterator[Provider]:
    """`seconds` are what an answer takes."""
    provider = Provider(seed, draw, seconds)

    class Counting(Handler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = self.path.partition("?")[0]
            streams = bool(body.get("stream")) or "streamGenerateContent" in path
            name = next((name for name in ("responses", "messages") if path.endswith(name)), "")
            name = name or ("google" if "models/" in path else "chat")
            if path.endswith("embeddings"):
                found = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
                usage = {"prompt_tokens": 8, "total_tokens": 8}
                self._send("application/json", json.dumps({"data": found, "model": "gpt-5", "usage": usage}).encode())
                return
            charge = provider.charge(MODELS[name])
            time.sleep(provider.seconds)
            events = list(ANSWERS[name](charge, provider.lies, streams))
            if not streams:
                self._send("application/json", json.dumps(events[-1]).encode())
                return
            lines = []
            for event in events:
                kind = f"event: {event['type']}\n" if "type" in event else ""
                lines.append(f"{kind}data: {json.dumps(event)}\n\n")
            self._send("text/event-stream", "".join([*lines, "data: [DONE]\n\n" if name == "chat" else ""]).encode())

        def _send(self, kind: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with listening(Counting) as provider.url:
        yield provider


Lies = Callable[[dict[str, Any]], Any]


def _chat(charge: Charge, lies: Lies, streams: bool) -> Iterator[dict[str, Any]]:
    usage = {
        "prompt_tokens": charge.prompt,
        "completion_tokens": charge.sampled,
        "total_tokens": charge.prompt + charge.sampled,
        "prompt_tokens_details": {"cached_tokens": charge.cached},
        "completion_tokens_details": {"reasoning_tokens": charge.thoughts},
    }
    head = {"id": "chatcmpl-1", "created": 1, "model": charge.model}
    if streams:
        chunk = {**head, "object": "chat.completion.chunk"}
        yield {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Fine."}}]}
        yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield {**chunk, "choices": [], "usage": lies(usage)}
        return
    message = {"role": "assistant", "content": "Fine."}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    yield {**head, "object": "chat.completion", "choices": choices, "usage": lies(usage)}


def _responses(charge: Charge, lies: Lies, streams: bool) -> Iterator[dict[str, Any]]:
    usage = {
        "input_tokens": charge.prompt,
        "output_tokens": charge.sampled,
        "total_tokens": charge.prompt + charge.sampled,
        "input_tokens_details": {"cached_tokens": charge.cached},
        "output_tokens_details": {"reasoning_tokens": charge.thoughts},
    }
    part = {"type": "output_text", "text": "Fine.", "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": charge.model}
    head |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    if streams:
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        yield {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
        yield {"type": "response.output_text.delta", **place, "delta": "Fine."}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    whole = {**head, "status": "completed", "output": [item], "usage": lies(usage)}
    yield {"type": "response.completed", "response": whole} if streams else whole


def _messages(charge: Charge, lies: Lies, streams: bool) -> Iterator[dict[str, Any]]:
    usage = {
        "input_tokens": charge.new,
        "cache_read_input_tokens": charge.cached,
        "cache_creation_input_tokens": charge.written + charge.written_long,
        "cache_creation": {
            "ephemeral_5m_input_tokens": charge.written,
            "ephemeral_1h_input_tokens": charge.written_long,
        },
        "output_tokens": charge.sampled,
    }
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": charge.model, "stop_sequence": None}
    if not streams:
        content = [{"type": "text", "text": "Fine."}]
        yield {**head, "content": content, "stop_reason": "end_turn", "usage": lies(usage)}
        return
    begun = {**head, "content": [], "stop_reason": None, "usage": lies({**usage, "output_tokens": 1})}
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Fine."}}
    yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": lies({"output_tokens": charge.sampled})}
    yield {"type": "message_stop"}


def _google(charge: Charge, lies: Lies, streams: bool) -> Iterator[dict[str, Any]]:
    usage = {
        "promptTokenCount": charge.prompt,
        "candidatesTokenCount": charge.sampled - charge.thoughts,
        "thoughtsTokenCount": charge.thoughts,
        "cachedContentTokenCount": charge.cached,
        "totalTokenCount": charge.prompt + charge.sampled,
    }
    head = {"modelVersion": charge.model, "responseId": "r-1"}
    said = {"content": {"role": "model", "parts": [{"text": "Fine."}]}, "index": 0}
    if streams:
        yield {**head, "candidates": [said]}
        said = {"content": {"role": "model", "parts": []}, "index": 0}
    yield {**head, "candidates": [{**said, "finishReason": "STOP"}], "usageMetadata": lies(usage)}


ANSWERS: dict[str, Callable[[Charge, Lies, bool], Iterator[dict[str, Any]]]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "google": _google,
}
"""The answers by protocol, as events of a stream, of which the last one is the whole answer if it isn't streamed."""
