"""`agentfw.run`, `agentfw.train` and `agentfw.load`: what the command line does, for programs and notebooks.

    result = agentfw.run("inbox", policy="scripted", episodes=20)
    result.figures["utility"].estimate
    agentfw.load("last").episodes[0].turns

They start from the same specs as the commands, and leave the same run folders. A result shows itself as a table, in a
notebook with the curve above it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .boundary.threads import use_daemon_threads
from .errors import SettingsError, UsageError

if TYPE_CHECKING:
    from .episode import Episode
    from .host import Host
    from .report.statistics import Interval
    from .runs.records.folder import RunFolder

__all__ = ["RunResult", "load", "run", "train"]

Names = str | Sequence[str]
_Start = Callable[["Host", str | None, Path | None], dict[str, Any]]


class RunResult:
    """A finished run: its figures, its episodes and its folder."""

    def __init__(self, folder: RunFolder) -> None:
        from .runs.records.summary import Summary

        record = folder.summary()
        if record is None:
            raise UsageError(f"the run {folder.id} isn't finished", fix=f"agentfw runs resume {folder.path}")
        self.folder = folder
        self.summary = Summary.from_record(record)

    @property
    def path(self) -> Path:
        """The folder on disk. `report.html` in it is the report."""
        return self.folder.path

    @property
    def figures(self) -> Mapping[str, Interval]:
        """The mean of every metric with its 95% interval. For a training, those of the last evaluation."""
        return self.summary.figures

    @property
    def episodes(self) -> list[Episode]:
        """The recorded episodes. For a training, those of the last evaluation."""
        return list(self.folder.episodes())

    def frame(self, rows: Literal["episodes", "turns"] = "episodes") -> Any:
        """The episodes, or their turns, as a DataFrame of pandas, or of polars if only that is installed."""
        from .runs.results.frames import frame

        return frame(self.folder, rows)

    def to_record(self) -> dict[str, Any]:
        """Everything about the run as plain values, as `agentfw run --json` prints it."""
        return {**self.summary.to_record(), "folder": str(self.path)}

    def __repr__(self) -> str:
        heads, rows = self._table()
        widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads))]
        table = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in [heads, *rows]]
        return "\n".join([*("  ".join(row).rstrip() for row in table), str(self.path)])

    def _repr_html_(self) -> str:
        from .runs.results.run_charts import curve

        heads, rows = self._table()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"{curve(self.folder).to_svg()}<table><tr>{head}</tr>{body}</table><code>{escape(str(self.path))}</code>"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """The figures before and after a training. Of another run, its figures and those of simple players."""
        from .runs.records.summary import beside, in_order

        headline = self.folder.headline
        if self.summary.before:
            names = in_order(self.summary.before.keys() & self.figures.keys(), headline)
            return ["", "before", "after"], [
                [name, str(self.summary.before[name]), str(self.figures[name])] for name in names
            ]
        names = [name for name in self.folder.columns if name in self.figures] or in_order(self.figures, headline)
        rows = [
            [who, *(str(figures[name]) if name in figures else "" for name in names)]
            for who, figures in beside(self.summary, self.folder)
        ]
        return ["", *(self.folder.columns.get(name, name) for name in names)], rows


def run(
    environment: str | None = None,
    *,
    policy: str | None = None,
    memory: Names = (),
    tool: Names = (),
    reward: Names = (),
    tracker: Names = (),
    interface: str | None = None,
    episodes: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    spec: Path | str | None = None,
    runs: Path | str | None = None,
) -> RunResult:
    """Run an agent in an environment, as `agentfw run` does, and return how well it did.

    `policy` is the name of a policy, or a run, whose policy (of a training, the newest version) is meant.
    `settings` are those of `--set`: `{"environment.rate": 0.5}`. `runs` is the directory of runs. Default: that of
    agentfw.toml, or `runs`.
    """
    from .runs.spec.start import start_of_run

    lists = _lists(memory, tool, reward, tracker)
    chosen = {"policy": policy, "interface": interface, "episodes": episodes, "seed": seed, **lists}
    values, host = _values(start_of_run, environment, spec, settings or {}, chosen, runs)
    if values.get("optimizer") is not None:
        raise UsageError("this spec has an optimizer, so it is a training", fix="agentfw.train(...)")
    return _execute(values, host, runs)


def train(
    environment: str | None = None,
    *,
    policy: str | None = None,
    optimizer: str | None = None,
    learner: str | None = None,
    teacher: str | None = None,
    memory: Names = (),
    tool: Names = (),
    reward: Names = (),
    tracker: Names = (),
    interface: str | None = None,
    updates: int | None = None,
    seed: int | None = None,
    learn_from: Names = (),
    settings: Mapping[str, Any] | None = None,
    spec: Path | str | None = None,
    runs: Path | str | None = None,
) -> RunResult:
    """Improve a policy, as `agentfw train` does, and return how it did before and after.

    `learn_from` names recorded runs, as `--from` does. The other arguments are those of `run`.
    """
    from .runs.spec.start import start_from_runs, start_of_training

    sources = _listed(learn_from)
    start = start_from_runs(sources, _directory(runs), optimizer) if sources else start_of_training
    chosen = {"policy": policy, "optimizer": optimizer, "learner": learner, "teacher": teacher}
    figures = {"interface": interface, "updates": updates, "seed": seed, **_lists(memory, tool, reward, tracker)}
    values, host = _values(start, environment, spec, settings or {}, {**chosen, **figures}, runs)
    for name in ("environment", "optimizer"):
        if values.get(name) is None:
            raise UsageError(f"a training needs an {name}", fix=f"name one; see: agentfw plugins list --kind {name}")
    return _execute(values, host, runs)


def load(name: str = "last", *, runs: Path | str | None = None) -> RunResult:
    """A finished run: `last`, its name or the end of it, or its path."""
    from .runs.records.folder import find_run

    return RunResult(find_run(_directory(runs), name))


def _values(
    start: _Start,
    environment: str | None,
    spec: Path | str | None,
    settings: Mapping[str, Any],
    chosen: Mapping[str, Any],
    runs: Path | str | None,
) -> tuple[dict[str, Any], Host]:
    """The values of the spec to execute, and the host that they were looked up in."""
    from .host import Host, HostOptions
    from .host.project import find_project
    from .runs.spec.policy_of_run import policy_of_run
    from .runs.spec.run_spec import apply_assignments
    from .runs.spec.start import with_choices

    host = Host.load(HostOptions.from_environment(project=find_project()))
    chosen = dict(chosen)
    if chosen.get("policy"):
        chosen["policy"] = policy_of_run(host, chosen["policy"], _directory(runs))
    values = with_choices(start(host, environment, None if spec is None else Path(spec)), chosen)
    return apply_assignments(values, _nested(settings)), host


def _execute(values: Mapping[str, Any], host: Host, runs: Path | str | None) -> RunResult:
    from .runs.results.run_report import write_report
    from .runs.run import Run
    from .runs.spec.run_spec import parse_spec

    made = Run.create(parse_spec(dict(values)), host, _directory(runs))
    _finish(made.execute)
    write_report(made.folder)
    return RunResult(made.folder)


def _lists(memory: Names, tool: Names, reward: Names, tracker: Names) -> dict[str, tuple[str, ...]]:
    given = {"memories": memory, "tools": tool, "rewards": reward, "trackers": tracker}
    return {name: _listed(names) for name, names in given.items()}


def _listed(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """{"environment.rate": 0.5} as {"environment": {"rate": 0.5}}."""
    nested: dict[str, Any] = {}
    for dotted, value in settings.items():
        *tables, key = dotted.split(".")
        table = nested
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise SettingsError(f"settings: {dotted} is below {name}, which has a value", fix="drop one of them")
        table[key] = value
    return nested


def _directory(runs: Path | str | None) -> Path:
    from .host.project import find_project

    if runs is not None:
        return Path(runs)
    project = find_project()
    return project.runs if project is not None else Path("runs")


def _finish(execute: Callable[[], Any]) -> None:
    """Wait until a run has ended, also in a notebook, whose thread has an event loop already."""

    async def main() -> None:
        use_daemon_threads()
        await execute()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(main())
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(main())).result()
