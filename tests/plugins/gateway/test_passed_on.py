"""What a provider has besides conversations is there through the gateway, too, such as files and audio."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import httpx
import openai
import pytest
from chat_server import Handler, completion, listening

from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits

from .conftest import CLIENT, Serve, Served
from .upstream import Passing, passing

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
                answer: object = {"object": "list", "data": [{"id": "big", "object": "model", "owned_by": "them"}]}
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

    host, port = gateway.url.removeprefix("http://").split(":")
    with httpx.Client() as client:
        request = client.build_request("GET", gateway.url)
        request.url = request.url.copy_with(raw_path=f"/v1/{path}".encode())
        answer = client.send(request)

    assert answer.status_code == 404, (host, port)
    assert len(provider.asked) == before


def test_a_key_of_a_user_gets_at_nothing_that_the_provider_keeps(
    provider: Provider, serve: Serve, keys: KeyFile
) -> None:
    gateway = in_front_of(provider, serve, Limits(key_file=keys.path))
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=keys.add("ada"), max_retries=0)

    with pytest.raises(openai.PermissionDeniedError, match="not passed on for keys of users"):
        client.files.retrieve("file-1")

    assert client.audio.speech.create(model="tts", voice="alloy", input="hello").content == SOUND


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Passing]:
    with passing(tmp_path_factory.mktemp("runs"), completion("fine")) as gateway:
        yield gateway


def _zstd(body: bytes) -> bytes:
    packed: bytes = pytest.importorskip("zstandard").ZstdCompressor().compress(body)
    return packed


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": _zstd,
    "gzip, deflate": lambda body: zlib.compress(gzip.compress(body, mtime=0)),
}


def posted(gateway: Served, body: bytes, encoding: str) -> httpx.Response:
    headers = {"content-type": "application/json", "content-encoding": encoding}
    return CLIENT.post(f"{gateway.session('tea')}/chat/completions", content=body, headers=headers)


@pytest.mark.parametrize("encoding", PACKED)
def test_a_packed_body_is_read(chatting: Passing, encoding: str) -> None:
    body = {"model": "served", "messages": [{"role": "user", "content": f"in {encoding}"}]}

    answer = posted(chatting, PACKED[encoding](json.dumps(body).encode()), encoding)

    assert answer.status_code == 200, answer.text
    assert chatting.server.bodies[-1] == body


@pytest.mark.parametrize(
    ("body", "encoding", "status", "words"),
    [
        (b"{}", "br", 415, "can't be read here; send gzip"),
        (b"{}", "gzip", 400, "is not in gzip"),
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
