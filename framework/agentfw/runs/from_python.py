"""Runs that are started from Python: the spec that the arguments of `agentfw.run` mean, and what comes of it.

A result shows itself as a table, in a notebook with the curve above it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any, Literal

from ..boundary.coroutines import use_daemon_threads
from ..episode import Episode
from ..errors import SettingsError, UsageError
from ..host import Host, HostOptions
from ..host.project import find_project
from ..report.statistics import Interval
from .records.figure_table import figure_title, in_order
from .records.folder import RunFolder
from .records.summary import Summary, beside
from .results.run_charts import curve
from .results.run_report import write_report
from .results.transcript import frame
from .run import Run
from .spec.resolution import checked_spec
from .spec.run_spec import COMPONENTS
from .spec.start import SpecValues, Start, chosen_values, naming_layers


class RunResult:
    """A finished run: its figures, its episodes and its folder."""

    def __init__(self, folder: RunFolder) -> None:
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
        heads, rows = self._table()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"{curve(self.folder).to_svg()}<table><tr>{head}</tr>{body}</table><code>{escape(str(self.path))}</code>"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """The figures before and after a training. Of another run, its figures and those of simple players."""
        headline = self.folder.headline
        if self.summary.before:
            names = in_order(self.summary.before.keys() & self.figures.keys(), headline)
            return ["", "before", "after"], [
                [figure_title(name, self.folder), str(self.summary.before[name]), str(self.figures[name])]
                for name in names
            ]
        names = [name for name in self.folder.columns if name in self.figures] or in_order(self.figures, headline)
        rows = [
            [who, *(str(figures[name]) if name in figures else "" for name in names)]
            for who, figures in beside(self.summary, self.folder)
        ]
        return ["", *(self.folder.columns.get(name, figure_title(name, self.folder)) for name in names)], rows


def spec_values(
    start: Start,
    environment: str | None,
    spec: Path | str | None,
    settings: Mapping[str, Any],
    chosen: Mapping[str, Any],
    runs: Path,
    host: Host | None,
) -> tuple[SpecValues, Host]:
    """The values of the spec to execute, and the host that they were looked up in."""
    file = None if spec is None else Path(spec).absolute()
    host = host or Host.load(HostOptions.from_environment(project=find_project()))
    named = {key: _named(host, COMPONENTS[key], value) for key, value in chosen.items() if key in COMPONENTS}
    # {"environment.rate": 0.5} as {"environment": {"rate": 0.5}}.
    nested: dict[str, Any] = {}
    for dotted, given in settings.items():
        *tables, last = dotted.split(".")
        table = nested
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise SettingsError(f"settings: {dotted} is below {name}, which has a value", fix="drop one of them")
        table[last] = given
    options, assignments = {**chosen, **named}, nested
    return chosen_values(host, start, environment, file, runs=runs, options=options, assignments=assignments), host


def _named(host: Host, kind: str, given: Any) -> Any:
    """The names of components. Objects and functions become components of the host."""
    if isinstance(given, tuple):
        return tuple(_named(host, kind, each) for each in given)
    return given if given is None or isinstance(given, str) else host.take(kind, given)


def execute(values: SpecValues, host: Host, runs: Path) -> RunResult:
    """Run a spec to its end, and write the report."""
    with naming_layers(values):
        made = Run.create(checked_spec(values, host), host, runs)
    _wait_for(made.execute)
    write_report(made.folder)
    return RunResult(made.folder)


def _wait_for(execute: Callable[[], Any]) -> None:
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
