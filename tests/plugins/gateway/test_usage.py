"""What answers took is counted as the provider counts it, in tokens and money, and budgets hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from command_line import Agentfw
from waiting import until

from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits

from .conftest import CLIENT, Served, served
from .counting_provider import Charge, Provider, counting

FIXED = Charge("gpt-5", 1000, 400, 0, 0, 200, 150)
PRICE = 0.0033  # dollars, of the answer above


Front = Callable[..., Served]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with counting() as running:
        yield running


@pytest.fixture
def front(tmp_path: Path, provider: Provider) -> Iterator[Front]:
    """Starts gateways before the provider, which speaks all protocols."""
    with ExitStack() as stack:

        def start(*budget: str, limits: Limits | None = None, price_list: str = "openai", **more: Any) -> Served:
            settings = [f"policy.base_url={provider.url}", f"policy.price_list={price_list}"]
            settings += ['policy.apis=["responses", "messages"]', *(f"hook.budget.{one}" for one in budget)]
            options = {"policy": "openai", "assignments": settings, **more}
            return stack.enter_context(served(tmp_path / "runs", limits, **options))

        yield start


def fixed(provider: Provider) -> None:
    provider._draw = lambda model, draw: FIXED  # the same for each answer


def say(gateway: Served, user: str = "", *, session: str = "tea", key: str = "none", **more: Any) -> Any:
    """Ask for one answer, of at most so many tokens that budgets know what it takes."""
    asked = {"model": "gpt-5", **more, "messages": [{"role": "user", "content": "Fine?"}], "max_completion_tokens": 200}
    completions: Any = gateway.openai(session, key).chat.completions
    return completions.create(**asked, **({"user": user} if user else {}))


def spent(gateway: Served, by: str = "model", **more: str) -> dict[str, Any]:
    found: dict[str, Any] = CLIENT.get(f"{gateway.url}/usage", params={"by": by, **more}).raise_for_status().json()
    return found


def test_each_protocol_is_counted_as_its_provider_counts(front: Front, provider: Provider, agentfw: Agentfw) -> None:
    gateway = front(price_list="anthropic")
    messages: Any = [{"role": "user", "content": "Fine?"}]
    own = gateway.openai()
    claude = gateway.anthropic()
    asked: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 500, "messages": messages}

    own.chat.completions.create(model="gpt-5", messages=messages)
    list(own.chat.completions.create(model="gpt-5", messages=messages, stream=True))
    own.responses.create(model="gpt-5", input="Fine?")
    list(own.responses.create(model="gpt-5", input="Fine?", stream=True))
    claude.messages.create(**asked)
    with claude.messages.stream(**asked) as stream:
        stream.until_done()

    turns = gateway.episode().turns
    recorded = [(turn.usage.prompt, turn.usage.cached, turn.usage.sampled) for turn in turns]
    assert recorded == [(one.prompt, one.cached, one.sampled) for one in provider.charged]
    bill = [one for one in provider.charged if one.model.startswith("claude")]
    rows = {row["name"]: row for row in spent(gateway)["rows"]}
    paid = rows["claude-sonnet-4-5"]
    assert (paid["requests"], paid["prompt"]) == (2, sum(one.prompt for one in bill))
    assert paid["written"] == sum(one.written + one.written_long for one in bill)
    assert paid["money"] == pytest.approx(float(sum((one.money for one in bill), Decimal())))
    assert (rows["gpt-5"]["requests"], rows["gpt-5"]["unpriced"]) == (4, 4)  # on no list of this provider
    assert "?" in agentfw("serve", "usage").out.split(), "what has no known price isn't free"


def test_it_is_told_by_user_key_session_and_day_on_the_command_line_and_in_the_metrics(
    front: Front, provider: Provider, agentfw: Agentfw
) -> None:
    fixed(provider)
    gateway = front()
    say(gateway, "ada")
    say(gateway, "ada", session="trip")
    say(gateway, "bob", session="trip-of-bob")

    by_user = agentfw("serve", "usage", "--by", "user", "--json").json
    by_session = agentfw("serve", "usage", "--by", "session", "--user", "ada", "--json").json
    table = agentfw("serve", "usage", "--by", "user")
    figures = CLIENT.get(f"{gateway.url}/metrics").text

    assert [(row["name"], row["requests"], row["prompt"], row["sampled"]) for row in by_user["rows"]] == [
        ("ada", 2, 2800, 400),
        ("bob", 1, 1400, 200),
    ]
    assert {row["name"] for row in by_session["rows"]} == {"tea", "trip"}
    assert by_user["total"]["money"] == pytest.approx(3 * PRICE)
    assert {"ada", "bob", "total", "0.0099"} <= set(table.out.split())
    for kind, tokens in (("prompt", 4200), ("cached", 1200), ("sampled", 600)):
        assert f'agentfw_model_tokens_total{{kind="{kind}",model="gpt-5"}} {tokens}.0' in figures
        assert f'agentfw_tokens_total{{kind="{kind}"}} {tokens}.0' in figures
    assert float(figures.partition('agentfw_cost_total{model="gpt-5"} ')[2].split()[0]) == pytest.approx(3 * PRICE)
    assert not {"ada", "bob", "tea", "trip"} & set(figures.replace('"', " ").split())
    assert spent(gateway, "user", user="bob")["total"]["requests"] == 1
    assert agentfw("serve", "usage", "--since", "2999-01-01").out.startswith("Nothing was spent since")
    gateway.stop()
    assert any("sums" in one for one in agentfw("serve", "forget", "ada", "--yes", "--json").ok.json["left"])
    left = agentfw("serve", "usage", "--by", "session", "--json").json["rows"]
    assert {row["name"]: row["requests"] for row in left} == {"": 2, "trip-of-bob": 1}


LIES: list[Callable[[dict[str, Any]], Any]] = [
    lambda usage: None,
    lambda usage: {**usage, "prompt_tokens": -5},
    lambda usage: {**usage, "completion_tokens": 10**30},
    lambda usage: ["a lot"],
]


def test_an_upstream_that_lies_about_usage_leaves_nothing_wrong_behind(front: Front, provider: Provider) -> None:
    fixed(provider)
    gateway = front("user_tokens=1000000")

    for number, provider.lies in enumerate(LIES, start=1):
        answer = CLIENT.post(
            f"{gateway.session(f'tea-{number}')}/chat/completions",
            json={"model": "gpt-5", "user": "ada", "messages": [{"role": "user", "content": "Fine?"}]},
        )

        assert answer.json()["choices"][0]["message"]["content"] == "Fine."
        [turn] = gateway.episode(f"tea-{number}").turns
        assert turn.usage.tokens is None
        [row] = spent(gateway)["rows"]
        assert (row["requests"], row["estimated"]) == (number, number)
        assert 0 < row["tokens"] < 300 * number  # what isn't told is reckoned by the length of the texts


def test_embeddings_are_counted_and_limited_as_answers_are(front: Front, provider: Provider) -> None:
    gateway = front("user_tokens=16")
    embeddings: Any = gateway.openai().embeddings

    for _ in range(2):
        embeddings.create(model="gpt-5", input="tea", user="ada")
    with pytest.raises(openai.RateLimitError, match="16 of 16 tokens"):
        embeddings.create(model="gpt-5", input="tea", user="ada")

    assert [(row["name"], row["prompt"]) for row in spent(gateway, "user")["rows"]] == [("ada", 16)]
    assert len(list(gateway.openai().models.list())) > 0  # lists are free


def test_who_has_spent_their_budget_is_refused_by_name_and_others_are_not(front: Front, provider: Provider) -> None:
    fixed(provider)
    budget = ("day.user_money=0.005", 'users."guest@example.org".tokens=0')
    gateway = front(*budget)

    for _ in range(2):
        say(gateway, "ada")
    with pytest.raises(openai.RateLimitError) as refused:
        say(gateway, "ada", stream=True)
    with pytest.raises(openai.RateLimitError) as never:
        say(gateway, "guest@example.org", session="guests")
    say(gateway, "bob", session="bobs")

    assert (refused.value.status_code, refused.value.response.headers["x-should-retry"]) == (429, "false")
    assert "the budget of user ada for this day (UTC) is spent: 0.0066 of 0.005 money" in refused.value.message
    assert "hook.budget.day.user_money" in refused.value.message
    assert "the budget of user guest@example.org is spent: 0 of 0 tokens" in never.value.message
    assert 'raise the limit hook.budget.users."guest@example.org".tokens' in never.value.message
    assert len(provider.charged) == 3
    assert {row["name"]: row["requests"] for row in spent(gateway, "user")["rows"]} == {"ada": 2, "bob": 1}
    with pytest.raises(openai.RateLimitError, match=r"0\.0066 of 0\.005 money"):
        say(front(*budget), "ada")  # a budget outlasts the record


def test_many_requests_at_once_exceed_a_budget_by_one_answer_at_most(front: Front, provider: Provider) -> None:
    fixed(provider)
    provider.seconds = 0.1
    gateway = front("user_tokens=5000")

    def ask(number: int) -> int:
        try:
            say(gateway, "ada", session=f"s{number}")
        except openai.RateLimitError:
            return 429
        return 200

    with ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(ask, range(24)))

    assert statuses.count(200) == 4  # 1,600 tokens each: the fourth begins below the limit
    assert spent(gateway)["total"]["tokens"] == 6400


def test_a_stream_that_its_client_leaves_is_counted_too(front: Front, provider: Provider) -> None:
    fixed(provider)
    provider.seconds = 2.0
    gateway = front("user_tokens=1000")
    body = {"model": "gpt-5", "user": "ada", "stream": True, "messages": [{"role": "user", "content": "Fine? " * 100}]}

    with pytest.raises(httpx.ReadTimeout):
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body, timeout=0.5)
    until(lambda: spent(gateway)["rows"])

    [row] = spent(gateway)["rows"]
    assert (row["requests"], row["estimated"]) == (1, 1)
    assert row["prompt"] == 150


def test_an_own_price_holds_for_the_name_that_was_asked_and_what_was_never_cached_is_not_cheaper(
    front: Front, provider: Provider
) -> None:
    fixed(provider)
    provider.lies = lambda usage: {**usage, "prompt_tokens_details": {"cached_tokens": 10**6}}
    prices = ['policy.prices."mine-1.5".prompt=2', 'policy.prices."mine-1.5".sampled=4']  # as an error tells it
    gateway = front(assignments=[f"policy.base_url={provider.url}", *prices])

    say(gateway, model="mine-1.5")

    assert spent(gateway)["total"]["money"] == pytest.approx((1400 * 2 + 200 * 4) / 1e6)


def test_a_key_is_shown_what_was_spent_with_it_alone(front: Front, provider: Provider, keys: KeyFile) -> None:
    fixed(provider)
    ada, bob = keys.add("ada"), keys.add("bob")
    gateway = front("keys.ada.day_tokens=1", limits=Limits(keys=("the-operators",), key_file=keys.path))
    say(gateway, key=ada)
    say(gateway, key=bob)
    gateway.openai(key=bob).embeddings.create(model="gpt-5", input="tea")
    with pytest.raises(openai.RateLimitError, match="the budget of key ada for this day"):
        say(gateway, key=ada)

    def told(key: str) -> dict[str, int]:
        headers = {"authorization": f"Bearer {key}"}
        found = CLIENT.get(f"{gateway.url}/usage?by=key", headers=headers).raise_for_status()
        return {row["name"]: row["requests"] for row in found.json()["rows"]}

    assert told(ada) == {"ada": 1}
    assert told("the-operators") == {"ada": 1, "bob": 2}
    assert CLIENT.get(f"{gateway.url}/usage").status_code == 401
    assert CLIENT.get(f"{gateway.url}/usage?by=nobody", headers={"authorization": f"Bearer {ada}"}).status_code == 400
