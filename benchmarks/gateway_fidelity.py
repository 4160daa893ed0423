"""What of requests, answers and refusals passes a gateway in front of a model's server.

    python benchmarks/gateway_fidelity.py
    python benchmarks/gateway_fidelity.py --litellm LITELLM/bin/litellm

Each feature is tried alone, with the official clients of OpenAI and Anthropic, or as Google's ask, through a gateway of
agentfw and, with `--litellm`, through a LiteLLM proxy, in front of the same two recording servers: one that speaks chat
completions, and one that speaks responses and messages, too ("native"). A feature passes if the server was asked
what it should be, or the client got what the server answered. It is refused if the client got an error of status 400
that names it. Otherwise it is lost. Required: nothing is lost. The proxy needs an environment of its own:
python -m venv LITELLM && LITELLM/bin/pip install "litellm[proxy]"
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from agentfw_benchmarks import TESTS, Options, print_markdown, tell
from agentfw_benchmarks.gateways import litellm_proxy, serving

sys.path[:0] = [str(TESTS), str(TESTS / "plugins" / "gateway")]

Body = dict[str, Any]
COUNTED = {"include_usage": True}
"""What the gateway asks of a stream."""
Ask = Callable[[str, Body], Any]
Holds = Callable[[Body, Any], bool]
"""Whether a feature passed, by what the server was asked and what the client got."""
COUNT = "messages/count_tokens"
MODELS = {
    ("completions", False): "served-text",
    ("embeddings", False): "served-vectors",
    ("responses", True): "served-responses",
    ("messages", True): "served-messages",
    (COUNT, True): "served-messages",
}
"""Names that say to the proxy which API of which server is meant."""


class Feature(NamedTuple):
    """One thing that can be lost."""

    group: str
    name: str
    path: str
    given: Body
    reply: Any
    holds: Holds
    native: bool = False
    """Whether the server speaks responses and messages."""


class Got(NamedTuple):
    """What a client got."""

    status: int
    headers: Any
    text: str

    @property
    def body(self) -> Body:
        found: Body = json.loads(self.text)
        return found

    @property
    def events(self) -> list[Body]:
        lines = [line[6:] for line in self.text.splitlines() if line.startswith("data: {")]
        return [json.loads(line) for line in lines]


def features() -> Iterator[Feature]:
    import features as told  # type: ignore[import-not-found]
    from chat_server import Reply, chunks, completion

    chat: Body = {"messages": told.HELLO}
    fine = completion("fine")
    path = "chat/completions"

    for name, value in told.FIELDS.items():
        yield Feature("chat: request", name, path, {**chat, name: value}, fine, _asks({name: value}))
    for index, message in enumerate(told.CONVERSATION[:4]):
        given = {"messages": [*told.HELLO, message]}
        names = ("developer, name", "picture", "broken arguments, reasoning_content", "tool result in parts")
        yield Feature("chat: request", names[index], path, given, fine, _asks(given))
    given = {"messages": told.CONVERSATION[4:]}
    yield Feature("chat: request", "two users in a row", path, given, fine, _asks(given))

    for name, reply in told.ANSWERS.items():
        same = {key: reply.body.get(key) for key in ("id", "choices", "usage", "service_tier")}
        yield Feature("chat: answer", name, path, {**chat, "tools": [told.TOOL]}, reply, _returns(same))
    stream = {**chat, "stream": True}
    for find, name, parts in (
        (lambda choice: choice["delta"].get("reasoning_content"), "reasoning_content", ["H", "m."]),
        (lambda choice: choice["delta"].get("content"), "content", ["Sun", "ny."]),
        (_arguments, "tool_calls in pieces", ['{"city": ', '"Rome"}']),
    ):
        yield Feature("chat: stream", name, path, stream, told.STREAM, _streams(find, parts))
    counted = {**stream, "stream_options": {"include_usage": True}}
    yield Feature("chat: stream", "usage", path, counted, told.STREAM, _tells({"usage": told.COUNTS}))
    yield Feature("chat: stream", "id", path, stream, told.STREAM, _has_one_id)
    for name, choice in (
        ("refusal", {"delta": {"refusal": "No."}, "finish_reason": None}),
        ("content_filter", {"delta": {}, "finish_reason": "content_filter"}),
        ("logprobs", {"delta": {"content": "a"}, "finish_reason": None, "logprobs": {"content": [told.LOGPROB]}}),
    ):
        ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"] or "stop"}
        reply = chunks(*({**told.HEAD, "choices": [each]} for each in ({"index": 0, **choice}, ended)))
        yield Feature("chat: stream", name, path, stream, reply, _has_choice(choice))
    cut = chunks({**told.HEAD, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}, done=False)
    yield Feature("chat: stream", "an end that is none is an error", path, stream, cut, _has_an_error)

    refusals: tuple[tuple[str, int, Body, Body], ...] = (
        ("429 with retry-after", 429, _error("slow", "requests", "rate_limit"), {"retry-after": "7"}),
        ("429 of a quota", 429, {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}, {}),
        ("401", 401, {"message": "wrong key", "type": "invalid_request_error", "code": "invalid_api_key"}, {}),
        ("400 too long", 400, _error("long", "invalid_request_error", "context_length_exceeded"), {}),
        ("404", 404, {"message": "no model", "type": "invalid_request_error", "code": "model_not_found"}, {}),
        ("422", 422, {"message": "wrong", "type": "invalid_request_error", "param": "n", "code": None}, {}),
        ("500", 500, {"message": "oh", "type": "server_error", "code": "oh"}, {}),
        ("503 with retry-after-ms", 503, _error("busy", "server_error", "busy"), {"retry-after-ms": "500"}),
    )
    refused = {name: Reply({"error": error}, status, headers) for name, status, error, headers in refusals}
    for name, reply in refused.items():
        yield Feature("chat: refusal", name, path, chat, reply, _refuses(reply))

    for group, table, wrong, base in (
        ("responses", told.RESPONSES, told.NO_RESPONSES, {"input": "hi"}),
        ("messages", told.MESSAGES, told.NO_MESSAGES, {"messages": told.HELLO, "max_tokens": 50}),
    ):
        for name, (given, wanted) in table.items():
            yield Feature(f"{group}: request", name, group, {**base, **given}, fine, _asks(wanted))
        for given, field in wrong:
            yield Feature(f"{group}: request", field, group, {**base, **given}, fine, _never)
        for name, reply in refused.items():
            if name.startswith(("429 with", "401", "400")):
                yield Feature(f"{group}: refusal", name, group, base, reply, _refuses(reply, exactly=False))
        for name, there in _parts(group).items():
            yield Feature(f"{group}: answer", name, group, base, told.RICH, there)
            yield Feature(f"{group}: stream", name, group, {**base, "stream": True}, told.STREAM, there)


def other_features() -> Iterator[Feature]:
    """Those of completions, embeddings and counts, and of a server that speaks responses and messages."""
    import features as told
    import native_features as other  # type: ignore[import-not-found]
    from chat_server import Reply

    fine, path = Reply(other.COMPLETION), "completions"
    prompt = {"prompt": "Once upon a time"}
    for name, value in other.COMPLETIONS.items():
        yield Feature("completions: request", name, path, {**prompt, name: value}, fine, _asks({name: value}))
    for name, value in other.PROMPTS.items():
        given = {"prompt": value}
        yield Feature("completions: request", f"prompt, {name}", path, given, fine, _asks(given))
    for name in ("id", "choices", "usage"):
        yield Feature("completions: answer", name, path, prompt, fine, _returns({name: other.COMPLETION[name]}))
    [choice] = other.COMPLETION["choices"]
    piece = {**choice, "text": " there", "finish_reason": None}
    stream = other.chunks({**other.COMPLETION, "choices": [piece], "usage": None}, other.COMPLETION)
    for name in ("text", "logprobs", "finish_reason"):
        holds = _streams(itemgetter(name), [piece[name], choice[name]])
        yield Feature("completions: stream", name, path, {**prompt, "stream": True}, stream, holds)
    slow = Reply({"error": _error("slow", "requests", "rate_limit")}, 429, {"retry-after": "7"})
    yield Feature("completions: refusal", "429 with retry-after", path, prompt, slow, _refuses(slow))

    fine, path = Reply(other.EMBEDDED), "embeddings"
    for name, value in other.EMBEDDINGS.items():
        field = {"input": value} if ("in" in name and name != "input_type") or name == "token ids" else {name: value}
        given = {"input": "tea", "encoding_format": "float", **field}
        yield Feature("embeddings: request", name, path, given, fine, _asks(given))
    for name in ("data", "usage"):
        given = {"input": "tea", "encoding_format": "float"}
        yield Feature("embeddings: answer", name, path, given, fine, _returns({name: other.EMBEDDED[name]}))
    yield Feature("embeddings: refusal", "429 with retry-after", path, {"input": "tea"}, slow, _refuses(slow))

    hello: Body = {"messages": told.HELLO, "max_tokens": 50}
    tables: tuple[tuple[str, Any, Any, Body, Body, Any], ...] = (
        ("responses", told.RESPONSES, told.NO_RESPONSES, {"input": "hi"}, other.RESPONSE, other.response_stream()),
        ("messages", told.MESSAGES, told.NO_MESSAGES, hello, other.MESSAGE, other.message_stream()),
    )
    for path, table, more, base, answer, streamed in tables:
        group, fine = f"native {path}", Reply(answer)
        asked = {name: given for name, (given, _) in table.items()} | {name: given for given, name in more}
        for name, given in asked.items():
            whole = {**base, **given}
            yield Feature(f"{group}: request", name, path, whole, fine, _asks(whole), native=True)
        for item in answer["output" if path == "responses" else "content"]:
            holds = _has_item(path, item)
            yield Feature(f"{group}: answer", item["type"], path, base, fine, holds, native=True)
        for name in ("id", "usage"):
            yield Feature(f"{group}: answer", name, path, base, fine, _returns({name: answer[name]}), native=True)
        given = {**base, "stream": True}
        events = [json.loads(line[6:]) for line in streamed.body.decode().splitlines() if line.startswith("data: {")]
        for event in {event["type"]: event for event in events}.values():
            yield Feature(f"{group}: stream", event["type"], path, given, streamed, _tells(event), native=True)
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}, "request_id": "r"}
        for status in (400, 401, 429, 529):
            reply = Reply(error, status, {"retry-after": "7"} if status > 401 else {})
            yield Feature(f"{group}: refusal", str(status), path, base, reply, _refuses(reply), native=True)
    base, path = {"messages": told.HELLO}, "messages/count_tokens"
    count = Reply({"input_tokens": 42})
    for name, given in {"messages": {}, "tools": told.MESSAGES["tools"][0], "system": {"system": "Be brief."}}.items():
        yield Feature("native count_tokens", name, path, {**base, **given}, count, _asks(given), native=True)
    yield Feature("native count_tokens", "input_tokens", path, base, count, _returns({"input_tokens": 42}), native=True)
    yield Feature("count_tokens", "without a counting server", path, base, count, _never)


def google_features() -> Iterator[Feature]:
    """Those of Google's generateContent, in front of a server of chat completions."""
    import features as told
    from chat_server import Reply, completion

    path, fine = "models/served:generateContent", completion("fine")
    base: Body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    config: Any = {"temperature": ("temperature", 0.5), "topP": ("top_p", 0.9), "maxOutputTokens": ("max_tokens", 50)}
    config |= {"stopSequences": ("stop", ["a"]), "seed": ("seed", 7), "presencePenalty": ("presence_penalty", 0.5)}

    def request(name: str, given: Body, holds: Holds) -> Feature:
        return Feature("google: request", name, path, {**base, **given}, fine, holds)

    for name, (field, value) in config.items():
        yield request(name, {"generationConfig": {name: value}}, _asks({field: value}))
    system = {"systemInstruction": {"parts": [{"text": "Be brief."}]}}
    brief = {"role": "system", "content": "Be brief."}
    yield request("systemInstruction", system, lambda asked, got: asked["messages"][0] == brief)
    declared = {"name": "weather", "description": "The weather", "parameters": {"type": "object", "properties": {}}}
    offers = {"tools": [{"functionDeclarations": [declared]}]}
    called = {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {"city": "Rome"}}}]}
    came_to = {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "sunny"}}}]}

    def tells_results(asked: Body, got: Got) -> bool:
        call, result = asked["messages"][-2]["tool_calls"][0], asked["messages"][-1]
        return result["tool_call_id"] == call["id"] and "sunny" in result["content"]

    yield request("functionResponse", {**offers, "contents": [*base["contents"], called, came_to]}, tells_results)
    offered = {"type": "function", "function": {"name": "weather"}}
    yield request("functionDeclarations", offers, lambda asked, got: _within([offered], asked["tools"]))

    def parts(got: Got) -> list[Body]:
        events = [got.body] if got.text.startswith("{") else got.events
        return [part for one in events for each in one["candidates"] for part in each["content"].get("parts", ())]

    def counts(got: Got) -> Body:
        found: Body = (got.body if got.text.startswith("{") else got.events[-1])["usageMetadata"]
        return found

    def text(got: Got, *, thought: bool) -> str:
        return "".join(part["text"] for part in parts(got) if "text" in part and bool(part.get("thought")) is thought)

    called_with = {"functionCall": {"args": {"city": "Rome"}}}
    there: dict[str, Holds] = {
        "text": lambda asked, got: text(got, thought=False) == "Sunny.",
        "thoughts": lambda asked, got: text(got, thought=True) == "Hm.",
        "call": lambda asked, got: any(_within(called_with, one) for one in parts(got)),
        "tokens": lambda asked, got: counts(got)["candidatesTokenCount"] > 0,
        "cached tokens": lambda asked, got: counts(got)["cachedContentTokenCount"] == 4,
    }
    streams = "models/served:streamGenerateContent?alt=sse"
    for name, holds in there.items():
        yield Feature("google: answer", name, path, {**base, **offers}, told.RICH, holds)
        yield Feature("google: stream", name, streams, {**base, **offers}, told.STREAM, holds)
    slow = Reply({"error": _error("slow", "requests", "rate_limit")}, 429, {"retry-after": "7"})
    yield Feature("google: refusal", "429 with retry-after", path, base, slow, _refuses(slow, exactly=False))


def _never(asked: Body, got: Got) -> bool:
    return False


def _has_an_error(asked: Body, got: Got) -> bool:
    return any("error" in event for event in got.events)


def _has_one_id(asked: Body, got: Got) -> bool:
    return {event["id"] for event in got.events} == {"chatcmpl-1"}


def _asks(wanted: Body) -> Holds:
    return lambda asked, got: all(asked.get(key) == value for key, value in wanted.items())


def _returns(wanted: Body) -> Holds:
    return lambda asked, got: got.status == 200 and _within(wanted, got.body)


def _streams(find: Callable[[Body], Any], wanted: list[Any]) -> Holds:
    """Whether what is found in the choices of a stream is this, in order."""
    there = [value for value in wanted if value]
    return lambda asked, got: (
        there == [value for event in got.events for choice in event["choices"] if (value := find(choice))]
    )


def _arguments(choice: Body) -> str:
    return "".join(call["function"]["arguments"] for call in choice["delta"].get("tool_calls") or ())


def _has_choice(wanted: Body) -> Holds:
    return lambda asked, got: any(_within(wanted, choice) for event in got.events for choice in event["choices"])


def _tells(wanted: Body) -> Holds:
    return lambda asked, got: any(_within(wanted, event) for event in got.events)


def _has_item(path: str, wanted: Body) -> Holds:
    where = "output" if path == "responses" else "content"
    return lambda asked, got: any(_within(wanted, item) for item in got.body[where])


def _refuses(reply: Any, *, exactly: bool = True) -> Holds:
    """Whether the client got this refusal, or with its own format one with the same message."""

    def refused(asked: Body, got: Got) -> bool:
        kept = all(got.headers.get(name) == value for name, value in reply.headers.items())
        error = reply.body["error"]
        same = _within(error, got.body["error"]) if exactly else error["message"] in got.text
        return got.status == reply.status and kept and same

    return refused


def _error(message: str, kind: str, code: str) -> Body:
    return {"message": message, "type": kind, "code": code, "param": "messages"}


def _parts(group: str) -> dict[str, Holds]:
    """What must be in an answer in other formats, whole or streamed."""

    def final(got: Got) -> Body:
        if not got.text.startswith(("event", "data", ":")):
            return got.body
        if group == "responses":
            whole: Body = next(event["response"] for event in got.events if event["type"] == "response.completed")
            return whole
        return _collected(got.events)

    def has(find: Callable[[Body], object], wanted: object) -> Holds:
        return lambda asked, got: find(final(got)) == wanted

    def items(kind: str, answer: Body) -> Body:
        listed = answer["output"] if group == "responses" else answer["content"]
        return next(item for item in listed if item["type"] == kind)

    def reasoned(answer: Body) -> str:
        item = items("reasoning", answer)
        return "".join(part["text"] for part in item.get("content") or item["summary"])

    if group == "responses":
        return {
            "thoughts": has(reasoned, "Hm."),
            "text": has(lambda a: items("message", a)["content"][0]["text"], "Sunny."),
            "call": has(lambda a: json.loads(items("function_call", a)["arguments"]), {"city": "Rome"}),
            "call id": has(lambda a: items("function_call", a)["call_id"], "call-weather"),
            "cached tokens": has(lambda a: a["usage"]["input_tokens_details"]["cached_tokens"], 4),
            "reasoning tokens": has(lambda a: a["usage"]["output_tokens_details"]["reasoning_tokens"], 2),
        }
    return {
        "thoughts": has(lambda a: items("thinking", a)["thinking"], "Hm."),
        "text": has(lambda a: items("text", a)["text"], "Sunny."),
        "call": has(lambda a: items("tool_use", a)["input"], {"city": "Rome"}),
        "call id": has(lambda a: items("tool_use", a)["id"], "call-weather"),
        "stop_reason": has(lambda a: a["stop_reason"], "tool_use"),
        "cached tokens": has(lambda a: a["usage"].get("cache_read_input_tokens"), 4),
        "tokens": has(lambda a: a["usage"]["output_tokens"], 5),
    }


def _collected(events: list[Body]) -> Body:
    """A message put together from its events, as the client does."""
    blocks: list[Body] = []
    message: Body = {"usage": {}}
    for event in events:
        if event["type"] == "message_start":
            message["usage"] |= event["message"]["usage"]
        elif event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            for key, name in (("text", "text"), ("thinking", "thinking"), ("partial_json", "json")):
                block[name] = block.get(name, "") + delta.get(key, "")
        elif event["type"] == "message_delta":
            message |= event["delta"]
            message["usage"] = {**message["usage"], **event["usage"]}
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["json"] or "{}")
    return {**message, "content": blocks}


def _within(wanted: Any, found: Any) -> bool:
    """Whether all of a value is in another, which may have more keys."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_within(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(_within, wanted, found))
    return bool(wanted == found)


# -- what is tried -----------------------------------------------------------------------------------------------------


def tried(feature: Feature, ask: Ask, server: Any, script: list[Any]) -> str:
    # Google's streams always end with counts, so they are asked for.
    counted = COUNTED if feature.path.startswith("models/") else feature.given.get("stream_options")
    script[:] = [feature.reply, counted]
    before = len(server.bodies)
    got = ask(feature.path, {"model": MODELS.get((feature.path, feature.native), "served"), **feature.given})
    asked = server.bodies[before:]
    named = feature.name.split("[")[0].split(".")[-1] if feature.path != COUNT else "count_tokens"
    try:
        if feature.holds(asked[-1] if asked else {}, got):
            return "passes"
    except (KeyError, IndexError, StopIteration, ValueError, TypeError, AttributeError):
        pass
    words = {named, *(key for key in feature.given if key not in ("messages", "model", "input"))}
    if got.status == 400 and not asked and any(word.split(" ")[0] in got.text for word in words):
        return "refused by name"
    return "lost"


def asking(url: str) -> Ask:
    """Asks with the official clients."""
    import anthropic
    import openai

    plain = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")  # what they stand on
    by_openai = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-none", max_retries=0)
    by_anthropic = anthropic.Anthropic(base_url=url, api_key="sk-none", max_retries=0)

    def ask(path: str, body: Body) -> Got:
        if path.startswith("models/"):
            told = httpx.post(f"{url}/v1beta/{path}", json=body, headers={"x-goog-api-key": "none"}, timeout=60)
            return Got(told.status_code, told.headers, told.text)
        client: Any = by_anthropic if path.startswith("messages") else by_openai
        try:
            address = f"/v1/{path}" if path.startswith("messages") else f"/{path}"
            answer = client.post(address, body=body, cast_to=plain.Response)
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            answer = error.response
        except (openai.APIConnectionError, anthropic.APIConnectionError) as error:
            return Got(0, {}, str(error))
        return Got(answer.status_code, answer.headers, answer.read().decode())

    return ask


@contextmanager
def through_agentfw(upstream: str, folder: Path, *more: str) -> Iterator[Ask]:
    options = ("--policy", "openai", "--memory", "none", "--set", f"policy.base_url={upstream}", *more)
    with serving(folder, *options) as (url, _):
        yield asking(url)


def measure(litellm: str, every: int) -> dict[str, Any]:
    import chat_server

    script: list[Any] = []

    def answer(body: Body) -> Any:
        # It takes no question that the client didn't ask.
        reply, counted = script
        own = body.get("stream_options") == COUNTED != counted
        return chat_server.refusal(400, "stream_options is not known") if own else reply

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address, server = stack.enter_context(chat_server.serving(answer))
        native_at, native = stack.enter_context(chat_server.serving(answer, apis=("responses", "messages")))
        here = [
            stack.enter_context(through_agentfw(at, folder / str(number)))
            for number, at in enumerate((address, native_at))
        ]
        alone = ("--set", "policy.apis=[]")  # a server that speaks chat completions and nothing else
        here.append(stack.enter_context(through_agentfw(address, folder / "translating", *alone)))
        ways = {"agentfw": here}
        if litellm:
            url = stack.enter_context(litellm_proxy(litellm, address, native_at, folder))
            ways["LiteLLM"] = [asking(url)] * 3
        rows = []
        for one in [*features(), *other_features(), *google_features()][::every]:
            behind = native if one.native else server
            place = 2 if one.path.startswith("models/") else int(one.native)
            found = {way: tried(one, asks[place], behind, script) for way, asks in ways.items()}
            rows.append({"format": one.group, "feature": one.name, **found})
    return {"features": len(rows), **{way: dict(Counter(row[way] for row in rows)) for way in ways}, "rows": rows}


def show(result: dict[str, Any]) -> None:
    ways = list(result["rows"][0])[2:]
    table: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for row in result["rows"]:
        found = table.setdefault(row["format"], {})
        found.setdefault(tuple(row[way] for way in ways), []).append(f"`{row['feature']}`")
    columns = list(dict.fromkeys(verdicts for found in table.values() for verdicts in found))
    print_markdown(
        ["format", *(", ".join(f"{way}: {what}" for way, what in zip(ways, one, strict=True)) for one in columns)],
        [[group, *(", ".join(found.get(one, [])) for one in columns)] for group, found in table.items()],
    )
    print({key: value for key, value in result.items() if key != "rows"})


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        litellm=("", "the command litellm of an environment that has litellm[proxy]"),
        every=(1, "try only every so many features"),
    ).parse_args(arguments)
    return tell(measure(options.litellm, options.every), options.json, show)


if __name__ == "__main__":
    main()
