"""What a policy in this process can do, and that it does it as documented."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_gateways import TOKENS

from agentfw import Generation, Intervention, Message, Moment, Request
from agentfw.errors import SettingsError
from agentfw.request import Sampling
from agentfw.turns.parsing import StreamedText
from agentfw_plugins.gateway.live import Limits, limits_of, opened
from agentfw_plugins.policies.http.openai_policy import OpenAIPolicy, OpenAISettings

from .conftest import CLIENT, Serve, Served, served

Body = dict[str, Any]
SCHEMA = {"type": "json_schema", "name": "a", "schema": {}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def post(gateway: Served, body: Body, path: str = "chat/completions") -> httpx.Response:
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], **body}
    return CLIENT.post(f"{gateway.session('local')}/{path}", json=asked)


REFUSED: dict[str, Body] = {
    "response_format": {"response_format": {"type": "json_object"}},
    "logit_bias": {"logit_bias": {"5": 1}},
    "top_logprobs": {"top_logprobs": 2, "logprobs": True},
    "n": {"n": 2, "stream": True},
    "messages[0].name": {"messages": [{"role": "user", "content": "x", "name": "ada"}]},
    "text.format": {"input": "hi", "messages": None, "text": {"format": SCHEMA}},
}


def test_what_it_can_not_do_is_refused_by_name_and_hints_and_neutral_values_are_taken(gateway: Served) -> None:
    for field, given in REFUSED.items():
        answer = post(gateway, given, "responses" if "input" in given else "chat/completions")

        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error["param"], error["code"]) == (field, "unsupported_parameter")
    hints = {"metadata": {"a": "b"}, "store": True, "prompt_cache_key": "k", "service_tier": "auto", "top_p": None}
    neutral = {"frequency_penalty": 0.0, "logit_bias": {}, "n": 1, "response_format": {"type": "text"}, "top_k": -1}
    assert post(gateway, {**hints, **neutral}).status_code == 200


def test_n_answers_are_n_turns(serve: Serve) -> None:
    gateway = serve(policy="scripted", assignments=['policy.replies=["one", "two", "three"]'])

    answer = post(gateway, {"n": 3}).json()

    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert sorted(choice["message"]["content"] for choice in answer["choices"]) == ["one", "three", "two"]
    turns = gateway.episode("local").turns
    assert answer["usage"]["completion_tokens"] == sum(turn.count for turn in turns) > turns[0].count
    assert len(turns) == 3


def test_a_streamed_response_has_the_logprobs_that_were_asked_for(serve: Serve) -> None:
    gateway, asked = serve(policy=str(TOKENS)), {"input": "hi", "include": ["message.output_text.logprobs"]}

    told = [post(gateway, {**asked, "messages": None, "stream": one}, "responses").text for one in (False, True)]

    assert all('"logprob"' in one for one in told)


def both(moment: Moment) -> Iterator[Intervention]:
    yield from (Intervention("weather", {"city": city}) for city in ("Rome", "Oslo"))


def test_several_calls_come_apart_in_a_stream(serve: Serve) -> None:
    gateway = serve(policy="scripted", assignments=[f"policy.rule={__name__}:both"])
    given: Any = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "tools": [WEATHER]}

    with gateway.openai("local").chat.completions.stream(**given) as events:
        [choice] = events.get_final_completion().choices

    calls = [json.loads(call.function.arguments)["city"] for call in choice.message.tool_calls or ()]
    assert calls == ["Rome", "Oslo"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_that_is_required_and_not_made_is_an_error(gateway: Served, choice: object) -> None:
    whole, stream = (post(gateway, {"tools": [WEATHER], "tool_choice": choice, "stream": one}) for one in (False, True))

    assert "no_call_made" in whole.text
    assert "no_call_made" in stream.text
    assert (whole.status_code, stream.status_code) == (500, 200)


def test_stop_cuts_the_text(gateway: Served) -> None:
    assert post(gateway, {"stop": ["said", "xyz"]}).json()["choices"][0]["message"]["content"] == "You "


def test_a_script_without_answers_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing to answer with"):
        opened(tmp_path, policy="scripted")

    assert not list(tmp_path.iterdir())


def test_a_gateway_reads_the_layers_of_settings_that_runs_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFW_SEED", "11")
    monkeypatch.setenv("AGENTFW_POLICY__MAX_TOKENS", "9")
    live = opened(tmp_path, policy="tiny", assignments=("policy.batch=2",))
    spec = live.assembly.spec

    assert limits_of(live, Limits(), ("any", "small"), None).models == (), "it answers to all names"
    assert spec.seed == 11
    assert spec.policy.settings == {"max_tokens": 9, "batch": 2}


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("if a < b: `x` {y} [z] <div>", "if a < b: `x` {y} [z] <div>"),
        ('I look.\n<tool_call>{"name"', "I look.\n"),
        ("I look. <too late", "I look. <too late"),
        ("I look.\n<weather city", "I look.\n"),
        ('He wrote "<tool_call>', 'He wrote "<tool_call>'),
        ('{"name": "weather"', ""),
        ("<think>Hm.</think>{", "<think>Hm.</think>"),
        ("one two ENDLESS", "one two "),
        ("one two ENT", "one two ENT"),
    ],
)
def test_only_what_may_become_a_call_or_a_stop_is_held_back_and_the_rest_makes_it_whole(text: str, known: str) -> None:
    told: list[str] = []
    pieces = StreamedText(told.append, ("weather",), ("END", "zebra"))

    for letter in text:
        pieces.take(letter)
    sure = "".join(told)
    pieces.end(text)

    assert sure == known
    assert "".join(told) == text


def test_a_policy_behind_a_gateway_has_the_same_tokens_streamed_and_whole(small_model: Path, tmp_path: Path) -> None:
    from agentfw_plugins.models import Chat

    told: list[str] = []

    async def run(url: str) -> list[Generation]:
        policy = OpenAIPolicy(OpenAISettings(base_url=f"{url}/s/tea/v1", model="transformers", token_ids="on"))
        request = Request([Message("user", "tea please")], sampling=Sampling(max_tokens=12, seed=3))
        whole, streamed = await policy.generate(request), await policy.stream(request, told.append)
        await policy.close()
        return [whole, streamed]

    settings = [f"policy.model={small_model}", "policy.device=cpu"]
    with served(tmp_path, policy="transformers", assignments=settings) as gateway:
        whole, streamed = asyncio.run(run(gateway.url))
        recorded = [(turn.prompt_ids, turn.token_ids, turn.logprobs) for turn in gateway.episode().turns]

    assert streamed == whole
    assert recorded == [(whole.prompt_ids, whole.token_ids, whole.logprobs)] * 2
    assert Chat(small_model).text(whole.token_ids) == whole.text
    assert len(streamed.token_ids) == len(streamed.logprobs) == 12
    assert "".join(told) == whole.text
    assert len(told) > 1
