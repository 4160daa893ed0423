"""A simulation of how a pool schedules: servers that only wait, and no computation at all.

It shows that requests are spread well and that nothing waits without need. It says nothing about GPUs.

    python benchmarks/pool_queue.py
    python benchmarks/pool_queue.py --requests 230 --json

Each server answers 15 requests at a time, in 50 ms each. First all requests are there at once, for 1 to 8 servers.
Required: at least 0.9 of linear. Then they arrive over time, at 40% of what four servers can do, and one of the four is
ten times as slow. Required: the 95th percentile of the waiting time is lower with `least` than with `round_robin`.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any, get_args

import numpy

from agentfw_benchmarks import Options, tell
from agentfw_plugins.policies.pool.pool_balancing import Balance, Balancer

SECONDS, AT_ONCE = 0.05, 15
SLOW = 10.0
REQUIRED = 0.9


async def play(balancer: Balancer, seconds: Sequence[float], arrivals: Sequence[float]) -> tuple[float, list[float]]:
    """The duration of everything, and of each request from its arrival to its answer."""
    for number in range(len(seconds)):
        balancer.join(number)
    began = time.perf_counter()

    async def ask(number: int, arrival: float) -> float:
        await asyncio.sleep(max(0.0, began + arrival - time.perf_counter()))
        asked = time.perf_counter()
        place = await balancer.take(f"task {number}")
        await asyncio.sleep(seconds[place.replica])
        balancer.give_back(place)
        return time.perf_counter() - asked

    waits = await asyncio.gather(*(ask(number, arrival) for number, arrival in enumerate(arrivals)))
    return time.perf_counter() - began, list(waits)


async def measure(count: int, repeats: int) -> dict[str, Any]:
    scaling = []
    for servers in (1, 2, 4, 8):
        found = []
        for _ in range(repeats):
            balancer = Balancer("least", affinity=False, in_flight=AT_ONCE)
            found.append((await play(balancer, [SECONDS] * servers, [0.0] * count))[0])
        rounds = -(-count // (AT_ONCE * servers))
        scaling.append({"servers": servers, "seconds": round(min(found), 3), "ideal": round(rounds * SECONDS, 3)})
    one = scaling[0]["seconds"]
    for row in scaling:
        row["of linear"] = round(one / row["seconds"] / row["servers"], 3)

    seconds = [SECONDS, SECONDS, SECONDS, SECONDS * SLOW]
    rate = 0.4 * AT_ONCE * sum(1 / each for each in seconds)
    draw = random.Random(7)
    arrivals = numpy.cumsum([draw.expovariate(rate) for _ in range(count)]).tolist()
    slow = {}
    for balance in get_args(Balance):
        late = []
        for _ in range(repeats):
            balancer = Balancer(balance, affinity=False, in_flight=AT_ONCE)
            late.append(float(numpy.quantile((await play(balancer, seconds, arrivals))[1], 0.95)))
        slow[balance] = round(statistics.median(late), 4)
    return {
        "simulation": "servers that only wait",
        "requests": count,
        "scaling": scaling,
        "p95 seconds with one slow server": slow,
    }


def show(result: dict[str, Any]) -> None:
    print("SIMULATION: servers that wait 50 ms, 15 requests at a time")
    for row in result["scaling"]:
        ideal, linear = row["ideal"], row["of linear"]
        print(f"{row['servers']} servers  {row['seconds']:7.3f} s (ideal {ideal} s)  {linear:.2f} of linear")
    print("95th percentile with one slow server of four:")
    for balance, seconds in result["p95 seconds with one slow server"].items():
        print(f"  {balance:12} {seconds * 1000:7.1f} ms")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, requests=920, repeats=3).parse_args(arguments)
    return tell(asyncio.run(measure(options.requests, options.repeats)), options.json, show)


if __name__ == "__main__":
    main()
