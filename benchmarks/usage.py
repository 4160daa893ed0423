"""Does the gateway count what the provider counts, and does a budget hold?

A provider on this machine draws what each answer takes: new and cached tokens, tokens that are written to a cache for
five minutes or an hour, and thoughts. It is asked through `agentfw serve` over chat completions, responses, messages
and generateContent, half of the answers streamed, by users with keys, 16 at a time. What the ledger and the record say
is compared with what the provider charged, by a list of prices of the provider's own.

Then users with a budget ask many at once until they are refused. Required: the ledger equals the bill to the token and
to the cent, and no budget is exceeded by more than the largest answer.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from agentfw.runs import read_sessions
from agentfw_benchmarks import TESTS, Options, tell
from agentfw_benchmarks.gateways import serving
from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.hooks.ledger import FILE, Ledger

sys.path.extend([str(TESTS), str(TESTS / "plugins" / "gateway")])

from counting_provider import MODELS, Charge, Provider, counting  # type: ignore[import-not-found]

AT_ONCE = 16
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
USERS = ("ada", "bob", "eve")


@contextmanager
def gateway_before(provider: Provider, folder: Path, *more: str) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """A gateway before the provider: its address, the folder of its run and a key for each user."""
    keys = KeyFile(folder / "keys.json")
    secrets = {user: keys.add(user) for user in USERS}
    settings = [f"policy.base_url={provider.url}", "policy.price_list=openai", 'policy.apis=["responses"]']
    for alias, protocol in (("anthropic", "messages"), ("google", "google")):
        more = (*more, "--also", f"{alias}=openai")
        settings += [f"model.{alias}.{setting}" for setting in (f"base_url={provider.url}", f"protocol={protocol}")]
        settings += [f"model.{alias}.price_list={alias}", f'model.{alias}.apis=["{protocol}"]']
    words = [word for setting in settings for word in ("--set", setting)]
    with serving(folder, "--policy", "openai", "--memory", "none", *words, *more) as (url, run):
        yield url, run, secrets


def ask(client: httpx.Client, protocol: str, *, key: str, streams: bool, session: str = "", most: int = 0) -> int:
    """Ask for one answer. Returns the status."""
    model, said = MODELS[protocol], [{"role": "user", "content": "Is it fine?"}]
    path = PATHS.get(protocol, "")
    body: dict[str, Any] = {"model": model, "messages": said, "stream": streams, "max_tokens": most or 4000}
    if protocol == "responses":
        body = {"model": model, "input": said, "stream": streams, "max_output_tokens": most or 4000}
    elif protocol == "google":
        path = f"/v1beta/models/{model}:{'streamGenerateContent?alt=sse' if streams else 'generateContent'}"
        body = {"contents": [{"role": "user", "parts": [{"text": "Is it fine?"}]}]}
        body["generationConfig"] = {"maxOutputTokens": most or 4000}
    elif protocol == "chat":
        body["max_completion_tokens"] = body.pop("max_tokens")
    headers = {"authorization": f"Bearer {key}", **({"x-agentfw-session": session} if session else {})}
    answer = client.post(path, json=body, headers=headers)
    assert answer.status_code in (200, 429), (protocol, answer.status_code, answer.text[:500])
    return answer.status_code


def compared(requests: int, seed: int, folder: Path) -> dict[str, Any]:
    """What the ledger and the record have, beside the bill."""
    draw = random.Random(seed)
    with counting(seed) as provider, gateway_before(provider, folder) as (url, run, secrets):
        asked = [(draw.choice([*MODELS]), draw.choice(USERS), draw.random() < 0.5) for _ in range(requests)]
        with httpx.Client(base_url=url, timeout=60) as client, ThreadPoolExecutor(AT_ONCE) as pool:
            work = [pool.submit(ask, client, name, key=secrets[user], streams=streams) for name, user, streams in asked]
            statuses = Counter(one.result() for one in work)
            told = client.get("/usage?by=user", headers={"authorization": f"Bearer {secrets['ada']}"}).json()
        episodes = read_sessions(run)
    bill, rows = _sums(provider.charged), {row.name: row for row in Ledger(folder / FILE).report("model")}
    turns = [turn.usage for episode in episodes for turn in episode.turns]
    money = sum(Decimal(repr(row.money)) for row in rows.values())
    cents = sum((charge.money for charge in provider.charged), Decimal())
    users = Counter(user for _, user, _ in asked)
    counted = {name: (row.prompt, row.sampled, row.cached, row.written) for name, row in rows.items()}
    apart = [abs(ours - theirs) for model in bill for ours, theirs in zip(counted[model], bill[model], strict=True)]
    charged = sum(sum(one[:2]) for one in bill.values())
    return {
        "requests": requests,
        "answered": statuses[200],
        "streamed": sum(streams for _, _, streams in asked),
        "tokens charged": charged,
        "tokens off in the ledger": sum(apart),
        "tokens off in the record": abs(sum((one.prompt or 0) + (one.sampled or 0) for one in turns) - charged),
        "charged": round(float(cents), 2),
        "off by": round(float(abs(money - cents)), 6),
        "answers off by user": abs(users["ada"] - told["total"]["requests"]),
    }


def _sums(charges: Sequence[Charge]) -> dict[str, tuple[int, int, int, int]]:
    """Prompt, generated, cached and written tokens by model."""
    found: dict[str, tuple[int, int, int, int]] = {}
    for one in charges:
        before = found.get(one.model, (0, 0, 0, 0))
        new = (one.prompt, one.sampled, one.cached, one.written + one.written_long)
        found[one.model] = tuple(map(sum, zip(before, new, strict=True)))  # type: ignore[assignment]
    return found


def budgets(seed: int, folder: Path) -> dict[str, Any]:
    """By how much budgets are exceeded when everybody asks as much as they can at once."""
    limits = {"ada": ("money", 0.2), "bob": ("tokens", 60_000), "eve": ("money", 0.0)}
    words = [f"hook.budget.keys.{user}.day_{unit}={most}" for user, (unit, most) in limits.items()]
    more = [word for each in words for word in ("--set", each)]
    draw, found = random.Random(seed), dict[str, Any]()
    with counting(seed, seconds=0.05) as provider, gateway_before(provider, folder, *more) as (url, _, secrets):
        with httpx.Client(base_url=url, timeout=100) as client, ThreadPoolExecutor(AT_ONCE) as pool:
            asked = [(name, user) for user in USERS for name in draw.choices([*MODELS], k=100)]
            draw.shuffle(asked)
            work = [(user, pool.submit(ask, client, name, key=secrets[user], streams=False)) for name, user in asked]
            statuses = Counter((user, one.result()) for user, one in work)
        ledger, largest = Ledger(folder / FILE), max(provider.charged, key=lambda one: one.money)
        most_tokens = max(one.prompt + one.sampled for one in provider.charged)
    for user, (unit, most) in limits.items():
        row = ledger.spent("key", user)
        spent, answer = (row.money, float(largest.money)) if unit == "money" else (row.tokens, most_tokens)
        exceeded = max(0.0, spent - most)
        found[user] = {
            "limit": f"{most:,} {unit}",
            "answered": statuses[user, 200],
            "refused": statuses[user, 429],
            "spent": round(spent, 4),
            "exceeded by, in largest answers": round(exceeded / answer, 2),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, requests=1000, seed=7).parse_args(arguments)
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        found = compared(options.requests, options.seed, Path(first))
        found["budgets"] = budgets(options.seed, Path(second))
        return tell(found, options.json)


if __name__ == "__main__":
    main()
