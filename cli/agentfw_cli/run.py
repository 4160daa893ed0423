"""`agentfw run`: from words on a command line to a spec, and the run itself with a live picture.

The one rule: what a person gave last and most precisely holds: a spec file, then the options, then `--set`.

    agentfw run inbox --episodes 80 --set environment.rate=0.5
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.metadata import EntryPoint, entry_points
from agentfw.out import Out
from agentfw_cli.common import figure_row, load_command, load_host, name_of, runs_folder
from agentfw_cli.playing import execute
from agentfw_cli.spec_options import kept, name_in, spec_options, with_options

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.runs.run import Run
    from agentfw.runs.summary import Summary
    from agentfw.statistics import Interval

__all__ = ["run", "start_values", "tell"]

_ENOUGH = 8
"""From so many episodes or rounds on, the quarters of a run are told: fewer would be noise."""


class _Run(click.Command):
    """`run`, and what plugins offer in its place: an option of theirs hands the whole line to their own command.

    They are the entry points of the group `agentfw.run`, called ENVIRONMENT.OPTION, such as `calendar.ics`.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        offers = _offers()
        for word in args:
            found = offers.get(word.partition("=")[0])
            if found:
                command = load_command(f'the option "{word.partition("=")[0]}" of run', found)
                asked = [each for each in args if each in ("-h", "--help")]  # also where the option has no value yet
                return command.make_context(info_name, asked or args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        offers = _offers()
        if offers:
            with formatter.section("Ways to run with options of their own (add --help)"):
                formatter.write_dl(
                    [
                        (f"{some[0].name.partition('.')[0]} {option}", f"from {some[0].distribution}")
                        for option, some in offers.items()
                    ]
                )


def _offers() -> dict[str, list[EntryPoint]]:
    """What plugins offer in the place of a run, by its option."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points("agentfw.run"), key=lambda entry: entry.name):
        option = f"--{entry.name.partition('.')[2]}"
        if option not in {name for parameter in run.params for name in parameter.opts}:
            found.setdefault(option, []).append(entry)
    return found


@click.command(cls=_Run)
@click.argument("environment", required=False)
@click.option("--episodes", type=int, help="How many episodes.")
@spec_options
def run(
    environment: str | None,
    distributions: tuple[str, ...],
    assignments: tuple[str, ...],
    spec: Path | None,
    runs: Path | None,
    blocked: tuple[str, ...],
    strict: bool,
    quiet: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Let an agent work in ENVIRONMENT, and see how it goes.

    Without ENVIRONMENT it does the main job; a spec that a plugin ships is run by its name, too. Everything can be set:
    by --spec FILE, then by the options, then by --set.

    \b
      agentfw run
      agentfw run inbox --interface step_loop --set environment.rate=0.5
      agentfw run gymnasium --policy random --set environment.id=CartPole-v1
    """
    from agentfw.errors import UsageError
    from agentfw.runs.run import Run
    from agentfw.runs.spec import apply_assignments, parse_spec
    from agentfw.settings import parse_assignments

    out = Out(json=as_json, quiet=quiet)
    host = load_host(out, blocked, strict)
    for distribution in distributions:
        host.select_distribution(distribution)
    values = with_options(start_values(host, environment, spec), chosen)
    values = apply_assignments(values, parse_assignments(assignments))
    if "optimizer" in values:
        raise UsageError("this is the spec of a training, not of a run", fix="see: agentfw train --help")
    made = Run.create(parse_spec(values, "spec"), host, runs_folder(runs))
    execute(made, host, out)


def start_values(host: Host, name: str | None, spec: Path | None) -> dict[str, Any]:
    """The plain values to begin with: the file that was given, what a plugin ships by this name, or the default.

    The default is made for its own environment; any other begins with the spec called "any".
    """
    from agentfw.host.project import find_project
    from agentfw.runs.spec import read_spec

    specs = host.specs()
    if spec is None and name in specs:
        return read_spec(Path(host.find_spec(name).path))
    if name is not None:
        host.find("environment", name)  # a slip is told before the default file is even read
    project = find_project()
    if spec is not None:
        values = read_spec(spec)
    else:
        given = project.default if project is not None else None
        values = read_spec(given or Path(host.find_spec("default").path))
        if name is not None and name_in(values.get("environment")) != name and "any" in specs:
            values = read_spec(Path(host.find_spec("any").path))
    return values if name is None else {**values, "environment": kept(values.get("environment"), name)}


def tell(made: Run, summary: Summary, out: Out, files: list[Path]) -> None:
    from agentfw.report import bars
    from agentfw.runs.summary import columns, course, in_order

    headline, records = made.folder.headline, made.folder.metrics()
    rounds = course(records)
    values = [sum(some) / len(some) for some in rounds.values()] or columns(records).get(headline, [])
    if len(values) >= _ENOUGH:
        quarters = [values[len(values) * part // 4 : len(values) * (part + 1) // 4] for part in range(4)]
        title = f"{headline} by quarter   "
        # Four bars, each behind its figure (4) and a space, with 3 spaces between two of them.
        room = (shutil.get_terminal_size().columns - len(title) - 4 * 5 - 3 * 3) // 4
        means = [sum(quarter) / len(quarter) for quarter in quarters]
        out.line(title + bars(means, max(1, min(8, room))))
        out.line()
    if not _beside(made, summary, out):
        figures = summary.to_record()["figures"]
        rows = [figure_row(name, figures[name]) for name in in_order(figures, headline)]
        out.table(["", "mean", "95% interval"], rows, right=(1,))
    out.line()
    out.line(f"{made.folder.path}/   {'   '.join(file.name for file in files)}".rstrip())
    if summary.failures:
        out.note(f"{summary.failures} answers could not be understood; agentfw runs show {made.id} says which")
    where = "" if name_of(made.folder) == made.id else f" --runs {made.folder.path.parent}"
    if course(made.folder.metrics()):
        ways = [f"agentfw run {some[0].name.partition('.')[0]} {option} FILE" for option, some in _offers().items()]
        mine = [way for way in ways if way.split()[2] == made.spec.environment.name]
        out.note(f"next: {'    '.join([*mine, f'agentfw runs show last{where}', 'agentfw plugins list'])}")
        return
    # Between rounds nothing happens, so the interface makes a difference only where there are none.
    other = "event_driven" if made.spec.interface == "step_loop" else "step_loop"
    again = f"agentfw run {made.spec.environment.name} --interface {other}{where}"
    out.note(f"next: {again} && agentfw compare {made.id.rpartition('-')[2]} last{where}")
    out.note("      agentfw plugins list")


def _beside(made: Run, summary: Summary, out: Out) -> bool:
    """The run in one row, and below it what simple players reach; False where the environment doesn't say how."""
    from agentfw.runs.summary import beside

    rows = beside(summary, made.folder)
    columns = {name: title for name, title in made.folder.columns.items() if name in summary.figures}
    if not columns:
        return False
    headline = made.folder.headline
    cells = [
        [
            who,
            *(f"{figures[name].estimate:.2f}" if name in figures else "" for name in columns),
            _range(figures[headline]),
        ]
        for who, figures in rows
    ]
    out.table(["", *columns.values(), f"95% of {headline}"], cells, right=range(1, len(columns) + 1))
    return True


def _range(interval: Interval) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}" if interval.count > 1 else ""
