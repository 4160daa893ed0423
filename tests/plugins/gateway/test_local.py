"""What a policy in this process can do, and that it does it as documented."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw.errors import SettingsError
from agentfw.turns.parsing import StreamedText
from agentfw_plugins.gateway.live import Limits, opened

from .conftest import Served

Body = dict[str, Any]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def post(gateway: Served, body: Body, path: str = "chat/completions") -> httpx.Response:
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], **body}
    return httpx.post(f"{gateway.session('local')}/{path}", json=asked)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"frequency_penalty": 0.1}, "frequency_penalty"),
        ({"top_logprobs": 2, "logprobs": True}, "top_logprobs"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"verbosity": "low"}, "verbosity"),
        ({"top_k": 4}, "top_k"),
        ({"n": 2, "stream": True}, "n"),
        ({"messages": [{"role": "user", "content": "x", "name": "ada"}]}, "messages[0].name"),
        ({"chat_template_kwargs": {"x": 1}}, "chat_template_kwargs"),
    ],
)
def test_what_it_can_not_do_is_refused_by_name(gateway: Served, given: Body, field: str) -> None:
    answer = post(gateway, given)

    assert answer.status_code == 400
    assert (answer.json()["error"]["param"], answer.json()["error"]["code"]) == (field, "unsupported_parameter")


def test_a_refusal_names_the_field_as_the_format_does(gateway: Served) -> None:
    schema = {"type": "json_schema", "name": "a", "schema": {}}

    answer = post(gateway, {"input": "hi", "messages": None, "text": {"format": schema}}, "responses")

    assert answer.json()["error"]["param"] == "text.format"


def test_hints_and_neutral_values_are_taken(gateway: Served) -> None:
    hints = {"metadata": {"a": "b"}, "store": True, "prompt_cache_key": "k", "service_tier": "auto", "top_p": None}
    neutral = {"frequency_penalty": 0.0, "logit_bias": {}, "n": 1, "response_format": {"type": "text"}, "top_k": -1}

    assert post(gateway, {**hints, **neutral}).status_code == 200


def test_n_answers_are_n_turns(serve: Callable[..., Served]) -> None:
    gateway = serve(policy="scripted", assignments=['policy.replies=["one", "two", "three"]'])

    answer = post(gateway, {"n": 3}).json()

    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert sorted(choice["message"]["content"] for choice in answer["choices"]) == ["one", "three", "two"]
    assert len(gateway.live.sessions["local"].episode.turns) == 3


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_required_and_not_made_is_an_error(gateway: Served, choice: object, stream: bool) -> None:
    answer = post(gateway, {"tools": [WEATHER], "tool_choice": choice, "stream": stream})

    assert "no_call_made" in answer.text
    assert answer.status_code == (200 if stream else 500)


def test_stop_cuts_the_text(gateway: Served) -> None:
    assert post(gateway, {"stop": ["said", "xyz"]}).json()["choices"][0]["message"]["content"] == "You "


def test_a_model_is_told_by_its_name(serve: Callable[..., Served]) -> None:
    url = serve(Limits(models=("scripted", "a/b"))).session("x")

    assert httpx.get(f"{url}/models/a/b").json()["id"] == "a/b"
    missing = httpx.get(f"{url}/models/other")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


def test_a_script_without_answers_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing to answer with"):
        opened(tmp_path, policy="scripted")

    assert not list(tmp_path.iterdir())


def test_a_gateway_reads_the_layers_of_settings_that_runs_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFW_SEED", "11")
    monkeypatch.setenv("AGENTFW_POLICY__MAX_TOKENS", "9")
    spec = opened(tmp_path, policy="tiny", assignments=("policy.batch=2",)).assembly.spec

    assert spec.seed == 11
    assert spec.policy.settings == {"max_tokens": 9, "batch": 2}


def test_serve_says_at_its_end_what_was_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentfw", "serve", "--port", "0", "--runs", str(tmp_path), "--policy", "scripted"]
    command += ["--memory", "none"]
    process = subprocess.Popen(
        [*command, "--set", 'policy.replies=["yes"]'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    url = process.stdout.readline().split()[0]
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    assert httpx.post(f"{url}/s/one/v1/chat/completions", json=asked, timeout=60).status_code == 200

    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)

    assert "1 session kept" in told.splitlines()[-1]


# -- what of a stream can be told --------------------------------------------------------------------------------------


def told(text: str, *, names: tuple[str, ...] = ("weather",), stop: tuple[str, ...] = ()) -> str:
    """What is told before the end, of a text that comes letter by letter."""
    pieces = StreamedText(names, stop)
    return "".join(pieces.take(letter) for letter in text)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("if a < b: `x` {y} [z] <div>", "if a < b: `x` {y} [z] <div>"),
        ("Code:\n```json\n{}\n```\n", "Code:\n```json\n{}\n```\n"),
        ("See:\n<b>bold</b> text", "See:\n<b>bold</b> text"),
        ('I look.\n<tool_call>{"name"', "I look.\n"),
        ("I look. <tool", "I look. "),
        ("I look. <too late", "I look. <too late"),
        ("I look.\n<weather city", "I look.\n"),
        ('He wrote "<tool_call>', 'He wrote "<tool_call>'),
        ('{"name": "weather"', ""),
        ("<think>Hm.</think>{", "<think>Hm.</think>"),
        ("\n <tool_call>", ""),
    ],
)
def test_only_what_may_become_a_call_is_held_back(text: str, known: str) -> None:
    assert told(text) == known


def test_only_what_may_become_a_stop_is_held_back() -> None:
    assert told("one two EN", names=(), stop=("END", "three")) == "one two "
    assert told("one two ENDLESS", names=(), stop=("END", "three")) == "one two "
    assert told("one two ENT", names=(), stop=("END", "three")) == "one two ENT"


def test_what_was_told_and_the_rest_are_the_text() -> None:
    pieces = StreamedText(("weather",), ("END",))
    text = "I look.\n"

    said = "".join(map(pieces.take, ["I lo", "ok.\n<tool", "_call>{}"]))

    assert said + pieces.rest(text) == text


@pytest.mark.slow
def test_a_stream_with_tools_is_told_while_it_comes(serve: Callable[..., Served]) -> None:
    async def run(url: str) -> list[str]:
        asked = {"model": "scripted", "messages": [{"role": "user", "content": "a < b"}], "stream": True}
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{url}/chat/completions", json={**asked, "tools": [WEATHER]})
        return [line for line in answer.text.splitlines() if '"content":' in line]

    assert any("a < b" in line for line in asyncio.run(run(serve().session("x"))))
