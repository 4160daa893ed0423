"""How many files a single piece of work goes through, and how often it comes back to one that it had left.

    python benchmarks/hops.py

Counted are the files of this project whose functions are entered, and every time that a function is entered in another
file than the one before, in which something had been entered already. Both are the same on every machine. The work is
done several times before it is counted, so that nothing of it is loaded or computed for the first time.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from agentfw_benchmarks import Options, tell
from agentfw_memory import NewSkill, SkillGraph

WARMING = 20
OURS = ("/agentfw", "/agentfw_")
"""How the name of a package of ours begins, in a path."""
WORDS = (
    *("slot", "lunch", "meeting", "calendar", "mail", "early"),
    *("late", "phone", "window", "hotel", "train", "invoice"),
)


def recalled() -> Callable[[], object]:
    """A recall of a user with skills of their own and shared ones, in a graph in memory."""
    graph = SkillGraph.open(":memory:", tenant="team", embedder="hash")
    skills = graph.add_all(
        NewSkill(
            f"user{place % 5}",
            f"{WORDS[place % 12]} {WORDS[place * 5 % 12]} {WORDS[place * 7 % 11]} number {place}",
            scenarios=(f"scenario{place % 6}",),
            visibility="private" if place % 3 else "shared",
            metadata={"kind": "note"} if place % 2 else {},
        )
        for place in range(200)
    )
    for trip in range(40):
        used = [skills[(trip * step) % 200].id for step in (3, 5, 9)]
        trajectory = {"id": f"t{trip}", "user": f"user{trip % 5}", "query": "q", "skills": used, "shown": used}
        graph.learn(trajectory, 0.9 if trip % 4 else 0.2)
    return lambda: graph.recall("an early meeting at the hotel", user="user1", k=5)


def requested() -> Callable[[], object]:
    """A request to a gateway in this process, in a session that is there already."""
    from agentfw_plugins.gateway.live import Limits, gateway_of, opened

    loop, stack = asyncio.new_event_loop(), AsyncExitStack()
    atexit.register(lambda: loop.run_until_complete(stack.aclose()))
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    live = opened(folder, policy="scripted", assignments=['policy.replies=["Hello."]'])
    body = {"model": "agentfw", "messages": [{"role": "user", "content": "Hi"}]}

    async def begun() -> httpx.AsyncClient:
        await stack.enter_async_context(live)
        gateway, _, _ = await stack.enter_async_context(gateway_of(live, Limits()))
        transport = httpx.ASGITransport(gateway.app, client=("127.0.0.1", 1))
        return await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1"))

    client = loop.run_until_complete(begun())

    def ask() -> None:
        loop.run_until_complete(client.post("/s/tea/v1/chat/completions", json=body)).raise_for_status()

    return ask


WORKS = {"a recall": recalled, "a request": requested}
"""Each prepares what is needed and returns the work."""


def hops(work: Callable[[], object]) -> dict[str, Any]:
    """The files that are entered, how often each, and the returns to one that was left."""
    entered: Counter[str] = Counter()
    last, returns = "", 0

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal last, returns
        path = frame.f_code.co_filename
        if event != "call" or not any(one in path for one in OURS) or "benchmarks" in path:
            return
        returns += path != last and path in entered
        entered[path] += 1
        last = path

    for _ in range(WARMING):
        work()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    calls = {Path(path).name if "__init__" not in path else path: count for path, count in entered.most_common()}
    return {"files": len(entered), "calls": sum(entered.values()), "returns": returns, "calls by file": calls}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__).parse_args(arguments)
    return tell({"works": {name: hops(prepare()) for name, prepare in WORKS.items()}}, options.json)


if __name__ == "__main__":
    main()
