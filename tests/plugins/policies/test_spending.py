"""What a run spends: told on every kind of server, limited on request, and never spent for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, Script, completion, refusal, serving, tool_call
from command_line import Agentfw, Answer

COUNTED = {"prompt_tokens": 100, "completion_tokens": 10}
DETAILED = {**COUNTED, "prompt_tokens_details": {"cached_tokens": 40}}


def decision(usage: dict[str, Any] | None) -> Reply:
    """A chat completion that decides a conflict."""
    call = tool_call("decide", accept="A", ranking=["A", "B", "C", "D", "E"])
    return completion(None, message={"tool_calls": [call]}, top={"usage": usage})


def gpt_5(body: dict[str, Any]) -> Reply:
    for name in ("temperature", "top_p", "logprobs"):
        if name in body:
            words = f"Unsupported value: '{name}' does not support {body[name]} with this model."
            return refusal(400, words, param=name, code="unsupported_value")
    return decision(DETAILED)


def older(body: dict[str, Any]) -> Reply:
    if "return_token_ids" in body:
        return refusal(400, "Unrecognized request argument supplied: return_token_ids")
    return decision(COUNTED)


def silent(body: dict[str, Any]) -> Reply:
    return decision(None)


@pytest.fixture
def command(agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def call(*words: str, **settings: object) -> Answer:
        chosen = [word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
        return agentfw(*words, *chosen)

    return call


def react(address: str, **settings: object) -> tuple[tuple[str, ...], dict[str, object]]:
    """The words and settings for two users with three conflicts each."""
    small = {"environment__rounds": 3, "episodes": 2, "policy__base_url": address, "policy__model": "m"}
    return ("run", "calendar-react"), {**small, **settings}


@pytest.mark.parametrize(
    ("kind", "tokens", "cost"),
    [
        (gpt_5, "600 prompt, 240 of these cached, 60 sampled", 6 * (60 * 2 + 40 * 0.5 + 10 * 8) / 1e6),
        (older, "600 prompt, 60 sampled", 6 * (100 * 2 + 10 * 8) / 1e6),
        (silent, "unknown, and so is their cost", None),
    ],
)
def test_one_spec_runs_on_every_kind_of_server_and_tells_its_cost(
    kind: Script, tokens: str, cost: float | None, command: Callable[..., Answer]
) -> None:
    with serving(kind) as (address, server):
        prices = {"policy__price__prompt": 2, "policy__price__cached": 0.5, "policy__price__sampled": 8}
        words, settings = react(address, **prices)
        code, out, err = command(*words, **settings)

    assert code == 0
    told = next(line for line in out.splitlines() if line.startswith("tokens   "))
    assert tokens in told
    (run,) = Path("runs").iterdir()
    summary = json.loads((run / "summary.json").read_text())
    page = (run / "report.html").read_text()
    assert len(server.answered) == 6
    if cost is None:
        assert {summary["usage"][name] for name in ("prompt", "cached", "sampled", "cost")} == {None}
        assert "unknown" in page
        assert "tokens and cost unknown" in err
    else:
        assert summary["usage"]["cost"] == pytest.approx(cost)
        assert told.endswith(f"cost {cost:.4g}")
        assert f"{cost:.4g}" in page
        assert "tokens 660" in err
        assert "at the end" in err


def test_a_limit_that_cannot_be_kept_stops_the_run_and_is_no_pretence(command: Callable[..., Answer]) -> None:
    with serving(silent) as (address, server):
        words, settings = react(address, concurrency=1, budget__tokens=1_000_000)
        code, _, err = command(*words, **settings)
        (run,) = Path("runs").iterdir()

        assert (code, len(server.answered)) == (1, 1)
        assert "budget.tokens can't be kept" in err
        assert f"runs resume {run.name} --set budget.tokens=null" in err

        code, _, _ = command("runs", "resume", run.name, budget__tokens="null")
    assert (code, len(server.answered)) == (0, 6)


def test_a_run_whose_quota_ends_while_an_answer_is_on_its_way_is_resumed_without_asking_anything_again(
    command: Callable[..., Answer],
) -> None:
    answered = replace(decision(COUNTED), wait=0.5)
    ended = refusal(429, "used up", type="insufficient_quota")
    with serving(answered, ended) as (address, first):
        words, settings = react(address, concurrency=2)
        assert command(*words, **settings)[0] == 1
    with serving(decision(COUNTED)) as (address, second):
        assert command("runs", "resume", "last", policy__base_url=address)[0] == 0

    asked = [json.dumps(body, sort_keys=True) for body in (first.bodies[0], *second.bodies)]
    assert len(second.bodies) == 5
    assert len(set(asked)) == len(asked), "no answered request is asked again"


def test_money_without_a_price_is_an_error_before_anything_is_asked(command: Callable[..., Answer]) -> None:
    with serving(older) as (address, _):
        words, settings = react(address, budget__money=1)
        code, _, err = command(*words, **settings)

    assert code == 2
    assert "budget.money needs the price of the policy openai" in err
    assert "policy.price.prompt" in err
    assert not Path("runs").exists()
    code, _, err = command("run", "calendar", budget__money=1)
    assert code == 2
    assert "costs nothing" in err
