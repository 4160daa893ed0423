"""The interface of the protocols that are spoken over HTTP, by the gateway to programs and by policies to servers.

Between protocols, everything is in the format of chat completions: requests, answers and the chunks of streams. A
protocol reads its own format into that, and writes its own format from that. So a program of one protocol can be
answered by a server of another, and the framework's own values are made from one format only (`chat.py`). What has no
counterpart in chat completions is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from agentfw.request import Sampling

from .bodies import BadRequest, Body

Json = dict[str, Any]
BETWEEN_PARTS = "\n\n"
"""What stands between the parts of a user's message where it has to be one text."""


class Malformed(Exception):
    """An unusable answer of a server, with the reason. `told` is the server's own error, if it sent one."""

    def __init__(self, message: str, told: object = None) -> None:
        super().__init__(message)
        self.told = told


class About(NamedTuple):
    """What an answer says of itself besides its content."""

    id: str
    created: int
    model: str


class StreamReader:
    """Reads the server-sent events of one answer as chunks of a chat completion."""

    ended = False
    """Whether the answer has come to its end."""

    def take(self, line: bytes) -> Iterator[Json]:
        """The chunks of the next line. Raises Malformed if it can't be read, or if the server broke off."""
        if not line.startswith(b"data:") or not (data := line[5:].strip()):
            return  # comments, names of events and empty lines
        if data == b"[DONE]":
            self.ended = True
            return
        found = parsed(data)
        if not isinstance(found, dict):
            raise Malformed("an event of the stream is not a JSON object")
        if found.get("error") or found.get("type") == "error":
            told = found.get("error") or found
            raise Malformed(f"the server broke off: {str(table(told).get('message') or told)[:300]}", told)
        yield from self.read(found)

    def read(self, found: Json) -> Iterator[Json]:
        """The chunks of one event."""
        raise NotImplementedError


class StreamWriter:
    """Writes one streamed answer."""

    def __init__(self, body: Body) -> None:
        self.body = body
        """The request."""

    def take(self, chunk: Json) -> Iterator[bytes]:
        """The events of the next chunk of a chat completion."""
        raise NotImplementedError

    def end(self) -> Iterator[bytes]:
        """The events of the end."""
        raise NotImplementedError


class Protocol:
    """One protocol. What is said here holds for most of them."""

    name = ""
    """What settings, policies and figures call it."""
    title = ""
    """What errors name: the protocol and the distribution that brought it. Empty for those that are known here."""
    versions: Sequence[str] = ("v1",)
    """How the paths may begin at the gateway. The base URL of a server ends in one of them."""
    path = ""
    """Where requests go. `{model}` in it stands for the model's name, which is otherwise the field `model`."""
    stream_path = ""
    """Where requests for a stream go, with the query that they need. Empty: the body says that it shall be one."""
    count_path = ""
    """Where the tokens of a request are counted. Empty: nowhere."""
    converses = True
    """Whether its requests are conversations, or at least a text to go on with."""
    plain = False
    """Whether it goes on with a text, without a chat template. No memory takes part."""
    is_of_openai = False
    """Whether every server that calls itself compatible with OpenAI speaks it. The others are asked for theirs."""
    gives_tokens = False
    """Whether answers can have the exact tokens, which training needs."""
    key_header = "x-api-key"
    """Where its clients put the key, if not into `authorization`."""
    fields: Mapping[str, str] = {}
    """Its names of fields, by those of chat completions, where they differ."""
    required: Mapping[str, Any] = {}
    """Fields that a request must have, with values for one of which only tokens are counted."""
    limits: Sequence[str] = ("max_tokens",)
    """The fields for the maximum number of tokens. The last is the one to be set if a request has none."""
    has_seed = False
    conversation, text_part = "messages", "text"
    """The field with the conversation, and what a part of a user's message is called that is text."""
    headers: Mapping[str, str] = {}
    """Headers that its servers require of our own requests."""
    reader: type[StreamReader] = StreamReader
    writer: type[StreamWriter] = StreamWriter

    def routes(self, path: str) -> list[str]:
        """Where the gateway answers at one of the paths."""
        below = path.partition("?")[0].replace("{model}", "{model:path}")
        return [f"/{version}/{below}" for version in self.versions]

    def address(self, path: str, model: str) -> str:
        """Where a server is asked at one of the paths. Raises BadRequest for a model that leads to another address."""
        if "{model}" in path and any(part in ("", ".", "..") for part in model.split("/")):
            raise BadRequest(f'there is no model "{model[:200]}"', 404, code="model_not_found", field="model")
        return f"/{path.replace('{model}', quote(model))}"

    # -- requests ------------------------------------------------------------------------------------------------------

    def addressed(self, body: Body, address: Mapping[str, str], *, streams: bool) -> Body:
        """The body with what its address says: the model or, at `stream_path`, that the answer shall be a stream."""
        return body

    def read_request(self, body: Body) -> Body:
        """The request as one for a chat completion. Of a lenient body, which is for the record, nothing is refused."""
        raise NotImplementedError

    def write_request(self, chat: Body) -> Json:
        """The body of a request, from that of one for a chat completion. What it can't say is refused by name."""
        raise NotImplementedError

    def refuse_foreign(self, body: Body) -> None:
        """Refuse what names something that the server keeps: it would be anybody's who has a key of the gateway."""

    def with_recalled(self, body: Json, recalled: str) -> Json:
        """The body, with what was recalled in the system message, and nothing else changed."""
        return body

    def with_recalled_again(self, body: Json, number: int, recalled: str) -> Json:
        """The body, with what was recalled behind the user's message of this number, and nothing else changed."""
        given = body.get(self.conversation)
        if isinstance(given, str):
            return {**body, self.conversation: with_text(given, recalled)}
        places = [place for place, one in enumerate(given or ()) if _is_said(one)]
        if not isinstance(given, list) or number >= len(places):
            return body
        place = places[number]
        name, part = ("parts", {}) if "parts" in given[place] else ("content", {"type": self.text_part})
        content = given[place].get(name)
        more = [*content, {**part, "text": recalled}] if isinstance(content, list) else with_text(content, recalled)
        return {**body, self.conversation: [*given[:place], {**given[place], name: more}, *given[place + 1 :]]}

    def with_sampling(self, body: Json, run: Sampling, *, run_wins: bool) -> Json:
        """The body with the sampling of a run, which holds where the body leaves a choice open, or if the run wins."""
        names = {"temperature": "temperature", "top_p": "top_p", **({"seed": "seed"} if self.has_seed else {})}
        names["max_tokens"] = next((name for name in self.limits if body.get(name) is not None), self.limits[-1])
        return sampled(body, run, names, run_wins=run_wins)

    # -- answers -------------------------------------------------------------------------------------------------------

    def read_answer(self, whole: Any) -> Json:
        """A server's answer as a chat completion. Raises Malformed if it is none."""
        raise NotImplementedError

    def write_answer(self, reply: Json, body: Body) -> Json:
        """The answer to a request, from a chat completion."""
        raise NotImplementedError

    def write_count(self, count: int) -> Json:
        """The answer of `count_path`."""
        raise NotImplementedError

    def error(self, problem: BadRequest) -> Json:
        """The body of an answer to a request that failed."""
        kind = problem.kind or ("invalid_request_error" if problem.status < 500 else "server_error")
        told = {"message": problem.message, "type": kind, "param": problem.field or None, "code": problem.code or None}
        return {"error": told}

    def error_event(self, problem: BadRequest) -> bytes:
        """The event that ends a stream which failed."""
        return event(self.error(problem))

    def models_in(self, reply: Any) -> list[str]:
        """The names in a server's list of models. Raises Malformed if it is none."""
        if not isinstance(table(reply).get("data"), list):
            raise Malformed("the answer is not a list of models")
        return [str(entry["id"]) for entry in objects(reply["data"]) if entry.get("id")]


# -- parts -------------------------------------------------------------------------------------------------------------


def event(data: Mapping[str, Any], name: str = "") -> bytes:
    words = json.dumps(data, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {words}\n\n".encode()


def problem_of(error: object, status: int = 502, headers: Mapping[str, str] | None = None) -> BadRequest:
    """The problem that an error in the format of chat completions tells of."""
    given = error if isinstance(error, Mapping) else {"message": error}
    message, code, field, kind = (str(given.get(name) or "") for name in ("message", "code", "param", "type"))
    message = message or "the model's server refused the request"
    return BadRequest(message, status, code=code, field=field, kind=kind, headers=headers)


def sampled(body: Json, run: Sampling, names: Mapping[str, str], *, run_wins: bool) -> Json:
    """The body with the sampling of a run under these names. The maximum number of tokens is the smaller of both.

    A seed is sent only if the run wins, so that the same question again has another answer.
    """
    found = dict(body)
    for own, name in names.items():
        value, asked = getattr(run, own), body.get(name)
        if value is None or (own == "seed" and not run_wins):
            continue
        if own == "max_tokens":
            found[name] = min(asked, value) if isinstance(asked, int) else value
        elif run_wins or asked is None:
            found[name] = value
    return found


def rest_of(body: Body, known: Mapping[str, str]) -> Json:
    """The fields that aren't known, as they are, and those that are, under their name in chat completions.

    Fields whose name there is empty are left out.
    """
    return {name: value for key, value in body.values.items() if value is not None and (name := known.get(key, key))}


def _is_said(message: object) -> bool:
    """Whether a message of a body is one of the user's, and not results of tools alone."""
    found = table(message)
    parts = objects(found.get("content")) or objects(found.get("parts"))
    results = [part for part in parts if part.get("type") == "tool_result" or "functionResponse" in part]
    return found.get("role") == "user" and not (parts and len(results) == len(parts))


def text_alone(parts: Sequence[Mapping[str, Any]], between: str = "") -> Any:
    """A message's content: text alone as text, as most servers want it."""
    if all(set(part) == {"type", "text"} and part["type"] == "text" for part in parts):
        return between.join(part["text"] for part in parts)
    return list(parts)


def content_of(role: str, parts: Sequence[Mapping[str, Any]]) -> Any:
    """A message's content. The parts of a user's stay apart: a program puts others' words beside theirs."""
    return list(parts) if role == "user" and len(parts) > 1 else text_alone(parts)


def with_text(content: object, recalled: str) -> object:
    """The text or the parts of a system message, with what was recalled."""
    if isinstance(content, list):
        return [*content, {"type": "text", "text": recalled}]
    return f"{content}\n\n{recalled}" if content else recalled


def choice_of(reply: Mapping[str, Any]) -> Json:
    """The first choice of an answer, or of a chunk. Empty if there is none."""
    choices = reply.get("choices")
    return table(choices[0]) if isinstance(choices, list) and choices else {}


def message_of(reply: Mapping[str, Any]) -> Json:
    return table(choice_of(reply).get("message"))


def as_chunk(reply: Json) -> Json:
    """A whole answer as the only chunk of a stream."""
    return {**reply, "choices": [{**choice_of(reply), "delta": message_of(reply)}]}


def chunk_of(delta: Json, finish: str | None = None, **more: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


def turns_of(
    chat: Body, assistant: str, field: str, written: Callable[[Body], list[Json]]
) -> tuple[list[str], list[Json]]:
    """The system messages of a chat completion, and the turns: neighbours of one role are one message."""
    system, turns = list[str](), list[Json]()
    for message in chat.listed("messages"):
        if message.text("role") in ("system", "developer"):
            system.append(message.texts("content", ("text",)))
            continue
        role = assistant if message.text("role") == "assistant" else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, field: []})
        turns[-1][field] += written(message)
    return system, turns


def functions_of(chat: Body) -> list[Json]:
    return [dict(tool.inner("function").values) for tool in chat.listed("tools")]


def chosen_in(chat: Body) -> tuple[str, str]:
    """The `tool_choice` of a chat completion as its mode, and the name of the function that must be called."""
    choice = chat.values.get("tool_choice")
    if isinstance(choice, str):
        return choice, ""
    return "required", text(table(table(choice).get("function")).get("name"))


def call_of(identity: object, name: object, arguments: object) -> Json:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def arguments_of(written: object) -> Json:
    """The arguments of a call. Those that are no JSON object are there as they came."""
    found = parsed(written or "{}") if isinstance(written, str) else written
    return found if isinstance(found, dict) else {"arguments": written}


class Counts(NamedTuple):
    """How many tokens an answer took. What a server doesn't say is 0."""

    prompt: int
    cached: int
    sampled: int
    reasoning: int

    @property
    def total(self) -> int:
        return self.prompt + self.sampled


def counts_in(reply: Mapping[str, Any]) -> Counts:
    usage = table(reply.get("usage"))
    cached = table(usage.get("prompt_tokens_details")).get("cached_tokens")
    reasoning = table(usage.get("completion_tokens_details")).get("reasoning_tokens")
    found = (usage.get("prompt_tokens"), cached, usage.get("completion_tokens"), reasoning)
    return Counts(*(max(0, number(one)) for one in found))


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The thoughts in a message or delta, under either of the names that servers give them."""
    return text(message.get("reasoning_content") or message.get("reasoning"))


def call_deltas(chunk: Mapping[str, Any]) -> Iterator[tuple[int, str, str, str]]:
    """The parts of calls in a chunk: the call's index, its id, its name, and more of its arguments."""
    for place, part in enumerate(objects(table(choice_of(chunk).get("delta")).get("tool_calls"))):
        function, index = table(part.get("function")), part.get("index")
        more = function.get("arguments") or ""
        more = more if isinstance(more, str) else json.dumps(more, ensure_ascii=False)  # some servers send the object
        words = (str(part.get("id") or ""), str(function.get("name") or ""))
        yield (index if isinstance(index, int) else place, *words, more)


def parsed(content: str | bytes) -> Any:
    """The value of a JSON text. None if it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def table(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
