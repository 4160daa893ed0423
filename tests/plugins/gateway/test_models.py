"""Several models behind one gateway: who answers, who answers instead, and what the record says of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import Server, chunks, completion, refusal, serving

from agentfw import Generation, Policy, Request
from agentfw.errors import EndpointError, SettingsError, UnknownNameError, UsageError
from agentfw_plugins.gateway.live import Limits, opened

from .conftest import CLIENT, Served, served

Body = dict[str, Any]
ASK: Body = {"model": "big", "messages": [{"role": "user", "content": "Which tea?"}]}
Start = Callable[..., tuple[Served, Server, Server]]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Start]:
    """A gateway with the policy `scripted`, and the models big and small, each of a server of its own."""
    with ExitStack() as stack:

        def start(
            *script: Any, fallbacks: tuple[str, ...] = ("big=small",), **more: Any
        ) -> tuple[Served, Server, Server]:
            big_at, big = stack.enter_context(serving(*script))
            small_at, small = stack.enter_context(serving(completion("from small")))
            settings = [f"model.big.base_url={big_at}", f"model.small.base_url={small_at}", "model.small.model=s-1"]
            settings.append("policy.replies=['from the policy']")
            options = {"policy": "scripted", "models": ("big=openai", "small=openai"), "fallbacks": fallbacks, **more}
            options["assignments"] = [*settings, *more.get("assignments", ())]
            return stack.enter_context(served(tmp_path / "runs", **options)), big, small

        yield start


def post(gateway: Served, body: Body = ASK, path: str = "chat/completions", session: str = "tea") -> httpx.Response:
    return CLIENT.post(f"{gateway.session(session)}/{path}", json=body)


def test_the_request_names_the_model(two: Start) -> None:
    gateway, big, small = two(completion("from big"))
    client = gateway.openai()

    said = [
        client.chat.completions.create(**{**ASK, "model": name}).choices[0].message.content
        for name in ("big", "small", "agentfw")
    ]

    assert said == ["from big", "from small", "from the policy"]
    assert big.bodies[-1]["model"] == "big", "where no other name is set, its server gets the one that was asked for"
    assert small.bodies[-1]["model"] == "s-1"
    told = CLIENT.get(f"{gateway.url}/s/tea").json()["turns"]
    assert [turn["model"] for turn in told] == ["big", "small", ""]
    assert [model.id for model in client.models.list()] == ["agentfw", "scripted", "big", "small"]
    assert client.models.retrieve("big").id == "big"


def test_a_model_that_is_not_there_is_said_so(two: Start) -> None:
    gateway, _, _ = two(limits=Limits(models=("tea", "a/b")))

    answers = [post(gateway, {**ASK, "model": name}) for name in ("huge", "tea")]
    told = [CLIENT.get(f"{gateway.url}/v1/models/{name}") for name in ("huge", "a/b")]

    assert [answer.status_code for answer in answers] == [404, 200]
    assert answers[0].json()["error"]["code"] == "model_not_found"
    assert "tea, a/b, big, small" in answers[0].json()["error"]["message"]
    assert [answer.status_code for answer in told] == [404, 200]
    assert told[0].json()["error"]["code"] == "model_not_found"


def test_another_model_answers_where_one_is_away(two: Start) -> None:
    away = (429, 500, 503, 529)
    script = [one for status in away for one in (refusal(status, "busy"), completion("from big"))]
    gateway, big, _ = two(*script)

    for status in away:
        first, second = (post(gateway, session=f"tea-{status}") for _ in range(2))

        assert first.json()["choices"][0]["message"]["content"] == "from small", status
        assert (first.headers["x-agentfw-model"], second.headers["x-agentfw-model"]) == ("small", "big")
        session = gateway.episode(f"tea-{status}")
        assert [turn.model for turn in session.turns] == ["small", "big"]
        [event] = [event.data for event in session.events if event.name == "fell_back"]
        assert (event["model"], event["instead"]) == ("big", "small")
    assert len(big.bodies) == len(script), "each request asks it anew"


@pytest.mark.parametrize(
    ("fallbacks", "statuses"), [(("big=small",), (400, 401, 403, 404, 422)), ((), (503,))], ids=["request", "alone"]
)
def test_a_refusal_that_no_other_model_may_answer_is_passed_on(
    two: Start, fallbacks: tuple[str, ...], statuses: tuple[int, ...]
) -> None:
    gateway, _, small = two(*(refusal(status, f"no {status}") for status in statuses), fallbacks=fallbacks)

    answers = [post(gateway) for _ in statuses]

    told = [(answer.status_code, answer.json()["error"]["message"]) for answer in answers]
    assert told == [(status, f"no {status}") for status in statuses]
    assert not small.bodies


def test_no_other_model_is_asked_where_a_budget_is_spent(two: Start) -> None:
    gateway, big, small = two(assignments=("hook.budget.user_tokens=0",))

    answer = post(gateway, {**ASK, "user": "ada", "max_tokens": 9})

    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "insufficient_quota")
    assert (big.bodies, small.bodies) == ([], [])
    assert [event.name for event in gateway.episode().events if event.name == "fell_back"] == []


def test_an_unreachable_model_has_a_fallback_in_streams_and_other_formats(two: Start) -> None:
    gateway, _, _ = two(assignments=("model.big.base_url=http://127.0.0.1:9/v1",))

    streamed = post(gateway, {**ASK, "stream": True})
    message = post(gateway, {**ASK, "max_tokens": 9}, "messages")

    assert (streamed.headers["x-agentfw-model"], streamed.status_code) == ("small", 200)
    assert "from small" in streamed.text
    assert message.json()["content"] == [{"type": "text", "text": "from small"}]


def test_who_wants_two_answers_gets_two_or_none(two: Start) -> None:
    gateway, *_ = two(refusal(503, "busy"), completion("from big"), fallbacks=("big=agentfw",))

    answers = [post(gateway, {**ASK, "n": 2}, session=name) for name in ("tea", "milk")]

    assert [answer.status_code for answer in answers] == [503, 200]


def test_a_stream_that_has_begun_stays_with_its_model(two: Start) -> None:
    begun = chunks({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Gre"}}]}, done=False)
    gateway, _, small = two(begun)

    answer = post(gateway, {**ASK, "stream": True})

    told = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    assert told[0]["choices"][0]["delta"]["content"] == "Gre"
    assert "error" in told[-1]
    assert answer.headers["x-agentfw-model"] == "big"
    assert not small.bodies


class BreaksOff(Policy):
    async def generate(self, request: Request) -> Generation:
        raise EndpointError("the server is gone", fix="start it again")

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        tell("Gre")
        raise EndpointError("the server is gone", fix="start it again")


def test_a_model_in_this_process_that_has_begun_is_not_gone_on_for_by_another(two: Start) -> None:
    gateway, _, small = two(fallbacks=("agentfw=small",))
    gateway.live.assembly.policy.inside = BreaksOff()

    answer = post(gateway, {**ASK, "model": "agentfw", "stream": True})

    assert "Gre" in answer.text
    assert "the server is gone" in answer.text
    assert not small.bodies
    assert "from small" in post(gateway, {**ASK, "model": "agentfw"}, session="whole").text


def test_fallbacks_go_round_no_more_than_once(two: Start) -> None:
    gateway, _, _ = two(
        refusal(503, "busy"),
        fallbacks=("big=small", "small=big"),
        assignments=("model.small.base_url=http://127.0.0.1:9/v1",),
    )

    answer = post(gateway)

    assert answer.status_code == 502


def test_models_go_on_in_a_resumed_run(tmp_path: Path) -> None:
    with serving(completion("fine")) as (address, _):
        options: dict[str, Any] = {
            "models": ("big=openai",),
            "assignments": [f"model.big.base_url={address}", "policy.replies=['x']"],
        }
        with served(tmp_path / "runs", policy="scripted", fallbacks=("big=agentfw",), **options) as gateway:
            assert post(gateway).status_code == 200
            gateway.stop(keeps_sessions=True)
            run = gateway.live.folder.path.name

        with served(tmp_path / "runs", resume=run) as gateway:
            assert post(gateway).json()["choices"][0]["message"]["content"] == "fine"
            assert [turn.model for turn in gateway.episode().turns] == ["big", "big"]
            assert gateway.live.assembly.spec.models[0].fallback == "agentfw"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"models": ("big=openai",), "fallbacks": ("big=huge",)}, SettingsError, "huge"),
        ({"models": ("big=openai",), "fallbacks": ("huge=big",)}, UsageError, "no model huge"),
        ({"models": ("big=openai", "big=tiny")}, SettingsError, "listed twice"),
        ({"models": ("big=opnai",)}, UnknownNameError, "openai"),
        ({"models": ("big=openai",), "assignments": ("model.big.base=x",)}, SettingsError, "model.big"),
    ],
)
def test_mistakes_are_errors_before_anything_begins(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        opened(tmp_path / "runs", policy="tiny", **options)

    assert not (tmp_path / "runs").exists()
