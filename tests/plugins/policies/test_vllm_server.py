"""What comes of a vLLM server that doesn't start, doesn't answer, or answers something else: an error, and soon.

The server is a stand-in: a program that fails as the real one does, or one that speaks its protocol. What the real one
does is in test_vllm.py.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from chat_server import Handler, listening

from agentfw.episode import Message, Task, Usage
from agentfw.errors import EndpointError, RequestRefusedError, SettingsError
from agentfw.policy import Generation, Request, Sampling

pytest.importorskip("transformers")

from agentfw_plugins.policies.vllm.vllm_backend import VLLMSettings
from agentfw_plugins.policies.vllm.vllm_policy import VLLMPolicy

Result = TypeVar("Result")
Make = Callable[..., Path]
ASK = Request([Message("user", "tea")], sampling=Sampling(max_tokens=4, seed=1), task=Task(3, 1))


def make(model: Path, **settings: Any) -> VLLMPolicy:
    return VLLMPolicy(VLLMSettings(model=str(model), **{"retries": 0, "deadline": 10.0} | settings))


def using(policy: VLLMPolicy, use: Callable[[VLLMPolicy], Coroutine[Any, Any, Result]]) -> Result:
    async def run() -> Result:
        try:
            return await use(policy)
        finally:
            await policy.close()

    return asyncio.run(asyncio.wait_for(run(), 120))


def asked(policy: VLLMPolicy) -> Generation:
    return using(policy, lambda policy: policy.generate(ASK))


# -- a server that is started here -------------------------------------------------------------------------------------


def program(folder: Path, code: str) -> str:
    """A Python beside which there is a `vllm`."""
    (folder / "python").symlink_to(sys.executable)
    (folder / "vllm").write_text(f"#!{sys.executable}\n{code}")
    (folder / "vllm").chmod(0o755)
    return str(folder / "python")


FAIL_TO_START = """
import sys
print("(APIServer pid=1) INFO 11-21 07:31:11 [api.py:1] starting")
print("(Worker pid=2) ERROR 11-21 07:31:11 [worker.py:9] Traceback (most recent call last):")
print("(Worker pid=2) ERROR 11-21 07:31:11 [worker.py:9] torch.OutOfMemoryError: CUDA out of memory. Tried 20 GiB")
print("(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.")
sys.exit(3)
"""
SERVE_THEN_DIE = """
import http.server, json, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"data": [{"id": "base", "max_model_len": 512}]}).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        print("RuntimeError: Unsupported CPU attention configuration", flush=True)
        os._exit(1)
    def log_message(self, *arguments): pass
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.mark.parametrize(
    ("code", "said", "logged", "fix"),
    [
        (FAIL_TO_START, "ended with code 3 before it served", "CUDA out of memory. Tried 20 GiB", "policy.memory"),
        (SERVE_THEN_DIE, r"vLLM is gone \(code 1\)", "Unsupported CPU attention configuration", ""),
    ],
)
def test_a_server_that_ends_is_told_with_its_log_and_what_helps(
    small_model: Path, tmp_path: Path, code: str, said: str, logged: str, fix: str
) -> None:
    with pytest.raises(EndpointError, match=said) as caught:
        asked(make(small_model, python=program(tmp_path, code), retries=1))

    assert logged in str(caught.value)
    assert fix in caught.value.fix


def test_it_is_started_by_its_own_command(small_model: Path, tmp_path: Path) -> None:
    python = program(tmp_path, f"import json, sys; open({str(tmp_path / 'told')!r}, 'w').write(json.dumps(sys.argv))")

    with pytest.raises(EndpointError, match="ended with code 0"):
        asked(make(small_model, python=python, gpus=2, arguments=("--enforce-eager",)))

    name, command, model, *options = json.loads((tmp_path / "told").read_text())
    assert (name, command, model) == (str(tmp_path / "vllm"), "serve", str(small_model))
    assert options[options.index("--tensor-parallel-size") + 1] == "2"
    assert options[-1] == "--enforce-eager"


def test_a_python_without_vllm_is_told(small_model: Path, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    with pytest.raises(SettingsError, match="vLLM isn't installed") as caught:
        asked(make(small_model, python=str(tmp_path / "python")))
    assert "policy.python" in caught.value.fix
    with pytest.raises(SettingsError, match="there is no /no/python"):
        make(small_model, python="/no/python")


# -- a server that runs already ----------------------------------------------------------------------------------------


@dataclass
class Server:
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    adapters: list[str] = field(default_factory=list)


@contextmanager
def serving(**answers: Any) -> Iterator[tuple[str, Server]]:
    """A server that speaks as vLLM does; `answers` change what it says of a path."""
    server = Server()
    models = [
        {"id": name, "max_model_len": 200, "parent": of} for name, of in (("p@0", "org/model"), ("org/model", None))
    ]

    class Speaking(Handler):
        def do_GET(self) -> None:
            self.answer(200, json.dumps({"data": models}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
            name = self.path.strip("/").replace("/", "_").partition("?")[0]
            server.seen.append((name, body))
            if name in answers:
                given = answers[name]
                return self.answer(*(given(body) if callable(given) else given))
            if name == "v1_load_lora_adapter":
                server.adapters.append(body["lora_name"])
            if name == "v1_unload_lora_adapter":
                server.adapters.remove(body["lora_name"])
            choice = {"token_ids": [9, 0], "logprobs": {"token_logprobs": [-1.5, -0.5]}}
            usage = {"prompt_tokens": len(body.get("prompt", ())), "prompt_tokens_details": {"cached_tokens": 2}}
            return self.answer(200, json.dumps({"choices": [choice], "usage": usage}))

        def answer(self, status: int, text: str) -> None:
            self.send_response(status)
            if text.startswith("data:"):
                self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    with listening(Speaking) as address:
        yield address, server


def test_tokens_go_over_and_come_back_and_a_models_own_taste_in_sampling_is_overruled(small_model: Path) -> None:
    with serving() as (address, server):
        answer = asked(make(small_model, base_url=address))

    ((_, body),) = server.seen
    assert body["model"] == "org/model"
    assert tuple(body["prompt"]) == answer.prompt_ids
    assert 0 <= body["seed"] < 2**63
    # A server takes these from the model's generation_config.json, unless they are in the request.
    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (-1, 0.0, 1.0)
    assert (answer.token_ids, answer.logprobs, answer.finish) == ((9, 0), (-1.5, -0.5), "stop")
    assert "".join(answer.pieces) == answer.text
    assert answer.usage == Usage(prompt=len(body["prompt"]), cached=2, sampled=2)


def test_a_server_is_told_at_which_texts_an_answer_ends_and_to_sleep_only_where_that_is_wanted(
    small_model: Path,
) -> None:
    async def use(policy: VLLMPolicy) -> Generation:
        await policy.rest()
        await policy.wake()
        return await policy.generate(replace(ASK, stop=("", "\n")))

    choice = {"token_ids": [9, 11], "logprobs": {"token_logprobs": [-1.5, -0.5]}}
    finished = iter(("stop", "length"))

    def ended(body: dict[str, Any]) -> tuple[int, str]:
        return 200, json.dumps({"choices": [{**choice, "finish_reason": next(finished)}]})

    with serving(v1_completions=ended) as (address, server):
        answers = [using(make(small_model, base_url=address, sleep=sleep), use) for sleep in (False, True)]

    assert [path for path, _ in server.seen] == ["v1_completions", "sleep", "wake_up", "v1_completions"]
    body = server.seen[0][1]
    assert (body["stop"], body["include_stop_str_in_output"]) == (["\n"], True)
    assert [(answer.token_ids, answer.finish) for answer in answers] == [((9, 11), "stop"), ((9, 11), "length")]


def test_words_are_told_while_a_server_samples_them(small_model: Path) -> None:
    def stream(body: dict[str, Any]) -> tuple[int, str]:
        rows: list[dict[str, Any]] = [
            {"choices": [{"token_ids": [id], "logprobs": {"token_logprobs": [-0.5 * id]}, "finish_reason": None}]}
            for id in (9, 11)
        ]
        end = {"token_ids": [0], "logprobs": {"token_logprobs": [-0.25]}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}}
        rows += [{"choices": [end]}, {"choices": [], "usage": usage}]
        assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
        return 200, "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"

    told: list[str] = []
    with serving(v1_completions=stream) as (address, _):
        answer = using(make(small_model, base_url=address), lambda policy: policy.stream(ASK, told.append))

    assert (answer.token_ids, answer.logprobs, answer.finish) == ((9, 11, 0), (-4.5, -5.5, -0.25), "stop")
    assert told == [piece for piece in answer.pieces if piece]
    assert len(told) == 2
    assert answer.usage.cached == 2


def test_logprobs_of_a_foreign_server_are_left_out_where_it_may_have_left_out_the_temperature(
    small_model: Path,
) -> None:
    drawn = (Sampling(warmth, top_p, max_tokens=4, seed=1) for warmth, top_p in ((0.5, None), (1.0, 0.9)))
    warm, cut = (replace(ASK, sampling=sampling) for sampling in drawn)

    async def use(policy: VLLMPolicy) -> list[Generation]:
        return [await policy.generate(one) for one in (ASK, warm, cut)]

    choice = {"token_ids": [9, 11], "logprobs": {"token_logprobs": [-1.5, -0.5]}, "finish_reason": "length"}
    with serving(v1_completions=(200, json.dumps({"choices": [choice]}))) as (address, _):
        plain, tempered, cut_off = using(make(small_model, base_url=address), use)

    assert len(plain.logprobs) == len(plain.token_ids)
    assert (tempered.logprobs, tempered.temperature) == ((), 0.5)
    assert (cut_off.logprobs, cut_off.top_p) == ((), 0.9)


def test_every_version_has_a_name_of_its_own_and_goes_when_nobody_needs_it(
    small_model: Path, make_adapter: Make, tmp_path: Path
) -> None:
    adapter = make_adapter(small_model, tmp_path / "adapter")
    going = threading.Event()

    def slowly(body: dict[str, Any]) -> tuple[int, str]:
        if body["model"].startswith("p@1"):
            going.wait(300)
        return 200, json.dumps({"choices": [{"token_ids": [9], "logprobs": {"token_logprobs": [-1.5]}}]})

    async def use(policy: VLLMPolicy) -> list[Generation]:
        await policy.publish(adapter, "p@1")
        first = asyncio.ensure_future(policy.generate(ASK))
        while not any(body.get("model", "").startswith("p@1") for _, body in server.seen):
            await asyncio.sleep(0.01)
        await policy.publish(adapter, "p@2")
        assert [name.partition(".")[0] for name in server.adapters] == ["p@1", "p@2"]
        going.set()
        answers = [await first, await policy.generate(ASK)]
        assert [name.partition(".")[0] for name in server.adapters] == ["p@2"]
        await policy.publish(adapter, "p@2")
        return answers

    with serving(v1_completions=slowly) as (address, server):
        answers = using(make(small_model, base_url=address), use)

    assert [answer.version for answer in answers] == ["p@1", "p@2"]
    loaded = [body["lora_name"] for path, body in server.seen if path == "v1_load_lora_adapter"]
    assert len(set(loaded)) == 3, "also a version that is published again gets a new name"


def test_versions_beside_each_other_answer_until_they_are_closed(
    small_model: Path, make_adapter: Make, tmp_path: Path
) -> None:
    adapters = [make_adapter(small_model, tmp_path / f"adapter{n}", seed=n) for n in (1, 2)]

    async def use(policy: VLLMPolicy) -> list[Generation]:
        others = [await policy.beside(adapter, f"v{n}+ana") for n, adapter in enumerate(adapters, 1)]
        answers = [await one.generate(ASK) for one in (policy, *others)]
        asked = [body["model"].partition(".")[0] for path, body in server.seen if path == "v1_completions"]
        assert asked[1:] == ["v1+ana", "v2+ana"]
        await others[0].close()
        assert [name.partition(".")[0] for name in server.adapters] == ["v2+ana"]
        return [*answers, await policy.generate(ASK)]

    with serving() as (address, server):
        answers = using(make(small_model, base_url=address), use)

    assert [answer.version for answer in answers[1:3]] == ["v1+ana", "v2+ana"]
    assert answers[3].version == answers[0].version


@pytest.mark.parametrize(
    ("answers", "said", "fix"),
    [
        ({"v1_load_lora_adapter": (404, "Not Found")}, "HTTP 404", "VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
        ({"v1_load_lora_adapter": (400, '{"message": "no adapter there"}')}, "no adapter there", "server can read"),
        ({"sleep": (404, "Not Found")}, "HTTP 404", "--enable-sleep-mode"),
        ({"v1_completions": (400, "maximum context length is 200")}, "maximum context", "lower window"),
        ({"v1_completions": (200, '{"choices": [{"text": "tea"}]}')}, "no token ids with their logprobs", "vLLM"),
    ],
)
def test_what_a_server_refuses_is_told_with_what_helps(
    small_model: Path, make_adapter: Make, tmp_path: Path, answers: dict[str, Any], said: str, fix: str
) -> None:
    adapter = make_adapter(small_model, tmp_path / "adapter")

    async def use(policy: VLLMPolicy) -> None:
        await policy.publish(adapter, "p@1")
        await policy.rest()
        await policy.generate(ASK)

    with serving(**answers) as (address, _), pytest.raises(EndpointError, match=said) as caught:
        using(make(small_model, base_url=address, sleep=True), use)
    assert fix in caught.value.fix
    assert isinstance(caught.value, RequestRefusedError) == (said == "maximum context"), (
        "a pool restarts no server for it"
    )


def test_adapters_that_cannot_be_served_are_refused_before_the_server_is_asked(
    small_model: Path, make_model: Make, make_adapter: Make, tmp_path: Path
) -> None:
    other = make_adapter(make_model(tmp_path / "wide", hidden_size=64), tmp_path / "other")
    deeper = make_adapter(make_model(tmp_path / "deep", num_hidden_layers=3), tmp_path / "deeper")
    high = make_adapter(small_model, tmp_path / "high")
    config = high / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"r": 64}))
    cut = make_adapter(small_model, tmp_path / "cut")
    (cut / "adapter_model.safetensors").write_bytes((cut / "adapter_model.safetensors").read_bytes()[:100])

    async def use(policy: VLLMPolicy) -> None:
        for adapter, said in (
            (other, "doesn't fit the model"),
            (deeper, "isn't there"),
            (high, "has rank 64"),
            (cut, "can't be read"),
            (small_model, "is not an adapter"),
        ):
            with pytest.raises(SettingsError, match=said):
                await policy.publish(adapter, "p@1")

    with serving() as (address, server):
        using(make(small_model, base_url=address), use)
        assert server.seen == []


def test_an_adapter_of_the_settings_is_loaded_once_and_answers(
    small_model: Path, make_adapter: Make, tmp_path: Path
) -> None:
    adapter = make_adapter(small_model, tmp_path / "adapter")
    rank = json.loads((adapter / "adapter_config.json").read_text())["r"]
    done = {"v1_load_lora_adapter": (400, "it has already been loaded")}  # by a try whose answer was lost
    (adapter / "agentfw.json").write_text('{"version": "policy@7"}')

    async def use(policy: VLLMPolicy) -> list[Generation]:
        return list(await asyncio.gather(policy.generate(ASK), policy.generate(ASK)))

    with serving() as (address, server):
        answers = using(make(small_model, base_url=address, adapter=str(adapter)), use)
        loaded = [body for name, body in server.seen if name == "v1_load_lora_adapter"]
        asked = [body["model"] for name, body in server.seen if name == "v1_completions"]

    assert [body["lora_path"] for body in loaded] == [str(adapter)]
    assert asked == [loaded[0]["lora_name"]] * 2
    assert [answer.version for answer in answers] == ["policy@7"] * 2
    with serving(**done) as (address, _):
        answer = using(
            make(small_model, base_url=address, adapter=str(adapter), rank=rank),
            lambda policy: policy.generate(ASK),
        )
    assert answer.version == "policy@7"
    with pytest.raises(SettingsError, match="is not an adapter"):
        make(small_model, adapter=str(small_model))
