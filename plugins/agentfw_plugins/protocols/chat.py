"""OpenAI's chat completions, the format that all protocols are read into and written from, and its simpler protocols.

Here, too, is how the framework's own values are made from that format, and answers from them. What a policy that
samples by itself can't do is refused by name. Its answers can have what training needs: with `return_token_ids`, as in
vLLM, they have the token ids of prompt and answer, and with `logprobs` the logprob of each token. So the gateway itself
is a server for the policy `openai`. Completions go on with a text without a chat template. Embeddings are passed on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentfw import Message, Request
from agentfw.episode import Call
from agentfw.request import Action, Sampling

from ..models.conversation import conversation, function
from . import completion
from .completion import Json, event, number, objects, table, text
from .protocol import BETWEEN_PARTS, About, BadRequest, Body, Malformed, Protocol, StreamReader, StreamWriter

if TYPE_CHECKING:
    from agentfw.turns.session import Reply

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_EARLIER_ROLES = {"function": "tool"}
_FINISH = {"stop": "stop", "length": "length", "calls": "tool_calls"}
_MOST_ANSWERS = 16
_DONE = {
    *("model", "messages", "tools", "tool_choice", "stream", "stream_options", "stop", "temperature", "top_p", "seed"),
    *("max_tokens", "max_completion_tokens", "n", "logprobs", "return_token_ids", "user", "safety_identifier"),
    "response_format",
}
_HINTS = {"metadata", "store", "prompt_cache_key", "prompt_cache_retention", "prediction"}
"""Fields that don't change what is answered."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("frequency_penalty", "presence_penalty", "top_logprobs", "min_p"), (0,)),
    **dict.fromkeys(("repetition_penalty", "best_of"), (1,)),
    "logit_bias": ({},),
    "top_k": (0, -1),
    "parallel_tool_calls": (True,),
    "service_tier": ("auto", "default"),
    "modalities": (["text"],),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "functions": ([],),
}
"""Values that change nothing, of fields whose other values can't be done."""
_NEUTRAL_TO_A_TEXT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("logprobs", "messages"), ()),
    "suffix": ("",),
    "echo": (False,),
    "best_of": (1,),
    "tools": ([],),
    "response_format": ({"type": "text"},),
}
"""Values that change nothing, of fields that a policy in this process can't do here."""
_MOST_TOKENS = 16  # of a text that goes on, as in OpenAI's API


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a request asks for, whatever its protocol."""

    model: str
    messages: tuple[Message, ...]
    parts: tuple[tuple[str, ...], ...] = ()
    """The texts that each message of the user was made of, and nothing for other messages."""
    actions: tuple[Action, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    stream: bool = False
    user: str = ""
    answers: int = 1
    """How many answers it wants."""
    schema: Mapping[str, Any] | None = None
    """A JSON schema that the answer must follow."""
    plain: bool = False
    """Whether the answer goes on with the text of the only message."""
    must_call: bool = False
    """Whether the answer must have a call."""
    with_usage: bool = True
    """Whether the end of a stream has the token counts."""
    with_tokens: bool = False
    """Whether the answer has the token ids."""
    with_logprobs: bool = False
    """Whether the answer has the logprob of each token."""

    def each(self) -> list[ChatRequest]:
        """Return one request per answer, each with its own seed: with the same seed, all answers would be equal."""
        seed = self.sampling.seed
        seeds = [None if seed is None else seed + number for number in range(self.answers)]
        return [replace(self, sampling=replace(self.sampling, seed=each)) for each in seeds]


class _ChunkReader(StreamReader):
    def __init__(self) -> None:
        self._seen, self._finished = set[int](), set[int]()  # choices
        self._calls = dict[tuple[int, int], tuple[int, str]]()  # the number and the id of the last call of each index
        self._count = Counter[int]()  # of calls, by choice

    def read(self, found: Json) -> Iterator[Json]:
        for choice in objects(found.get("choices")):
            index = number(choice.get("index"))
            self._seen.add(index)
            if choice.get("finish_reason"):
                self._finished.add(index)
            for part in objects(table(choice.get("delta")).get("tool_calls")):
                if isinstance(part.get("index"), int):
                    part["index"] = self._number(index, part)
        self.ended = bool(self._seen) and self._seen <= self._finished
        yield found

    def _number(self, choice: int, part: Json) -> int:
        """The number of the call that a part belongs to: some servers give one index to all calls of an answer."""
        place, identity = (choice, part["index"]), text(part.get("id"))
        known, before = self._calls.get(place, (-1, ""))
        # Some have a new id in each part of a call, but its name in the first one only.
        if known < 0 or (identity not in ("", before) and table(part.get("function")).get("name")):
            self._calls[place] = self._count[choice], identity
            self._count[choice] += 1
        return self._calls[place][0]


class _ChunkWriter(StreamWriter):
    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._begun = False

    def take(self, chunk: Json) -> Iterator[bytes]:
        choice = completion.choice_of(chunk)
        if choice and not self._begun:  # clients take the role from the first delta, and other protocols tell none
            self._begun = True
            delta = {"role": "assistant", **table(choice.get("delta"))}
            chunk = {**chunk, "choices": [{**choice, "delta": delta}]}
        yield event(chunk)

    def end(self) -> Iterator[bytes]:
        yield b"data: [DONE]\n\n"


class ChatCompletions(Protocol):
    name, path = "chat", "chat/completions"
    reader: type[StreamReader] = _ChunkReader
    writer: type[StreamWriter] = _ChunkWriter
    is_of_openai = gives_tokens = has_seed = True
    limits = ("max_completion_tokens", "max_tokens")

    def read_request(self, body: Body) -> Body:
        return body

    def write_request(self, chat: Body) -> Json:
        messages = [dict(message.values) for message in chat.listed("messages")]
        for message in messages:  # most servers want text alone as text
            if isinstance(message.get("content"), list):
                message["content"] = completion.text_alone(message["content"], BETWEEN_PARTS)
        return {**chat.values, "messages": messages}

    def with_recalled(self, body: Json, recalled: str) -> Json:
        messages = body.get("messages")
        if not isinstance(messages, list):
            return body
        first = table(messages[0]) if messages else {}
        if first.get("role") not in ("system", "developer"):
            return {**body, "messages": [{"role": "system", "content": recalled}, *messages]}
        told = {**first, "content": completion.with_text(first.get("content"), recalled)}
        return {**body, "messages": [told, *messages[1:]]}

    def read_answer(self, whole: Any) -> Json:
        if not isinstance(whole, dict):
            raise Malformed("the answer is not a JSON object")
        return whole

    def write_answer(self, reply: Json, body: Body) -> Json:
        return reply


# -- completions -------------------------------------------------------------------------------------------------------


class _ContinuationReader(_ChunkReader):
    def read(self, found: Json) -> Iterator[Json]:
        choices = [_as_chat(choice, "delta") for choice in objects(found.get("choices"))]
        yield from super().read({**found, "choices": choices})


class _ContinuationWriter(_ChunkWriter):
    def take(self, chunk: Json) -> Iterator[bytes]:
        choice = completion.choice_of(chunk)
        if choice or chunk.get("usage"):
            yield event(_completion(chunk, [_from_chat(choice, "delta")] if choice else []))


class Completions(ChatCompletions):
    name, path = "completions", "completions"
    reader, writer = _ContinuationReader, _ContinuationWriter
    plain, gives_tokens = True, False
    fields: Mapping[str, str] = {"messages": "prompt"}

    def read_request(self, body: Body) -> Body:
        given = body.values.get("prompt")
        prompt = given[0] if isinstance(given, list) and len(given) == 1 else given
        if isinstance(prompt, list):
            raise body.unsupported("prompt", "must be one text: send a request for each, and no token ids")
        if not isinstance(prompt, str) or not prompt:
            raise body.wrong("prompt", "must be a text that isn't empty")
        body.refuse(_NEUTRAL_TO_A_TEXT)
        values = {name: value for name, value in body.values.items() if name not in ("prompt", *_NEUTRAL_TO_A_TEXT)}
        limit = {} if "max_tokens" in body else {"max_tokens": _MOST_TOKENS}
        messages = [{"role": "user", "content": prompt}]
        return Body({**values, **limit, "messages": messages}, lenient=body.lenient)

    def write_request(self, chat: Body) -> Json:
        raise chat.unsupported("messages", "can't be answered by a server that only goes on with a text")

    def read_answer(self, whole: Any) -> Json:
        if not isinstance(table(whole).get("choices"), list):
            raise Malformed("the answer has no choices")
        return {**whole, "choices": [_as_chat(choice, "message") for choice in objects(whole["choices"])]}

    def write_answer(self, reply: Json, body: Body) -> Json:
        return _completion(reply, [_from_chat(choice, "message") for choice in objects(reply.get("choices"))])


class Embeddings(Protocol):
    """The protocol of /v1/embeddings, of which nothing is read."""

    name, path = "embeddings", "embeddings"
    converses, is_of_openai = False, True


def _completion(reply: Json, choices: list[Json]) -> Json:
    name = f"cmpl-{str(reply.get('id', '')).removeprefix('chatcmpl-')}"
    return {**reply, "id": name, "object": "text_completion", "choices": choices}


def _from_chat(choice: Json, key: str) -> Json:
    kept = {name: value for name, value in choice.items() if name not in ("message", "delta")}
    return {**kept, "text": completion.said_in(table(choice.get(key)).get("content")), "logprobs": None}


def _as_chat(choice: Json, key: str) -> Json:
    """The choice of a completion as that of a chat completion. Its logprobs have another format."""
    return {**choice, key: {"content": text(choice.get("text"))}, "logprobs": None}


# -- requests ----------------------------------------------------------------------------------------------------------


def recorded(protocol: Protocol, body: Body) -> ChatRequest:
    """What the record has of a request that is passed on, whatever stands in it."""
    lenient = Body(body.values, lenient=True)
    try:
        return read_chat(protocol.read_request(lenient))
    except BadRequest:  # its server says what is wrong with it
        return ChatRequest(lenient.text("model", ""), (Message("user", lenient.left_out(BadRequest(""))),), ((),))


def read_chat(body: Body, *, follows_schemas: bool = False) -> ChatRequest:
    """What a request asks for. What a policy in this process can't do is refused, unless the body is lenient."""
    body.refuse(_NEUTRAL)
    body.refuse_others(_DONE | _HINTS | _NEUTRAL.keys())
    actions = dict[str, Action]()
    for tool in body.listed("tools"):
        kind = tool.text("type", "function")
        if kind != "function":
            tool.left_out(tool.wrong("type", "must be function"))
        inside = tool.inner(kind) if kind in tool or not body.lenient else tool
        action = inside.action()
        if action.name in actions and not body.lenient:
            raise BadRequest(f"two tools are called {action.name}", code="duplicate_tool", field="tools")
        actions.setdefault(action.name or kind, replace(action, name=action.name or kind))
    given = body.listed("messages")
    messages, parts = tuple(map(_message, given)), tuple(map(_parts, given))
    user = body.name("user", "") or body.name("safety_identifier", "")
    if body.lenient:
        if not messages:
            raise body.wrong("messages", "must be a list of messages")
        limits = (body.values.get(name) for name in ("max_tokens", "max_completion_tokens"))
        most = min((limit for limit in limits if type(limit) is int and limit > 0), default=None)
        sampling = Sampling(body.number("temperature", 0, 2), body.number("top_p", 0, 1), most)
        model, stream, offered = body.text("model", ""), body.flag("stream"), tuple(actions.values())
        return ChatRequest(model, messages, parts, offered, sampling, stream=stream, user=user)
    if "messages" not in body:
        raise body.wrong("messages", "is required")
    choice = body.values.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("type", "function") != "function":
            raise body.unsupported("tool_choice")
        name = body.inner("tool_choice").inner("function").name("name")
        if name not in actions:
            raise body.wrong("tool_choice", f'names "{name[:100]}", which is no tool of this request')
        actions = {name: actions[name]}
    elif choice not in (None, "auto", "required", "none"):
        raise body.wrong("tool_choice", "must be auto, none, required or an object that names a function")
    options = body.inner("stream_options") if "stream_options" in body else Body({})
    asked = ChatRequest(
        model=body.name("model"),
        messages=messages,
        parts=parts,
        actions=() if choice == "none" else tuple(actions.values()),
        sampling=body.sampling("max_tokens", "max_completion_tokens"),
        stop=body.strings("stop", 16),
        stream=body.flag("stream"),
        user=user,
        answers=body.whole("n", 1, _MOST_ANSWERS) or 1,
        schema=_schema(body.inner("response_format")) if "response_format" in body else None,
        must_call=choice == "required" or isinstance(choice, dict),
        with_usage=options.flag("include_usage"),
        with_tokens=body.flag("return_token_ids"),
        with_logprobs=body.flag("logprobs"),
    )
    if asked.schema is not None and not follows_schemas:
        raise body.unsupported("response_format", "is not supported by this policy: it can't follow a schema")
    if asked.schema is not None and asked.actions:
        raise body.unsupported("response_format", "is not supported together with tools")
    if asked.stream and asked.answers > 1:
        raise body.unsupported("n", "above 1 is not supported in streams")
    return asked


def _schema(form: Body) -> Mapping[str, Any] | None:
    """The schema of the answer. None if it is text."""
    kind = form.text("type")
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema":
        return form.inner("json_schema").inner("schema").values
    if kind != "text":
        raise form.unsupported("type", "must be text, json_object or json_schema")
    return None


def _message(body: Body) -> Message:
    given, calls = body.text("role"), list[Call]()
    if (role := _ROLES.get(given)) is None:
        body.left_out(body.wrong("role", f"must be {', '.join(_ROLES)}"))
        role = _EARLIER_ROLES.get(given, given)
    if role != "tool":
        body.refuse({"name": ("",)})
    for call in body.listed("tool_calls") if role == "assistant" else ():
        try:
            calls.append(call.inner("function").call(call.name("id")))
        except BadRequest:
            if not body.lenient:
                raise
    answers = body.name("tool_call_id", "" if body.lenient else None) if role == "tool" else ""
    between = BETWEEN_PARTS if role == "user" else ""
    return Message(role, body.texts("content", ("text", "refusal"), between), tuple(calls), answers)


def _parts(body: Body) -> tuple[str, ...]:
    if body.text("role") != "user":
        return ()
    texts = (part.values.get("text") for part in body.parts("content") if part.values.get("type", "text") == "text")
    return tuple(text for text in texts if isinstance(text, str))


def write_chat(request: Request, *, native: bool) -> Json:
    """The fields of a request to a server that depend on the turn. Tools are offered, or else described (`native`)."""
    body: Json = {"messages": conversation(request.messages, request.actions, native=native)}
    if request.actions and native:
        body["tools"] = [function(action) for action in request.actions]
    for name in ("temperature", "top_p", "max_tokens", "seed"):
        if (value := getattr(request.sampling, name)) is not None:
            body[name] = value
    if request.schema is not None:
        form = {"name": "answer", "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body


# -- answers -----------------------------------------------------------------------------------------------------------


def write_completion(replies: Sequence[Reply], asked: ChatRequest, about: About) -> Json:
    choices = []
    for index, reply in enumerate(replies):
        message: Json = {"role": "assistant", "content": reply.text or (None if reply.calls else "")}
        if reply.calls:
            message["tool_calls"] = [completion.call_of(call.id, call.name, arguments(call)) for call in reply.calls]
        choice = {"index": index, "message": message, "finish_reason": _FINISH[reply.finish]}
        choices.append(choice | _exact_tokens(reply, asked))
    answer = {"choices": choices, "usage": _usage(replies), "system_fingerprint": replies[0].turn.version}
    return headed(answer, "chat.completion", about)


def last_chunks(reply: Reply, asked: ChatRequest) -> Iterator[Json]:
    """What follows on the text of a streamed answer."""
    for index, call in enumerate(reply.calls):
        called = completion.call_of(call.id, call.name, arguments(call))
        yield completion.chunk_of({"tool_calls": [{"index": index, **called}]})
    # The tokens come together: some of their text may have to wait, and some belong to calls.
    yield completion.chunk_of({}, _FINISH[reply.finish], **_exact_tokens(reply, asked))
    if asked.with_usage:
        yield {"choices": [], "usage": _usage([reply])}


def arguments(call: Call) -> str:
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def _exact_tokens(reply: Reply, asked: ChatRequest) -> Json:
    """The exact tokens, for whoever asks for them."""
    turn = reply.turn
    found: Json = {}
    if asked.with_tokens and turn.token_ids:
        found = {"token_ids": turn.token_ids, "prompt_token_ids": turn.prompt_ids}
    if asked.with_logprobs and turn.logprobs:
        pieces = reply.pieces if len(reply.pieces) == len(turn.logprobs) else ("",) * len(turn.logprobs)
        content = [
            {"token": piece, "logprob": one, "bytes": list(piece.encode("utf-8", "replace")), "top_logprobs": []}
            for piece, one in zip(pieces, turn.logprobs, strict=True)
        ]
        found["logprobs"] = {"content": content}
    return found


def headed(reply: Json, kind: str, about: About) -> Json:
    """An answer, or a chunk, with what it says of itself, which a server's may say already."""
    head = {"id": f"chatcmpl-{about.id}", "object": kind, "created": about.created, "model": about.model}
    return {**head, **{name: value for name, value in reply.items() if value is not None}}


def _usage(replies: Sequence[Reply]) -> Json:
    """The tokens of the prompt, those of them that were cached, and those of all answers."""
    turn, turns = replies[0].turn, [reply.turn for reply in replies]
    prompt = len(turn.prompt_ids) if turn.usage.prompt is None else turn.usage.prompt
    sampled = sum(each.count if each.usage.sampled is None else each.usage.sampled for each in turns)
    counts = {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}
    return {**counts, "prompt_tokens_details": {"cached_tokens": turn.usage.cached or 0}}
