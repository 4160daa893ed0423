"""Writes streamed responses, and the items that responses consist of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .bodies import Body
from .parts import choice_of, deltas, reasoning_of
from .protocol import event, problem_of

__all__ = ["Events", "function_call", "message_item", "reasoning_item", "response"]

_ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""Fields of a request that its response repeats, with what they are otherwise."""
_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Events:
    """A streamed response: an item for the thoughts, one for the text, and one for each call."""

    def __init__(self, body: Body) -> None:
        self._body, self._number = body, 0
        self._top: dict[str, Any] = {}
        self._name, self._finish = "", ""
        self._items: list[dict[str, Any]] = []
        self._open: dict[Any, int] = {}
        """The places of the items that are not done, by what they are."""
        self._failed = False

    def take(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        if self._failed:
            return
        if "error" in chunk:
            self._failed = True
            problem = problem_of(chunk["error"])
            yield self._event("error", code=problem.code or None, message=problem.message, param=problem.field or None)
            return
        if not self._top:
            self._top = dict(chunk)
            self._name = str(chunk.get("id", "")).removeprefix("chatcmpl-")
            for name in ("response.created", "response.in_progress"):
                yield self._event(name, response=response(self._body, self._top, [], status="in_progress"))
        self._top |= {name: chunk[name] for name in ("usage", "service_tier") if chunk.get(name)}
        choice = choice_of(chunk)
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta") if isinstance(choice.get("delta"), dict) else {}
        if thoughts := reasoning_of(delta or {}):
            yield from self._thought(thoughts)
        logprobs = (choice.get("logprobs") or {}).get("content") or []
        for kind, name in (("content", "output_text"), ("refusal", "refusal")):
            if isinstance(text := (delta or {}).get(kind), str) and text:
                yield from self._text(name, text, logprobs)
        for index, identity, name, more in deltas(chunk):
            yield from self._call(index, identity, name, more)

    def end(self) -> Iterator[bytes]:
        if self._failed:
            return
        if not self._items:
            yield from self._message()
        for place in list(self._open.values()):
            yield from self._close(place)
        cut = self._finish in _CUT
        whole = response(self._body, self._top, self._items, self._finish)
        yield self._event("response.incomplete" if cut else "response.completed", response=whole)

    # -- items ---------------------------------------------------------------------------------------------------------

    def _thought(self, text: str) -> Iterator[bytes]:
        if "reasoning" not in self._open:
            yield from self._begin("reasoning", {**reasoning_item(f"rs_{self._name}", ""), "status": "in_progress"})
        place = self._open["reasoning"]
        item = self._items[place]
        item["content"][0]["text"] += text
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        yield self._event("response.reasoning_text.delta", **where, delta=text)

    def _message(self) -> Iterator[bytes]:
        if "message" not in self._open:
            yield from self._begin("message", {**message_item(f"msg_{self._name}", "", ""), "status": "in_progress"})

    def _text(self, kind: str, text: str, logprobs: list[Any]) -> Iterator[bytes]:
        yield from self._message()
        place = self._open["message"]
        item, field = self._items[place], "text" if kind == "output_text" else kind
        if not any(part["type"] == kind for part in item["content"]):
            item["content"].append(_part(kind, ""))
            where = {"item_id": item["id"], "output_index": place, "content_index": len(item["content"]) - 1}
            yield self._event("response.content_part.added", **where, part=_part(kind, ""))
        index, part = next((i, part) for i, part in enumerate(item["content"]) if part["type"] == kind)
        part[field] += text
        more = {}
        if kind == "output_text":
            part["logprobs"] += logprobs
            more = {"logprobs": logprobs}
        where = {"item_id": item["id"], "output_index": place, "content_index": index}
        yield self._event(f"response.{kind}.delta", **where, delta=text, **more)

    def _call(self, index: int, identity: str, name: str, more: str) -> Iterator[bytes]:
        if index not in self._open:
            item = function_call(f"fc_{self._name}_{index}", identity, name, "")
            yield from self._begin(index, {**item, "status": "in_progress"})
        place = self._open[index]
        item = self._items[place]
        item["call_id"], item["name"] = item["call_id"] or identity, item["name"] or name
        if more:
            item["arguments"] += more
            where = {"item_id": item["id"], "output_index": place}
            yield self._event("response.function_call_arguments.delta", **where, delta=more)

    def _begin(self, key: Any, item: dict[str, Any]) -> Iterator[bytes]:
        if key != "message" or "reasoning" in self._open:
            for before in [each for each in self._open if not isinstance(key, int) or not isinstance(each, int)]:
                yield from self._close(self._open[before])
        self._open[key] = len(self._items)
        self._items.append(item)
        shown = {**item, "content": []} if "content" in item else item
        yield self._event("response.output_item.added", output_index=self._open[key], item=shown)

    def _close(self, place: int) -> Iterator[bytes]:
        self._open = {key: each for key, each in self._open.items() if each != place}
        item = self._items[place]
        item["status"] = "completed"
        where = {"item_id": item["id"], "output_index": place}
        if item["type"] == "function_call":
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", **where, **done)
        elif item["type"] == "reasoning":
            text = item["content"][0]["text"]
            yield self._event("response.reasoning_text.done", **where, content_index=0, text=text)
        else:
            for index, part in enumerate(item["content"]):
                if part["type"] == "output_text":
                    done = {"text": part["text"], "logprobs": part["logprobs"]}
                    yield self._event("response.output_text.done", **where, content_index=index, **done)
                else:
                    yield self._event("response.refusal.done", **where, content_index=index, refusal=part["refusal"])
                yield self._event("response.content_part.done", **where, content_index=index, part=part)
        yield self._event("response.output_item.done", output_index=place, item=item)

    def _event(self, name: str, /, **data: Any) -> bytes:
        self._number += 1
        return event({"type": name, "sequence_number": self._number - 1, **data}, name)


# -- parts of a response -----------------------------------------------------------------------------------------------


def reasoning_item(name: str, text: str) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": name, "summary": [], "content": content, "status": "completed"}


def message_item(name: str, text: str, refusal: str, logprobs: list[Any] | None = None) -> dict[str, Any]:
    content = [{**_part("output_text", text), "logprobs": logprobs or []}] if text else []
    content += [_part("refusal", refusal)] if refusal else []
    return {"type": "message", "id": name, "role": "assistant", "status": "completed", "content": content}


def function_call(name: str, call: object, function: object, arguments: object) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": name,
        "call_id": str(call or ""),
        "name": str(function or ""),
        "arguments": str(arguments or ""),
        "status": "completed",
    }


def _part(kind: str, text: str) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def response(
    body: Body,
    reply: Mapping[str, Any],
    items: list[dict[str, Any]],
    finish: object = None,
    *,
    status: str = "completed",
) -> dict[str, Any]:
    cut = _CUT.get(str(finish))
    found: dict[str, Any] = {
        "id": f"resp_{str(reply.get('id', '')).removeprefix('chatcmpl-')}",
        "object": "response",
        "created_at": reply.get("created") or 0,
        "model": reply.get("model") or body.values.get("model"),
        "status": "incomplete" if cut else status,
        "incomplete_details": {"reason": cut} if cut else None,
        "error": None,
        "output": items,
        "previous_response_id": None,
        **{name: body.values[name] if name in body else value for name, value in _ECHOED.items()},
        "service_tier": reply.get("service_tier") or body.values.get("service_tier"),
    }
    usage = reply.get("usage")
    if status != "in_progress" and isinstance(usage, dict):
        prompt, sampled = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
        details, made = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
        found["usage"] = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": details.get("cached_tokens") or 0, "cache_write_tokens": 0},
            "output_tokens": sampled,
            "output_tokens_details": {"reasoning_tokens": made.get("reasoning_tokens") or 0},
            "total_tokens": usage.get("total_tokens") or prompt + sampled,
        }
    return found
