"""The interface of the protocols that are spoken over HTTP, by the gateway to programs and by policies to servers.

Between protocols, everything is in the format of chat completions: requests, answers and the chunks of streams. A
protocol reads its own format into that, and writes its own format from that. So a program of one protocol can be
answered by a server of another, and the framework's own values are made from one format only (`chat.py`). What has no
counterpart in chat completions is refused by name.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

from agentfw.episode import Call
from agentfw.request import Action, Sampling

from .completion import Json, as_chunk, event, objects, parsed, sampled, table, text, with_text

BETWEEN_PARTS = "\n\n"
"""What stands between the parts of a user's message where it has to be one text."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_NAME = 200


class BadRequest(Exception):
    """A request that can't be served, with the status code of the answer."""

    def __init__(
        self,
        message: str,
        status: int = 400,
        *,
        code: str = "",
        field: str = "",
        kind: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.field, self.kind = message, status, code, field, kind
        self.headers = dict(headers or {})
        self.passed = b""
        """The body of an upstream's refusal, as it came."""


class Body:
    """A JSON object of a request. Methods raise BadRequest if a value is not what it must be.

    A request that is passed on is read for the record only, and its server says what is wrong with it. Such a body is
    lenient: what can't be read is missing, and a picture, say, is there by its kind and a digest.
    """

    def __init__(self, values: Mapping[str, Any], where: str = "", raw: bytes = b"", *, lenient: bool = False) -> None:
        self.values, self.where, self.raw, self.lenient = values, where, raw, lenient

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def wrong(self, key: str, words: str) -> BadRequest:
        field = f"{self.where}{key}"
        return BadRequest(f"{field} {words}", field=field)

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            if self.lenient:
                return default or ""
            raise self.wrong(key, "is required" if value is None else "must be text")
        return value

    def name(self, key: str, default: str | None = None) -> str:
        value = self.text(key, default)
        if (len(value) > _LONGEST_NAME or not value.isprintable()) and not self.lenient:
            raise self.wrong(key, f"must be at most {_LONGEST_NAME} printable characters")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool) and not self.lenient:
            raise self.wrong(key, "must be true or false")
        return value is True

    def number(self, key: str, low: float, high: float) -> float | None:
        if (value := self.values.get(key)) is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (self.lenient or low <= value <= high):
            return float(value)
        if self.lenient:
            return None
        raise self.wrong(key, f"must be a number from {low:g} to {high:g}")

    def either(self, first: str, second: str) -> str:
        """A text that may have either of two names. Empty if it isn't there."""
        texts = {self.text(first, ""), self.text(second, "")} - {""}
        if len(texts) > 1:
            raise self.wrong(first, f"and {second} say different things")
        return next(iter(texts), "")

    def whole(self, key: str, low: int, high: int = 2**63 - 1) -> int | None:
        if (value := self.values.get(key)) is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(key, f"must be a whole number from {low} to {high}")
        return value

    def inner(self, key: str) -> Body:
        value = self.values.get(key)
        if not isinstance(value, dict):
            if not self.lenient:
                raise self.wrong(key, "must be an object")
            value = {}
        return Body(value, f"{self.where}{key}.", lenient=self.lenient)

    def listed(self, key: str) -> list[Body]:
        value = self.values.get(key)
        items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        if value is not None and items != value and not self.lenient:
            raise self.wrong(key, "must be a list of objects")
        return [Body(item, f"{self.where}{key}[{at}].", lenient=self.lenient) for at, item in enumerate(items)]

    def texts(self, key: str, parts: tuple[str, ...], between: str = "") -> str:
        """Text, or a list of parts that have text. Parts of other types are refused."""
        value, found = self.values.get(key), list[str]()
        if isinstance(value, str):
            return value
        for part in self.listed(key):
            if part.values.get("type", "text") not in parts:
                words = f"must be {' or '.join(parts)}: this server reads text only"
                found.append(part.left_out(part.wrong("type", words)))
            else:
                found.append(part.text("refusal") if "refusal" in part else part.text("text"))
        return between.join(found)

    def parts(self, key: str) -> list[Body]:
        """The parts of a content. A text is one of them, and the refusal that an answer has in its place."""
        value = self.values.get(key)
        if value is None and "refusal" in self:
            return [Body({"type": "refusal", "refusal": self.text("refusal")}, self.where, lenient=self.lenient)]
        if isinstance(value, str):
            return [Body({"type": "text", "text": value}, f"{self.where}{key}.", lenient=self.lenient)] if value else []
        return self.listed(key)

    def strings(self, key: str, most: int) -> tuple[str, ...]:
        value = self.values.get(key)
        items = [value] if isinstance(value, str) else value or []
        if not isinstance(items, list) or len(items) > most or not all(isinstance(item, str) for item in items):
            raise self.wrong(key, f"must be text or a list of at most {most} texts")
        return tuple(items)

    def sampling(self, *limits: str) -> Sampling:
        """The sampling. `limits` are the keys that the maximum number of tokens may have."""
        found = [limit for key in limits if (limit := self.whole(key, 1)) is not None]
        seed, top_p = self.whole("seed", -(2**63)), self.number("top_p", 0, 1)
        if top_p == 0:
            raise self.wrong("top_p", "must be more than 0")
        seed = None if seed is None else abs(seed)
        return Sampling(self.number("temperature", 0, 2), top_p, min(found, default=None), seed)

    def chosen(self) -> tuple[str, str]:
        """The `tool_choice` of a chat completion as its mode, and the name of the function that must be called."""
        choice = self.values.get("tool_choice")
        if isinstance(choice, str):
            return choice, ""
        return "required", text(table(table(choice).get("function")).get("name"))

    def refuse(self, neutral: Mapping[str, tuple[Any, ...]]) -> None:
        """Refuse what can't be done, by name. The values are those that change nothing, besides null."""
        for key, values in neutral.items():
            if key in self and self.values[key] not in values and not self.lenient:
                raise self.unsupported(key)

    def refuse_others(self, known: Collection[str]) -> None:
        for key in self.values:
            if key in self and key not in known and not self.lenient:
                raise self.unsupported(key)

    def renamed(self, known: Mapping[str, str]) -> Json:
        """The fields that aren't known, as they are, and those that are under their new name, if it isn't empty."""
        given = ((known.get(key, key), value) for key, value in self.values.items() if value is not None)
        return {name: value for name, value in given if name}

    def unsupported(self, key: str, words: str = "is not supported") -> BadRequest:
        field = f"{self.where}{key}"
        return BadRequest(f"{field[:200]} {words}", code="unsupported_parameter", field=field[:200])

    def left_out(self, problem: BadRequest) -> str:
        """What the record has in place of this object. Raises the problem unless the body is lenient."""
        if not self.lenient:
            raise problem
        kind = self.values.get("type")
        digest = blake2b(json.dumps(self.values, sort_keys=True).encode(), digest_size=6).hexdigest()
        return f"[{kind if isinstance(kind, str) and kind else 'part'} {digest}]"

    def action(self, name: str = "name", schema: str = "parameters") -> Action:
        called, parameters = self.name(name), self.inner(schema).values if schema in self else {}
        if not called.strip() and not self.lenient:
            raise self.wrong(name, "must not be empty")
        return Action(called, self.text("description", ""), parameters or {"type": "object", "properties": {}})

    def call(self, identity: str, name: str = "name", arguments: str = "arguments") -> Call:
        """A call of an earlier answer. Its arguments are an object, or the JSON of one."""
        given = self.values.get(arguments)
        if isinstance(given, str):
            try:
                given = json.loads(given or "{}", parse_constant=_no_constant)
            except (ValueError, RecursionError):
                given = None
        if not isinstance(given, dict):
            raise self.wrong(arguments, "must be a JSON object")
        return Call(self.name(name), _clean(given), identity)


def read_body(raw: bytes) -> Body:
    try:
        values = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadRequest("the body must be JSON in UTF-8") from None
    if not isinstance(values, dict):
        raise BadRequest("the body must be a JSON object")
    # Escapes can spell lone surrogates, which no file and no tokenizer accepts, and numbers that are too large.
    return Body(_clean(values), raw=raw)


def _clean(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, (int, float)) and abs(value) > sys.float_info.max:
        raise BadRequest("the body has a number that is too large")
    if isinstance(value, (dict, list)):
        if depth > 100:
            raise BadRequest("the body is nested too deep")
        if isinstance(value, list):
            return [_clean(item, depth + 1) for item in value]
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


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
    def __init__(self, body: Body) -> None:
        self.body = body
        """The request."""
        self.whole: Json = {}
        """The whole answer, after its end, for a protocol that leaves `write_answer` as it is."""

    def take(self, chunk: Json) -> Iterator[bytes]:
        """The events of the next chunk of a chat completion."""
        raise NotImplementedError

    def end(self) -> Iterator[bytes]:
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
        """The answer to a request, from a chat completion. It is what the events of a stream come to."""
        writer = self.writer(body)
        for _ in (*writer.take(as_chunk(reply)), *writer.end()):
            pass
        return writer.whole

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


# -- what protocols share ----------------------------------------------------------------------------------------------


def _is_said(message: object) -> bool:
    """Whether a message of a body is one of the user's, and not results of tools alone."""
    found = table(message)
    parts = objects(found.get("content")) or objects(found.get("parts"))
    results = [part for part in parts if part.get("type") == "tool_result" or "functionResponse" in part]
    return found.get("role") == "user" and not (parts and len(results) == len(parts))


def problem_of(error: object, status: int = 502, headers: Mapping[str, str] | None = None) -> BadRequest:
    """The problem that an error in the format of chat completions tells of."""
    given = error if isinstance(error, Mapping) else {"message": error}
    message, code, field, kind = (str(given.get(name) or "") for name in ("message", "code", "param", "type"))
    message = message or "the model's server refused the request"
    return BadRequest(message, status, code=code, field=field, kind=kind, headers=headers)


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
