"""What a policy in this process can do, and that it does it as documented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw.errors import SettingsError
from agentfw.turns.parsing import StreamedText
from agentfw_plugins.gateway.live import Limits, opened

from .conftest import CLIENT, Serve, Served

Body = dict[str, Any]
SCHEMA = {"type": "json_schema", "name": "a", "schema": {}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def post(gateway: Served, body: Body, path: str = "chat/completions") -> httpx.Response:
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], **body}
    return CLIENT.post(f"{gateway.session('local')}/{path}", json=asked)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"top_logprobs": 2, "logprobs": True}, "top_logprobs"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"n": 2, "stream": True}, "n"),
        ({"messages": [{"role": "user", "content": "x", "name": "ada"}]}, "messages[0].name"),
        ({"chat_template_kwargs": {"x": 1}}, "chat_template_kwargs"),
        ({"input": "hi", "messages": None, "text": {"format": SCHEMA}}, "text.format"),
    ],
)
def test_what_it_can_not_do_is_refused_by_the_name_that_it_has_in_the_protocol(
    gateway: Served, given: Body, field: str
) -> None:
    answer = post(gateway, given, "responses" if "input" in given else "chat/completions")

    assert answer.status_code == 400
    assert (answer.json()["error"]["param"], answer.json()["error"]["code"]) == (field, "unsupported_parameter")


def test_hints_and_neutral_values_are_taken(gateway: Served) -> None:
    hints = {"metadata": {"a": "b"}, "store": True, "prompt_cache_key": "k", "service_tier": "auto", "top_p": None}
    neutral = {"frequency_penalty": 0.0, "logit_bias": {}, "n": 1, "response_format": {"type": "text"}, "top_k": -1}

    assert post(gateway, {**hints, **neutral}).status_code == 200


def test_n_answers_are_n_turns(serve: Serve) -> None:
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


def test_a_model_is_told_by_its_name(serve: Serve) -> None:
    url = serve(Limits(models=("scripted", "a/b"))).session("x")

    assert CLIENT.get(f"{url}/models/a/b").json()["id"] == "a/b"
    missing = CLIENT.get(f"{url}/models/other")
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


# -- what of a stream can be told --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("if a < b: `x` {y} [z] <div>", "if a < b: `x` {y} [z] <div>"),
        ("Code:\n```json\n{}\n```\n", "Code:\n```json\n{}\n```\n"),
        ('I look.\n<tool_call>{"name"', "I look.\n"),
        ("I look. <tool", "I look. "),
        ("I look. <too late", "I look. <too late"),
        ("I look.\n<weather city", "I look.\n"),
        ('He wrote "<tool_call>', 'He wrote "<tool_call>'),
        ('{"name": "weather"', ""),
        ("<think>Hm.</think>{", "<think>Hm.</think>"),
        ("\n <tool_call>", ""),
        ("one two ENDLESS", "one two "),
        ("one two ENT", "one two ENT"),
    ],
)
def test_only_what_may_become_a_call_or_a_stop_is_held_back_and_the_rest_makes_it_whole(text: str, known: str) -> None:
    pieces = StreamedText(("weather",), ("END", "zebra"))

    told = "".join(map(pieces.take, text))

    assert told == known
    assert told + pieces.rest(text) == text
