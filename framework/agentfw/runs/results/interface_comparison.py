"""Compares interfaces: the effect of delayed observations on one agent in one world.

Every interface gets the same tasks, and nothing else differs, so differences are taken task by task. The results depend
on the spec, the interfaces and the seeds, and not on the number of processes.

    comparison = compare_interfaces(spec, host, interfaces=["step_loop", "event_driven"], seeds=[7, 8])
    comparison.rows()[0].intervals
    comparison.write(Path("comparison"))

It works for every environment and policy, but not with memories, which learn from one episode for the next: then an
interface would change both. Rewards and trackers are ignored, because the metrics come from the environment.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...episode import Task
from ...errors import StorageError, UnknownNameError, UsageError
from ...host import Host, HostOptions
from ...host.plugin_guard import stdout_to_stderr
from ...interfaces import parse_interface
from ...out import counted
from ...report import Bar, Canvas, bar_chart
from ...seeds import Seeds
from ..assembly import assemble
from ..components.run_environment import RunEnvironment
from ..records.journal import make_folder, write_whole
from ..records.summary import in_order
from ..spec.resolution import resolve, with_defaults
from ..spec.run_spec import RunSpec, parse_spec
from ..workers import in_processes, usual_processes
from .comparison import Row, side_by_side

__all__ = ["USUAL_INTERFACES", "InterfaceComparison", "compare_interfaces"]

USUAL_INTERFACES = ("step_loop", "polling:45", "polling:15", "polling:5", "reflex", "event_driven")

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Job:
    """One interface and one seed, as plain values that can be sent to another process."""

    spec: dict[str, Any]
    options: HostOptions
    interface: str
    seed: int


@dataclass(frozen=True, slots=True)
class InterfaceComparison:
    """The result: the metrics of each task, by interface."""

    spec: RunSpec
    seeds: tuple[int, ...]
    headline: str
    lower_is_better: bool
    columns: tuple[str, ...]
    """The figures that the environment has in its tables."""
    played: dict[str, dict[int, list[Figures]]]
    """The metrics by interface and seed, in the order of the tasks."""

    def rows(self, figures: Sequence[str] = ()) -> list[Row]:
        """Each metric of all interfaces with intervals, and its difference to the first interface, task by task."""
        tables = [self._by_task(interface) for interface in self.played]
        measured = self.figures()
        for name in figures:
            if name not in measured:
                raise UnknownNameError("figure", name, measured)
        chosen = list(figures) or measured
        return [side_by_side(name, tuple(self.played), [table[name] for table in tables]) for name in chosen]

    def figures(self) -> list[str]:
        """All metrics that were measured under every interface, the headline first."""
        first, *others = (self._by_task(interface) for interface in self.played)
        return in_order((name for name in first if all(name in table for table in others)), self.headline)

    def main_figures(self) -> list[str]:
        """Those of a short table: the headline, the columns of the environment's tables, the utility and the turns."""
        wanted = dict.fromkeys((self.headline, *self.columns, "utility", "turns"))
        return [name for name in wanted if name in self.figures()]

    def _by_task(self, interface: str) -> dict[str, dict[str, float]]:
        """Each metric by task. Tasks where it was not measured are omitted."""
        found: dict[str, dict[str, float]] = {}
        for seed, episodes in self.played[interface].items():
            for number, figures in enumerate(episodes):
                for name, value in figures.items():
                    if not math.isnan(value):
                        found.setdefault(name, {})[f"{seed}/{number}"] = value
        return found

    def picture(self, *, width: float = 880) -> Canvas:
        """A bar chart of the headline of each interface, with intervals."""
        (row,) = self.rows([self.headline])
        bars = [
            Bar(name.replace("_", " ").replace(":", " every "), interval.estimate, interval.low, interval.high)
            for name, interval in zip(row.runs, row.intervals, strict=True)
        ]
        better = "the lower, the better" if self.lower_is_better else "the higher, the better"
        note = f"{self.headline} of {counted(row.intervals[0].count, 'episode')} each, {better}; lines: 95% intervals"
        title = f"{self.spec.environment.name}: one agent, {len(bars)} interfaces"
        return bar_chart(bars, title=title, x_label=note, width=width)

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values: the metrics with their intervals, and every episode they are based on."""
        return {
            "environment": self.spec.environment.name,
            "policy": self.spec.policy.name,
            "headline": self.headline,
            "lower_is_better": self.lower_is_better,
            "seeds": list(self.seeds),
            "episodes": self.spec.episodes,
            "figures": [{"figure": row.figure, "interfaces": row.records("interface")} for row in self.rows()],
        }

    def write(self, folder: Path) -> list[Path]:
        """Write comparison.json with every episode, comparison.png and comparison.svg. Returns their paths."""
        episodes = {
            interface: {str(seed): [_known(figures) for figures in some] for seed, some in by_seed.items()}
            for interface, by_seed in self.played.items()
        }
        whole = {**self.to_record(), "spec": with_defaults(self.spec), "played": episodes}
        picture = self.picture()
        try:
            make_folder(folder)
        except OSError as error:
            raise StorageError(f"can't make {folder}: {error.strerror}", fix="use another --out") from None
        files = {
            "comparison.json": (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode(),
            "comparison.png": picture.to_png(),
            "comparison.svg": picture.to_svg().encode(),
        }
        for name, data in files.items():
            write_whole(folder / name, data)
        return [folder / name for name in files]


def compare_interfaces(
    spec: RunSpec,
    host: Host,
    *,
    interfaces: Sequence[str] = (),
    seeds: Sequence[int] = (),
    processes: int | None = None,
    done: Callable[[int, int], object] = lambda count, of: None,
) -> InterfaceComparison:
    """Play `spec.episodes` tasks of each seed under each interface. Default: the usual interfaces.

    `done` is called with the number of finished jobs. A job is an interface with a seed.
    """
    if spec.memories:
        raise UsageError(
            "interfaces are compared without memories, which would learn from one episode for the next",
            fix="remove them, or compare whole runs: agentfw run ... --interface ..., then agentfw compare RUN RUN",
        )
    if spec.budget.tokens or spec.budget.money:
        raise UsageError(
            "a budget belongs to one run, and a comparison has many", fix="remove it: --set budget.tokens=null"
        )
    resolved, _ = resolve(spec.model_copy(update={"rewards": (), "trackers": ()}), host)
    # Created once here, so that errors appear before any process is started.
    assembly = assemble(resolved, host)
    environment = assembly.environment
    asyncio.run(assembly.close())
    names = list(interfaces) or _usual(environment)
    for name in names:
        parse_interface(name)
    if len(set(names)) < max(2, len(names)):
        raise UsageError("a comparison needs two different interfaces", fix="see: agentfw compare interfaces --help")
    numbers = tuple(dict.fromkeys(seeds)) or (spec.seed,)
    record = resolved.model_dump()
    jobs = [_Job(record, host.options, interface, seed) for interface in names for seed in numbers]
    processes = processes or usual_processes(len(jobs))
    # This process can use this host. Worker processes load their own.
    work = _play_elsewhere if processes > 1 else lambda job: _play(job, host)
    found = in_processes(work, jobs, processes, done=lambda count: done(count, len(jobs)))
    played: dict[str, dict[int, list[Figures]]] = {name: {} for name in names}
    for job, figures in zip(jobs, found, strict=True):
        played[job.interface][job.seed] = figures
    return InterfaceComparison(
        resolved, numbers, environment.headline, environment.lower_is_better, tuple(environment.columns), played
    )


def _usual(environment: RunEnvironment) -> list[str]:
    """The usual interfaces. Reflex is included if the environment has a reflex."""
    return [name for name in USUAL_INTERFACES if name != "reflex" or environment.has_reflex]


@cache
def _host(options: HostOptions) -> Host:
    return Host.load(options)


def _play_elsewhere(job: _Job) -> list[Figures]:
    return _play(job, _host(job.options))


def _play(job: _Job, host: Host) -> list[Figures]:
    """The metrics of each task."""
    spec, _ = resolve(parse_spec({**job.spec, "interface": job.interface, "seed": job.seed}), host)
    with stdout_to_stderr():
        assembly = assemble(spec, host)
        seeds = Seeds(spec.seed).child("policy")
        found: dict[str, Figures] = {}

        async def play() -> None:
            room = asyncio.Semaphore(spec.concurrency)

            async def one(task: Task) -> None:
                async with room:
                    episode = await assembly.play(
                        task, assembly.policy, spec.sampling.sampling(seeds.integer(task.id)), None
                    )
                found[task.id] = {
                    "utility": episode.utility,
                    **episode.outcome,
                    "turns": float(len(episode.turns)),
                }

            try:
                await assembly.open(Path(folder))
                await asyncio.gather(*map(one, tasks))
            finally:
                await assembly.close()

        tasks = assembly.environment.tasks(spec.episodes, spec.split)
        with TemporaryDirectory() as folder:  # of the comparison, nothing but the figures is kept
            asyncio.run(play())
    return [found[task.id] for task in tasks]


def _known(figures: Figures) -> dict[str, float | None]:
    """JSON has no NaN, so values that were not measured are null."""
    return {name: None if math.isnan(value) else value for name, value in figures.items()}
