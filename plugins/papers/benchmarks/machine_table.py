"""What a belief is worth: a machine that breaks unseen, kept by the best plan, by tables and by simple rules.

The tables of docs/results/machine.md:

    python plugins/papers/benchmarks/machine_table.py
    python plugins/papers/benchmarks/machine_table.py --training 500 --episodes 100 --json

`promised` is the value that the plan computes for the start, and nothing was played for it. The tables learn by
Q-learning, one from the belief, one from nothing but whether there is a noise. All play the same tasks.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from agentfw import Interface, Intervention, Policy
from agentfw.interfaces import EventDriven, Polling
from agentfw.report.statistics import bootstrap, paired_difference
from agentfw.runs import in_processes, usual_processes
from agentfw_benchmarks import Options, Stopwatch, bounds_of, print_markdown, shown, tell
from agentfw_papers.tables.qtable import QTablePolicy
from agentfw_papers.tables.table_training import play, train
from agentfw_papers.worlds.machine.environment import Machine, MachineSettings
from agentfw_papers.worlds.machine.planner import Plan
from agentfw_papers.worlds.machine.rule_policy import MachineKeeper, MachineKeeperSettings

POLLS = (5, 20)
_CHOICES = [Intervention("repair"), *(Intervention("look_again", {"after": ticks}) for ticks in (2, 5, 15))]
FIGURES = {"return": ".1f", "difference": "+.1f", "repairs": ".2f", "needless": ".2f", "down": ".1%"}

Row = dict[str, Any]


def keepers() -> list[str]:
    """The names of the rows."""
    polled = [f"plan, polled every {ticks}" for ticks in POLLS]
    return ["plan", *polled, "table of beliefs", "table of noises", "noise", "never"]


def _figures(job: tuple[str, int, int, int]) -> dict[str, list[float]]:
    """One keeper's figures, episode by episode."""
    name, training, count, seed = job
    settings = MachineSettings(state="noise" if name == "table of noises" else "belief")
    make = partial(Machine, settings)
    interface: Interface = EventDriven()
    policy: Policy
    if name.startswith("table"):
        policy = QTablePolicy.of(train(make, _CHOICES, episodes=training, seed=seed))
    elif "polled" in name:
        ticks = int(name.rpartition(" ")[2])
        policy, interface = MachineKeeper(MachineKeeperSettings(every=ticks)), Polling(ticks)
    else:
        policy = MachineKeeper(MachineKeeperSettings.model_validate({"rule": name}))
    figures: dict[str, list[float]] = {}
    for episode in play(make, policy, Machine().tasks(count, seed, "test"), interface):
        for key, value in {"return": episode.utility, **episode.outcome}.items():
            figures.setdefault(key, []).append(value)
    return figures


def _promised(name: str) -> float | None:
    if not name.startswith("plan"):
        return None
    settings = MachineSettings()
    every = int(name.rpartition(" ")[2]) if "polled" in name else 1
    return Plan(settings, every).worth(0.0, settings.horizon)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    watch = Stopwatch()
    size = {name: getattr(options, name) for name in ("training", "episodes", "seed")}
    jobs = [(name, options.training, options.episodes, options.seed) for name in keepers()]
    found = in_processes(_figures, jobs, options.jobs or usual_processes(len(jobs)))
    rows: list[Row] = []
    for (name, *_), figures in zip(jobs, found, strict=True):
        row: Row = {"keeper": name, **{key: bounds_of(bootstrap(values)) for key, values in figures.items()}}
        if name != "plan":
            row["difference"] = bounds_of(paired_difference(figures["return"], found[0]["return"]).difference)
        if (promised := _promised(name)) is not None:
            row["promised"] = promised
        rows.append(row)
    return {**size, **watch.took(), "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['training']} episodes to learn from, {result['episodes']} to measure on, seed {result['seed']}; "
        f"means and 95% intervals; difference: in return, to the plan on the same tasks; {result['seconds']:.0f} s, "
        f"{result['cpu_seconds']:.0f} s of CPU time"
    )
    table = []
    for row in result["rows"]:
        promised = f"{row['promised']:.1f}" if "promised" in row else ""
        cells = [shown(row[name], shape) if name in row else "" for name, shape in FIGURES.items()]
        table.append([row["keeper"], promised, *cells])
    print_markdown(["keeper", "promised", *FIGURES], table)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, training=4000, episodes=1000, seed=42)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
