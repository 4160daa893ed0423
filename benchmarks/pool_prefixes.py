"""How much of its prompts a pool of servers has cached, by which server gets a request.

    python benchmarks/pool_prefixes.py --policy vllm --model path/to/model --vllm-python path/to/bin/python
    python benchmarks/pool_prefixes.py --json            # with the included model

Three callers with two copies: a training (samples of tasks that share a long system prompt), a gateway (sessions of
several turns), and agents that ask about a few long documents, each in a session of its own. Each is played without
`affinity`, by task alone (all requests of a session or task go to one copy), and with `affinity`, where the first of
them goes to the copy that knows most of its prompt. The texts are new each time.

vLLM says how many tokens it had cached. The included model caches nothing, and what is counted instead are the
characters of each prompt that its copy was given before: what a server would have cached that forgets nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from agentfw import Message, Request, Task
from agentfw.episode import Usage
from agentfw.request import Sampling
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_plugins.policies.pool.pool_balancing import Place
from agentfw_plugins.policies.pool.pool_policy import PoolPolicy

WAYS = ("off", "by task", "on")
TOKENS = 12
BLOCK = 64
"""Characters of a block: about the 16 tokens of vLLM's."""
_place: ContextVar[tuple[int, int]] = ContextVar("place")
"""How many requests got a copy before this one, and which copy it got."""


@dataclass
class Asker:
    """Asks one pool, and counts."""

    pool: PoolPolicy
    draw: random.Random
    size: float
    given: list[tuple[tuple[int, int], str, Usage]] = field(default_factory=list)
    """Of each request its place, its prompt, and what the copy says of it."""

    def text(self, words: int) -> str:
        return " ".join(str(self.draw.randrange(10**6)) for _ in range(max(1, round(self.size * words))))

    async def ask(self, messages: list[Message], task: int, sample: int = 0) -> str:
        sampling = Sampling(temperature=1.0, max_tokens=TOKENS, seed=sample)
        answer = await self.pool.generate(Request(messages, task=Task(task, 7, sample=sample), sampling=sampling))
        assert answer.usage is not None
        said = "".join(f"{message.role}: {message.content}\n" for message in messages)
        self.given.append((_place.get(), said, answer.usage))
        return answer.text

    def counts(self) -> dict[str, int]:
        if any(usage.cached for *_, usage in self.given):
            usages = [usage for *_, usage in self.given]
            return {"prompt": sum(one.prompt or 0 for one in usages), "cached": sum(one.cached or 0 for one in usages)}
        known: set[tuple[int, int]] = set()
        before = 0
        for (_, copy), said, _ in sorted(self.given, key=lambda one: one[0]):
            blocks = [(copy, hash(said[: start + BLOCK])) for start in range(0, len(said) - BLOCK + 1, BLOCK)]
            before += BLOCK * sum(block in known for block in blocks)
            known.update(blocks)
        return {"prompt": sum(len(said) for _, said, _ in self.given), "cached": before}

    async def training(self) -> None:
        """Eight tasks of four samples, all at once, with one system prompt."""
        system = self.text(150)
        tasks = [f"{system}\n{self.text(40)}" for _ in range(8)]
        await asyncio.gather(
            *(self.ask([Message("user", text)], n, s) for n, text in enumerate(tasks) for s in range(4))
        )

    async def sessions(self) -> None:
        """Eight sessions of four turns, which go on side by side."""

        async def session(number: int, texts: Sequence[str]) -> None:
            messages: list[Message] = []
            for text in texts:
                messages.append(Message("user", text))
                messages.append(Message("assistant", await self.ask(messages, number)))

        texts = [[self.text(60) for _ in range(4)] for _ in range(8)]
        await asyncio.gather(*(session(number, each) for number, each in enumerate(texts)))

    async def documents(self) -> None:
        """Thirty-two sessions that each ask one thing about one of eight documents, four at a time."""
        documents, room = [self.text(400) for _ in range(8)], asyncio.Semaphore(4)

        async def session(number: int) -> None:
            async with room:
                await self.ask([Message("user", f"{documents[number % 8]}\n{texts[number]}")], number)

        texts = [self.text(10) for _ in range(32)]
        order = self.draw.sample(range(32), 32)
        await asyncio.gather(*map(session, order))


async def measure(policy: str, settings: dict[str, Any], repeats: int, size: float, seed: int) -> dict[str, Any]:
    inner = {"name": policy, "settings": settings}
    pool = fresh_host(builtins=True, strict=False).create("policy", "pool", {"policy": inner, "replicas": 2})
    assert isinstance(pool, PoolPolicy)
    take = pool._balancer.take

    taken = itertools.count()
    way = ""

    async def noted(prompt: str, task: str = "") -> Place:
        place = await take("" if way == "by task" else prompt, task)
        _place.set((next(taken), place.replica))
        return place

    pool._balancer.take = noted  # type: ignore[method-assign]

    rows = []
    try:
        await Asker(pool, random.Random(seed), size).ask([Message("user", "Hello.")], 0)
        for repeat in range(repeats):
            for way in random.Random(repeat).sample(WAYS, len(WAYS)):
                pool._balancer.affinity = way != "off"
                for caller in ("training", "sessions", "documents"):
                    pool._balancer.forget()
                    asker = Asker(pool, random.Random(f"{seed} {repeat} {way} {caller}"), size)
                    play: Callable[[], Awaitable[None]] = getattr(asker, caller)
                    began = time.perf_counter()
                    await play()
                    rows.append({"caller": caller, "way": way, **asker.counts(), "s": time.perf_counter() - began})
                    print(rows[-1], file=sys.stderr)
    finally:
        await pool.close()
    return {"policy": policy, "repeats": repeats, "rows": summed(rows)}


def summed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for caller in ("training", "sessions", "documents"):
        for way in WAYS:
            mine = [row for row in rows if (row["caller"], row["way"]) == (caller, way)]
            prompt, cached = (sum(row.get(name, 0) for row in mine) for name in ("prompt", "cached"))
            seconds = sum(row["s"] for row in mine) / len(mine)
            each = {"prompts": prompt, "cached": cached / max(prompt, 1), "computed": prompt - cached}
            found.append({"caller": caller, "affinity": way, **each, "seconds": seconds})
    return found


def show(result: dict[str, Any]) -> None:
    columns = list(result["rows"][0])
    print_aligned(columns, [[told(row[name]) for name in columns] for row in result["rows"]])


def told(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        policy=("tiny", "policy of the copies"),
        model=("", "folder of its model"),
        vllm_python=("", "Python that has vLLM"),
        template=("", "chat template, for a model without one"),
        repeats=2,
        size=(1.0, "length of the texts, as a share of the usual one"),
        seed=7,
    ).parse_args(arguments)
    given = {"model": options.model, "python": options.vllm_python, "template": options.template}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value}
    if options.policy == "vllm":
        settings["arguments"] = ["--enforce-eager", "--max-model-len", "4096", "--max-num-seqs", "8"]
    found = asyncio.run(measure(options.policy, settings, options.repeats, options.size, options.seed))
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
