"""Tokens a second of the policy `tiny`: in this process, and in pools of one and of two replicas.

The repetitions alternate, so that what else the machine does hits all of them alike. The answers of all are compared.

    python benchmarks/pool_scaling.py
    python benchmarks/pool_scaling.py --requests 32 --repeats 1 --json

Each process has one thread, except for the row "one process, two threads". Required: two replicas are at least 1.6
times as fast as one, on two free cores, and every answer is that of one process to the last bit.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any, cast

from agentfw import Generation, Message, Policy, Request, Task
from agentfw.request import Sampling
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, print_ratio, ratio_of, tell

WAYS: dict[str, dict[str, Any]] = {
    "1 replica": {"replicas": 1},
    "2 replicas": {"replicas": 2},
    "1 replica, 2 threads": {"replicas": 1, "cpus": 2},
}
AGAINST = "2 replicas against 1"
REQUIRED = 1.6


def questions(count: int) -> list[Request]:
    return [
        Request(
            [Message("user", f"Meeting {number} and the thesis committee are at the same time. What now?")],
            task=Task(number, 7),
            sampling=Sampling(temperature=1.0, max_tokens=96, seed=7),
        )
        for number in range(count)
    ]


async def answers(policy: Policy, requests: Sequence[Request]) -> tuple[list[Generation], float]:
    began = time.perf_counter()
    found = await asyncio.gather(*map(policy.generate, requests))
    return list(found), sum(each.length for each in found) / (time.perf_counter() - began)


async def measure(count: int, repeats: int) -> dict[str, Any]:
    host = fresh_host(builtins=True, strict=False)
    # As many at once as one process would have with half of the requests: the batches of all ways are alike.
    inner = {"name": "tiny", "settings": {"batch": 32}}
    alone = cast(Policy, host.create("policy", "tiny", {"batch": 32}))
    pools = {
        name: cast(Policy, host.create("policy", "pool", {"policy": inner, **settings}))
        for name, settings in WAYS.items()
    }
    requests = questions(count)
    expected, _ = await answers(alone, requests)
    speeds: dict[str, list[float]] = {name: [] for name in pools}
    equal = True
    try:
        for pool in pools.values():
            await pool.generate(requests[0])
        for _ in range(repeats):
            for name, pool in pools.items():
                found, speed = await answers(pool, requests)
                speeds[name].append(speed)
                equal = equal and found == expected
    finally:
        for pool in pools.values():
            await pool.close()
    return {
        "requests": count,
        "tokens per second": {name: round(statistics.median(each)) for name, each in speeds.items()},
        AGAINST: ratio_of(speeds["2 replicas"], speeds["1 replica"]),
        "answers equal to one process": equal,
        "load": os.getloadavg()[0],
        "required": REQUIRED,
    }


def show(result: dict[str, Any]) -> None:
    for name, speed in result["tokens per second"].items():
        print(f"{name:22} {speed:8,} tokens/s")
    print_ratio(AGAINST, result[AGAINST], REQUIRED)
    print(f"answers equal to one process: {result['answers equal to one process']}   load {result['load']:.1f}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, requests=256, repeats=5).parse_args(arguments)
    return tell(asyncio.run(measure(options.requests, options.repeats)), options.json, show)


if __name__ == "__main__":
    main()
