"""The inbox under each of the four interfaces: one agent, the same days, and only when it is shown the mails differs.

    python tests/benchmarks/inbox_interfaces.py
    python tests/benchmarks/inbox_interfaces.py --episodes 50 --json

Prints the table of docs/timeline.md. The same figures come from runs, one for each interface, and `agentfw compare`:

    agentfw run inbox --interface step_loop --episodes 200
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from typing import Any

from agentfw.engagement import Engagement
from agentfw.interfaces import parse_interface
from agentfw.policy_agent import PolicyAgent
from agentfw.statistics import bootstrap, paired_difference
from agentfw_plugins.environments.inbox import Inbox
from agentfw_plugins.policies.scripted import ScriptedPolicy

INTERFACES = ("step_loop", "polling:15", "reflex", "event_driven")
FIGURES = ("balanced", "document", "mails", "missed", "interruptions")


async def days(interface: str, episodes: int, seed: int) -> dict[str, list[float]]:
    """Each figure of each day, and how long a mail waited until it was handled."""
    found: dict[str, list[float]] = {name: [] for name in (*FIGURES, "latency")}
    for task in Inbox().tasks(episodes, seed, "test"):
        agent = PolicyAgent(ScriptedPolicy())
        episode = await Engagement(Inbox(), agent, parse_interface(interface)).run(task)
        for name in FIGURES:
            found[name].append(episode.outcome[name])
        waits = episode.series("latency")
        found["latency"].append(sum(waits) / len(waits) if waits else 0.0)
    return found


def measure(episodes: int, seed: int) -> dict[str, Any]:
    tables = {interface: asyncio.run(days(interface, episodes, seed)) for interface in INTERFACES}
    rows = []
    for interface, table in tables.items():
        row: dict[str, Any] = {"interface": interface}
        for name, values in table.items():
            interval = bootstrap(values)
            row[name] = {"mean": interval.estimate, "low": interval.low, "high": interval.high}
        if interface != INTERFACES[0]:
            gap = paired_difference(table["balanced"], tables[INTERFACES[0]]["balanced"]).difference
            row["gain"] = {"mean": gap.estimate, "low": gap.low, "high": gap.high}
        rows.append(row)
    return {"episodes": episodes, "seed": seed, "interfaces": rows}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = measure(options.episodes, options.seed)
    if options.json:
        print(json.dumps(result, indent=2))
        return result
    columns = ("balanced", "gain", "mails", "document", "latency")
    print(
        f"{result['episodes']} days, seed {result['seed']}; means and 95% intervals; gain: balanced, to the step loop"
    )
    print("| interface | " + " | ".join(columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for row in result["interfaces"]:
        cells = [
            f"{row[name]['mean']:.3f} [{row[name]['low']:.3f}, {row[name]['high']:.3f}]" if name in row else ""
            for name in columns
        ]
        print(f"| `{row['interface']}` | " + " | ".join(cells) + " |")
    return result


if __name__ == "__main__":
    main()
