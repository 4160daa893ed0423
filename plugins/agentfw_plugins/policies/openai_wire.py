"""What goes over the wire to a chat-completions server, and what its answer says.

The one rule: what a model wrote goes back to it verbatim. An answer whose calls stand in its text (because the model
wrote them there, or because they were too broken to be calls) is sent again as that text, not as text and calls both.

    body = {"model": name, **chat_body(request, native=True)}
    generation = read_answer(reply, {action.name for action in request.actions})

`native` says whether the server takes tools. One that doesn't is told of them in the system message, and the calls are
read out of the text like those of any other model that writes them.
"""

from __future__ import annotations

import codecs
import json
import math
import time
from collections.abc import Collection, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from agentfw.environment import Action
from agentfw.episode import Call, Message
from agentfw.parsing import parse_calls
from agentfw.policy import Generation, Request

if TYPE_CHECKING:
    import httpx

__all__ = ["Malformed", "chat_body", "plain_words", "read_answer", "retry_after"]


class Malformed(Exception):
    """An answer that is no chat completion, in words."""


def chat_body(request: Request, *, native: bool) -> dict[str, Any]:
    """The part of the request's body that comes from the turn."""
    body: dict[str, Any] = {"messages": _messages(request.messages, request.actions, native)}
    if request.actions and native:
        body["tools"] = [_function(action) for action in request.actions]
    sampling = request.sampling
    for name in ("temperature", "top_p", "max_tokens", "seed"):
        value = getattr(sampling, name)
        if value is not None:
            body[name] = value
    return body


def _function(action: Action) -> dict[str, Any]:
    described = {"name": action.name, "description": action.description, "parameters": dict(action.parameters)}
    return {"type": "function", "function": described}


def _messages(messages: Sequence[Message], actions: Sequence[Action], native: bool) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    written: set[str] = set()  # ids of the calls that stand in a text; their answers can't refer to them
    for message in messages:
        if message.role == "tool" and message.answers in written:
            sent.append({"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"})
        elif message.role == "tool":
            sent.append({"role": "tool", "tool_call_id": message.answers, "content": message.content})
        elif not message.calls:
            sent.append({"role": message.role, "content": message.content})
        elif native and not _spelled(message):
            calls = [_call(call) for call in message.calls]
            sent.append({"role": message.role, "content": message.content or None, "tool_calls": calls})
        else:
            written.update(call.id for call in message.calls)
            text = message.content if _spelled(message) else _as_text(message.content, message.calls)
            sent.append({"role": message.role, "content": text})
    if actions and not native:
        told = _told(actions)
        if sent and sent[0]["role"] == "system":
            sent[0]["content"] += f"\n\n{told}"
        else:
            sent.insert(0, {"role": "system", "content": told})
    return _joined(sent)


def _joined(sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring user messages as one: many chat templates refuse two in a row."""
    joined: list[dict[str, Any]] = []
    for message in sent:
        if joined and message["role"] == joined[-1]["role"] == "user":
            joined[-1]["content"] += f"\n{message['content']}"
        else:
            joined.append(message)
    return joined


def _spelled(message: Message) -> bool:
    """Whether the text itself says the calls."""
    found = parse_calls(message.content, {call.name for call in message.calls}).calls
    return [call.name for call in found] == [call.name for call in message.calls]


def _call(call: Call) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _as_text(content: str, calls: Sequence[Call]) -> str:
    written = [_tagged(call.name, dict(call.arguments)) for call in calls]
    return "\n".join([content, *written] if content else written)


def _tagged(name: object, arguments: object) -> str:
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    # The same to whoever reads JSON, and nothing in it can be taken for the end of the tag.
    inside = text.replace("</", "<\\/")
    return f"<tool_call>{inside}</tool_call>"


def _told(actions: Sequence[Action]) -> str:
    """The actions in a system message, in the words that most open models were trained with."""
    functions = "\n".join(json.dumps(_function(action), ensure_ascii=False) for action in actions)
    return (
        f"You can call these functions:\n<tools>\n{functions}\n</tools>\n"
        'For each call write <tool_call>{"name": ..., "arguments": {...}}</tool_call>.'
    )


def read_answer(reply: object, names: Collection[str]) -> Generation:
    """What a reply says. `names` are the actions that were offered; `Malformed` where it is no chat completion."""
    if not isinstance(reply, dict):
        raise Malformed("the answer is no JSON object")
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Malformed("the answer has no choices")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Malformed("the answer's choice has no message")
    if choice.get("finish_reason") == "abort":
        raise Malformed("the server broke the answer off")
    text, calls = _calls(_text(message.get("content")), message.get("tool_calls"), names)
    token_ids = _integers(choice.get("token_ids"))
    logprobs, pieces = _logprobs(choice.get("logprobs"))
    if token_ids and len(logprobs) != len(token_ids):
        logprobs, pieces = (), ()  # they belong to other tokens than these
    count = len(token_ids) or len(pieces) or _count(reply.get("usage"), message)
    return Generation(
        text=text,
        calls=calls,
        count=count,
        prompt_ids=_integers(reply.get("prompt_token_ids") or choice.get("prompt_token_ids")),
        token_ids=token_ids,
        logprobs=logprobs if token_ids else (),  # of no use to anybody without the ids
        pieces=_within(pieces, text),
        version=str(reply.get("model") or ""),
        finish="length" if choice.get("finish_reason") == "length" else "stop",
    )


def _text(content: object) -> str:
    """A message's content: text, or parts of which some are text."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _calls(text: str, found: object, names: Collection[str]) -> tuple[str, tuple[Call, ...]]:
    """The calls that the server told apart; or, if one of them is broken, all of them as text.

    As text they go the way of every other model's calls: those that can be understood are carried out, and the others
    become failures, which the record keeps and a format reward sees.
    """
    if not isinstance(found, list) or not found:
        return text, ()
    calls: list[Call] = []
    written: list[str] = []
    for index, one in enumerate(found):
        function = one.get("function") if isinstance(one, dict) else None
        function = function if isinstance(function, dict) else {}
        written.append(_tagged(function.get("name"), function.get("arguments")))
        # Read like any other, so that what a call may hold doesn't depend on who took it out of the text.
        parsed = parse_calls(written[-1], names)
        if len(parsed.calls) == 1 and not parsed.failures:
            call = parsed.calls[0]
            calls.append(Call(call.name, call.arguments, str(one.get("id") or f"call_{index}")))
    if len(calls) == len(found):
        return text, tuple(calls)
    return "\n".join([text, *written] if text else written), ()


def _integers(values: object) -> tuple[int, ...]:
    if isinstance(values, list) and all(isinstance(value, int) for value in values):
        return tuple(values)
    return ()


def _logprobs(given: object) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The logprob and the text of each token."""
    content = given.get("content") if isinstance(given, dict) else None
    if not isinstance(content, list):
        return (), ()
    # A character can be spread over several tokens: it comes out with the token that completes it.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    logprobs: list[float] = []
    pieces: list[str] = []
    for entry in content:
        logprob = entry.get("logprob") if isinstance(entry, dict) else None
        if not isinstance(logprob, int | float) or not math.isfinite(logprob):
            return (), ()
        logprobs.append(float(logprob))
        octets = _integers(entry.get("bytes"))
        fits = octets and all(0 <= octet < 256 for octet in octets)
        pieces.append(decoder.decode(bytes(octets)) if fits else str(entry.get("token") or ""))
    return tuple(logprobs), tuple(pieces)


def _within(pieces: Sequence[str], text: str) -> tuple[str, ...]:
    """The pieces as far as they make the text: servers leave out of it the token that ended it, and the calls."""
    if not "".join(pieces).startswith(text):
        return ()
    kept: list[str] = []
    left = len(text)
    for piece in pieces:
        kept.append(piece[:left])
        left -= len(kept[-1])
    return tuple(kept)


def _count(usage: object, message: Mapping[str, Any]) -> int:
    """How many tokens an answer took, where it doesn't list them."""
    counted = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if isinstance(counted, int):
        return counted
    # Four characters a token: an answer that took no time at all would be worse than a rough guess.
    said = _text(message.get("content")) + json.dumps(message.get("tool_calls") or [])[1:-1]
    return -(-len(said) // 4)


def retry_after(response: httpx.Response) -> float | None:
    """The header of that name, in seconds from now: it is given as such or as a date."""
    value = response.headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def plain_words(response: httpx.Response, key: str) -> str:
    """What an answer says, in a line: the error's own words where it has them. Servers quote keys; the line doesn't."""
    text = response.text
    try:
        reply: Any = json.loads(text)
        for name in ("error", "detail"):
            if isinstance(reply, dict) and reply.get(name):
                reply = reply[name]
        if isinstance(reply, list):  # of FastAPI: what is wrong where, and also what was sent, which may be anything
            reply = "; ".join(f"{entry.get('loc')} {entry.get('msg')}" for entry in reply if isinstance(entry, dict))
        if isinstance(reply, dict) and reply.get("message"):
            reply = " ".join(str(reply[part]) for part in ("message", "param") if reply.get(part))
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
    except (ValueError, RecursionError):
        pass
    if key:
        text = text.replace(key, "***")
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:297]}..."
