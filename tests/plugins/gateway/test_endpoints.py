"""What a provider has besides conversations: passed on, or done here."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import openai
import pytest
from chat_server import Handler, Reply, chunks, completion, listening

from agentfw import Message, Request
from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.models.locate import locate
from agentfw_plugins.models.small_model import SmallChat

from .conftest import CLIENT, Serve, Served
from .native_features import COMPLETION, EMBEDDED
from .upstream import Passing, Start, passing

TINY = ("policy.model=tiny", "policy.temperature=0")


# -- completions -------------------------------------------------------------------------------------------------------


def test_a_completion_is_passed_on_as_it_is_and_recorded(upstream: Start) -> None:
    headers = {"x-request-id": "r-1", "x-region": "東京".encode().decode("latin-1")}
    gateway = upstream(Reply(COMPLETION, headers=headers), assignments=('policy.model=""',))

    answer = gateway.openai().completions.with_raw_response.create(
        model="served", prompt="Once upon a time", echo=False, suffix="!", extra_body={"top_k": 3}
    )

    assert gateway.server.paths == ["completions"]
    assert gateway.server.bodies == [
        {"model": "served", "prompt": "Once upon a time", "echo": False, "suffix": "!", "top_k": 3}
    ]
    assert answer.content == json.dumps(COMPLETION).encode()
    assert (answer.headers["x-request-id"], answer.headers["x-region"]) == ("r-1", "東京")
    episode = gateway.episode()
    [turn] = episode.turns
    assert (turn.text, turn.finish, turn.usage.sampled) == (" there was", "length", 2)
    assert [message.content for message in episode.messages] == ["Once upon a time"]


def test_a_streamed_completion_is_passed_on_line_by_line(upstream: Start) -> None:
    pieces = [{**COMPLETION, "choices": [{"text": text, "index": 0, "finish_reason": None}]} for text in (" a", " b")]
    reply = chunks(*pieces)
    gateway = upstream(reply)

    answer = gateway.openai().completions.with_raw_response.create(model="served", prompt="x", stream=True)

    assert answer.http_response.read() == reply.body
    assert gateway.episode().turns[0].text == " a b"


def test_a_policy_in_this_process_goes_on_with_the_text(serve: Serve) -> None:
    gateway = serve(policy="tiny", assignments=TINY)

    answer = gateway.openai().completions.create(model="agentfw", prompt="Good morning", max_tokens=5)
    streamed = gateway.openai("other").completions.create(
        model="agentfw", prompt="Good morning", max_tokens=5, stream=True, stream_options={"include_usage": True}
    )
    text = answer.choices[0].text
    stopped = gateway.openai("third").completions.create(
        model="agentfw", prompt="Good morning", max_tokens=5, stop=text[-2:]
    )

    pieces = list(streamed)
    [turn] = gateway.episode().turns
    chat = SmallChat(locate("tiny"))
    said = [Message("user", "Good morning")]
    assert turn.prompt_ids == chat.prompt_of(Request(said, plain=True)) != chat.prompt(said), "without a chat template"
    assert answer.object == "text_completion"
    assert text == turn.text
    assert not answer.choices[0].model_extra, "token ids are for who asks for them"
    ends = [(choice.text, choice.finish_reason) for choice in (answer.choices[0], stopped.choices[0])]
    assert ends == [(text, "length"), (text[: text.find(text[-2:])], "stop")]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(turn.token_ids) <= 5
    assert "".join(choice.text for piece in pieces for choice in piece.choices) == turn.text
    assert pieces[-1].usage == answer.usage


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"echo": True}, "echo"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"extra_body": {"top_k": 3}}, "top_k"),
    ],
)
def test_what_such_a_policy_cannot_do_is_refused_by_name(
    tiny_gateway: Served, more: dict[str, Any], field: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        tiny_gateway.openai().completions.create(**{"model": "agentfw", "prompt": "x", **more})

    assert refused.value.param == field


def test_a_policy_that_only_chats_refuses_completions(serve: Serve) -> None:
    with pytest.raises(openai.BadRequestError, match="completions is not supported by this policy"):
        serve().openai().completions.create(model="agentfw", prompt="x")


# -- embeddings --------------------------------------------------------------------------------------------------------


def test_embeddings_are_passed_on_with_the_model_that_was_asked_for(upstream: Start) -> None:
    gateway = upstream(Reply(EMBEDDED))

    found = gateway.openai().embeddings.create(model="e5", input="tea", encoding_format="float", dimensions=2)

    assert gateway.server.paths == ["embeddings"]
    assert gateway.server.bodies == [{"model": "e5", "input": "tea", "encoding_format": "float", "dimensions": 2}]
    assert found.data[0].embedding == [0.5, 0.25]
    assert not gateway.live.sessions, "they belong to no session"


def test_what_is_not_there_is_named(tiny_gateway: Served) -> None:
    with pytest.raises(openai.NotFoundError, match="no embedding model"):
        tiny_gateway.openai().embeddings.create(model="agentfw", input="x")
    with pytest.raises(openai.NotFoundError, match="the gateway has no POST /s/tea/v1/images/generations"):
        tiny_gateway.openai().images.generate(model="agentfw", prompt="x")


def test_a_count_is_that_of_the_server_and_none_is_made_up_where_it_has_none(upstream: Start) -> None:
    import anthropic  # here, because it takes seconds

    counts, has_none = upstream(Reply({"input_tokens": 42}), apis=("messages",)), upstream()
    asked: Any = {"model": "served", "messages": [{"role": "user", "content": "x"}]}

    assert counts.anthropic().messages.count_tokens(**asked).input_tokens == 42
    assert counts.server.paths == ["messages/count_tokens"]
    with pytest.raises(anthropic.BadRequestError, match="count_tokens is not supported"):
        has_none.anthropic().messages.count_tokens(**asked)


@pytest.fixture(scope="module")
def tiny_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from .conftest import served

    with served(tmp_path_factory.mktemp("runs"), policy="tiny", assignments=TINY) as running:
        yield running


# -- what else a provider has, such as files and audio -----------------------------------------------------------------


SOUND = bytes(range(256)) * 40


class Asked(NamedTuple):
    method: str
    path: str
    kind: str
    body: bytes


class Provider:
    def __init__(self) -> None:
        self.url, self.asked = "", list[Asked]()


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """A provider with files, audio and stored responses."""
    provider = Provider()

    class Providing(Handler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.removeprefix("/v1/")
            provider.asked.append(Asked(self.command, path, self.headers.get("content-type", ""), body))
            if path == "models":
                answer: object = {"object": "list", "data": [{"id": "big", "object": "model"}, {"id": "agentfw"}]}
            elif path == "files/none":
                answer = {"error": {"message": "No such File object: none", "code": None}}
            else:
                answer = {"id": path, "object": "thing"}
            sound = path == "audio/speech"
            data = SOUND if sound else json.dumps(answer).encode()
            self.send_response(404 if path == "files/none" else 201 if path == "batches" else 200)
            self.send_header("content-type", "audio/mpeg" if sound else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _any

    with listening(Providing) as provider.url:
        yield provider


def in_front_of(provider: Provider, serve: Serve, limits: Limits | None = None) -> Served:
    return serve(limits, policy="openai", assignments=[f"policy.base_url={provider.url}"])


def test_the_official_client_gets_at_everything_and_no_record_has_it(provider: Provider, serve: Serve) -> None:
    gateway = in_front_of(provider, serve)
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)

    models = [model.id for model in client.models.list()]
    uploaded = client.files.create(file=("a.jsonl", b"{}\n" * 10), purpose="batch")
    stored = client.get("/responses/resp_1?include[]=usage", cast_to=httpx.Response)
    spoken = client.audio.speech.create(model="tts", voice="alloy", input="hello").content
    deleted = client.delete("/files/file-1", cast_to=httpx.Response)
    created = client.post("/batches", body={}, cast_to=httpx.Response)
    with pytest.raises(openai.NotFoundError, match="No such File object: none"):
        client.files.retrieve("none")

    assert models == ["agentfw", "big"]
    assert client.models.retrieve("agentfw").owned_by == "agentfw"
    assert uploaded.id == "files"
    assert stored.json()["id"] == "responses/resp_1?include[]=usage"
    assert spoken == SOUND
    assert deleted.json()["id"] == "files/file-1"
    assert created.status_code == 201
    upload = next(asked for asked in provider.asked if asked.path == "files")
    assert upload.kind.startswith("multipart/form-data; boundary=")
    assert b"{}\n{}\n" in upload.body
    assert not gateway.live.sessions
    assert CLIENT.get(f"{gateway.url}/metrics").text.count("\nagentfw_answers_in_progress 0.0") == 1


@pytest.mark.parametrize("path", ["../admin", "files/%2e%2e/%2e%2e/admin", "files//a"])
def test_no_path_leads_out_of_the_providers_address(provider: Provider, serve: Serve, path: str) -> None:
    gateway, before = in_front_of(provider, serve), len(provider.asked)

    request = CLIENT.build_request("GET", gateway.url)
    request.url = request.url.copy_with(raw_path=f"/v1/{path}".encode())

    assert CLIENT.send(request).status_code == 404
    assert len(provider.asked) == before


def test_a_key_of_a_user_gets_at_nothing_that_the_provider_keeps(
    provider: Provider, serve: Serve, keys: KeyFile
) -> None:
    gateway = in_front_of(provider, serve, Limits(key_file=keys.path))
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=keys.add("ada"), max_retries=0)

    with pytest.raises(openai.PermissionDeniedError, match="not passed on for keys of users"):
        client.files.retrieve("file-1")

    assert client.audio.speech.create(model="tts", voice="alloy", input="hello").content == SOUND
    for path in ("moderations", "embeddings", "messages/count_tokens"):
        rare = {"authorization": f"Bearer {keys.add(path.partition('/')[0], per_minute=1)}"}
        body = {"model": "m", "input": "a", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}
        first, second = (CLIENT.post(f"{gateway.url}/v1/{path}", json=body, headers=rare) for _ in range(2))
        assert (first.status_code != 429, second.status_code) == (True, 429), path


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Passing]:
    with passing(tmp_path_factory.mktemp("runs"), completion("fine")) as gateway:
        yield gateway


def _zstd(body: bytes) -> bytes:
    packed: bytes = pytest.importorskip("zstandard").ZstdCompressor().compress(body)
    return packed


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": _zstd,
    "gzip, deflate": lambda body: zlib.compress(gzip.compress(body, mtime=0)),
}


def posted(gateway: Served, body: bytes, encoding: str) -> httpx.Response:
    headers = {"content-type": "application/json", "content-encoding": encoding}
    return CLIENT.post(f"{gateway.session('tea')}/chat/completions", content=body, headers=headers)


def test_a_packed_body_is_read(chatting: Passing) -> None:
    for encoding, pack in PACKED.items():
        body = {"model": "served", "messages": [{"role": "user", "content": f"in {encoding}"}]}

        answer = posted(chatting, pack(json.dumps(body).encode()), encoding)

        assert answer.status_code == 200, answer.text
        assert chatting.server.bodies[-1] == body


@pytest.mark.parametrize(
    ("body", "encoding", "status", "words"),
    [
        (b"{}", "br", 415, "can't be read here; send gzip"),
        (gzip.compress(b"{}" * 100, mtime=0)[:-9], "gzip", 400, "is not in gzip"),
        (gzip.compress(b" " * 70_000_000, mtime=0), "gzip", 413, "more than 64,000,000 bytes"),
        (gzip.compress(gzip.compress(b" " * 70_000_000, mtime=0)), "gzip, gzip", 413, "more than 64,000,000 bytes"),
    ],
)
def test_what_cannot_be_unpacked_is_refused_by_name(
    chatting: Passing, body: bytes, encoding: str, status: int, words: str
) -> None:
    answer = posted(chatting, body, encoding)

    assert (answer.status_code, words in answer.text) == (status, True), answer.text
