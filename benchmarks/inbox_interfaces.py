"""The inbox under each interface: one assistant, the same days, and only when it is told of the mails differs.

Prints the tables of docs/results/inbox.md, with the paper's figures in brackets where its text still has them.

The assistant is a rule, and what it says takes no time (`policy.tokens`): as in the paper, the durations of what it
does stand for that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from agentfw import Engagement, PolicyAgent, Task
from agentfw.interfaces import parse_interface
from agentfw.runs import in_processes
from agentfw_benchmarks import Options, beside, difference_of, mean_of, print_markdown, shown, tell
from agentfw_plugins.policies.scripted import ScriptedPolicy, ScriptedSettings
from agentfw_plugins.worlds.inbox.environment import Inbox
from agentfw_plugins.worlds.inbox.mails import InboxSettings

INTERFACES = ("step_loop", "polling:15", "reflex", "event_driven")
FIGURES = ("utility", "balanced", "missed", "latency")
GAINS = ("utility", "balanced")
DECOMPOSITIONS = {"milestones": False, "single": True}
EPISODES = 5
PAPER = {
    ("milestones", "event_driven"): {"utility gain": "+1.522", "balanced gain": "+0.249"},
    ("single", "event_driven"): {"utility gain": "+2.293", "balanced gain": "+0.410"},
    ("both", "step_loop"): {"missed": "0.533", "latency": "12.71"},
    ("both", "polling:15"): {"missed": "0.435", "latency": "10.74"},
    ("both", "event_driven"): {"missed": "0.310", "latency": "6.92"},
}
"""Its table 3, with DeepSeek-V3.2 as the triage; it has no reflex."""

Days = dict[str, dict[str, list[float]]]
"""The figures of all days, in order, by interface and figure; NaN where there was nothing to measure."""


def play(job: tuple[bool, str, int]) -> list[dict[str, float]]:
    """The figures of the days of one seed, under one interface."""
    single, interface, seed = job

    async def day(task: Task) -> dict[str, float]:
        agent = PolicyAgent(ScriptedPolicy(ScriptedSettings(tokens=0)))
        episode = await Engagement(Inbox(InboxSettings(single=single)), agent, parse_interface(interface)).run(task)
        return {"utility": episode.utility, **episode.outcome}

    return [asyncio.run(day(task)) for task in Inbox().tasks(EPISODES, seed, "test")]


def played(single: bool, seeds: int, jobs: int) -> Days:
    """The same days under each interface."""
    work = [(single, interface, seed) for interface in INTERFACES for seed in range(seeds)]
    found = dict(zip(work, in_processes(play, work, jobs), strict=True))
    days = {one: [day for seed in range(seeds) for day in found[single, one, seed]] for one in INTERFACES}
    return {
        one: {name: [day.get(name, float("nan")) for day in some] for name in FIGURES} for one, some in days.items()
    }


def rows(decomposition: str, days: Days) -> list[dict[str, Any]]:
    first = days[INTERFACES[0]]
    found = []
    for interface, figures in days.items():
        row: dict[str, Any] = {"decomposition": decomposition, "interface": interface}
        for name, values in figures.items():
            row[name] = mean_of(values)
            if name in GAINS and interface != INTERFACES[0]:
                row[f"{name} gain"] = difference_of(values, first[name])
        found.append(row)
    return found


def measure(seeds: int, jobs: int) -> dict[str, Any]:
    days = {name: played(single, seeds, jobs) for name, single in DECOMPOSITIONS.items()}
    both = {
        one: {name: [value for some in days.values() for value in some[one][name]] for name in ("missed", "latency")}
        for one in INTERFACES
    }
    table = [row for name, some in days.items() for row in rows(name, some)] + rows("both", both)
    return {"episodes": seeds * EPISODES, "rows": table}


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['episodes']} days of each decomposition, under each interface; means and 95% intervals, the paper's "
        f"figures in brackets; gains: to the step loop on the same days"
    )
    columns = ("utility", "utility gain", "balanced", "balanced gain", "missed", "latency")
    rows = []
    for row in result["rows"]:
        paper = PAPER.get((row["decomposition"], row["interface"]), {})
        cells = [_cell(name, row[name], paper.get(name)) if name in row else "" for name in columns]
        rows.append([row["decomposition"], f"`{row['interface']}`", *cells])
    print_markdown(["decomposition", "interface", *columns], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    jobs = (os.cpu_count() or 1, "processes at once")
    options = Options(__doc__, seeds=(200, f"{EPISODES} days of each"), jobs=jobs).parse_args(arguments)
    return tell(measure(options.seeds, options.jobs), options.json, show)


def _cell(name: str, figure: dict[str, float], paper: str | None) -> str:
    shape = "+.3f" if name.endswith("gain") else ".2f" if name in ("utility", "latency") else ".3f"
    return beside(shown(figure, shape), paper)


if __name__ == "__main__":
    main()
