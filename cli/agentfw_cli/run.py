"""`agentfw run`: from words on a command line to a spec, and the run itself with a live picture.

The one rule: what a person gave last and most precisely holds: a spec file, then the options, then `--set`.

    agentfw run inbox --episodes 80 --set environment.rate=0.5
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.metadata import EntryPoint, entry_points
from agentfw_cli.common import (
    figure_row,
    host_options,
    json_option,
    load_command,
    load_host,
    name_of,
    note_problems,
    runs_folder,
    runs_option,
)
from agentfw_cli.out import Out

if TYPE_CHECKING:
    from types import FrameType

    from agentfw.host import Host
    from agentfw.runs.run import Run
    from agentfw.runs.summary import Summary
    from agentfw.statistics import Interval

__all__ = ["execute", "play", "run", "start_values", "with_options"]

_LISTS = ("memories", "tools", "rewards", "trackers")
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
@click.option("--policy", metavar="NAME", help="Who decides.")
@click.option("--memory", "memories", multiple=True, metavar="NAME", help="What it remembers with; may be repeated.")
@click.option("--tool", "tools", multiple=True, metavar="NAME", help="What it can call besides; may be repeated.")
@click.option(
    "--reward", "rewards", multiple=True, metavar="NAME[=WEIGHT]", help="What its work is scored by; may be repeated."
)
@click.option("--tracker", "trackers", multiple=True, metavar="NAME", help="Where figures go besides; may be repeated.")
@click.option("--interface", metavar="NAME", help="event_driven, step_loop, polling:EVERY or reflex.")
@click.option("--episodes", type=int, help="How many episodes.")
@click.option("--seed", type=int, help="Where every random choice comes from.")
@click.option("--plugin", "distributions", multiple=True, metavar="DIST", help="A plugin that must be there and whole.")
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any setting, such as environment.rate=0.5."
)
@click.option("--spec", type=click.Path(path_type=Path), help="A TOML file to start from.")
@runs_option
@host_options
@click.option("--quiet", is_flag=True, help="No progress, no hints.")
@json_option
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
    from agentfw.runs.run import Run
    from agentfw.runs.spec import apply_assignments, parse_spec
    from agentfw.settings import parse_assignments

    out = Out(json=as_json, quiet=quiet)
    host = load_host(out, blocked, strict)
    for distribution in distributions:
        host.select_distribution(distribution)
    values = with_options(start_values(host, environment, spec), chosen)
    values = apply_assignments(values, parse_assignments(assignments))
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
        if name is not None and _name(values.get("environment")) != name and "any" in specs:
            values = read_spec(Path(host.find_spec("any").path))
    return values if name is None else {**values, "environment": _kept(values.get("environment"), name)}


def with_options(values: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, over the values of a spec. A list that is given takes the place of the spec's.

    A component that is named again keeps the settings that it has there.
    """
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    if "policy" in given:
        given["policy"] = _kept(values.get("policy"), given["policy"])
    for key in _LISTS:
        if key not in given:
            continue
        listed = values.get(key, ())
        before = {_name(choice): choice for choice in (listed if isinstance(listed, list) else [listed])}
        choices = []
        for text in given[key]:
            name, equals, weight = text.partition("=") if key == "rewards" else (text, "", "")
            choice = _kept(before.get(name), name)
            choices.append({**choice, "weight": _weight(weight)} if equals else choice)
        given[key] = choices
    return {**values, **given}


def _kept(before: Any, name: str) -> dict[str, Any]:
    """A component by its name, with the settings that it had."""
    return dict(before) if isinstance(before, dict) and before.get("name") == name else {"name": name}


def _weight(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _name(choice: Any) -> Any:
    return choice.get("name") if isinstance(choice, dict) else choice


def play(made: Run, out: Out) -> Summary:
    """Play a run with a live picture. Whatever stops it, somebody is told how to go on."""
    from agentfw.errors import AgentfwError, UsageError
    from agentfw.host.plugin_guard import stdout_to_stderr
    from agentfw_cli.live import watch

    with _terminated_is_interrupted() as signals:
        try:
            # An environment or a tracker that prints must not get between our lines on stdout.
            with stdout_to_stderr(), watch(made, out) as watcher:
                return asyncio.run(made.execute(watcher))
        except AgentfwError as error:
            if not isinstance(error, UsageError):  # a wrong setting stays wrong
                error.mend = f"{error.mend}; then go on: agentfw runs resume {name_of(made.folder)}".removeprefix("; ")
            raise
        except KeyboardInterrupt:
            out.error(
                "every episode that was finished is kept",
                f"go on with it: agentfw runs resume {name_of(made.folder)}",
                label="terminated" if signals else "interrupted",
            )
            raise click.exceptions.Exit(143 if signals else 130) from None


@contextmanager
def _terminated_is_interrupted() -> Iterator[list[int]]:
    """SIGTERM ends a run as Ctrl-C does: everything is closed, and a line says how to go on. Holds what came."""
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # under nohup, or in the background of a script
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def execute(made: Run, host: Host, out: Out) -> None:
    """Play a run, write its report, and print what came of it."""
    from agentfw.errors import StorageError
    from agentfw.runs.report import write_report

    summary = play(made, out)
    note_problems(host, out)
    files, failed = list[Path](), None
    try:
        files = write_report(made.folder)
    except StorageError as error:  # the run itself is done: what came of it is told first
        failed = error
        failed.mend += f"; then: agentfw report {name_of(made.folder)}"
    if out.json:
        record = summary.to_record()
        out.data({**record, "folder": str(made.folder.path), "files": [str(file) for file in files]})
    else:
        _tell(made, summary, out, files)
    if failed is not None:
        raise failed


def _tell(made: Run, summary: Summary, out: Out, files: list[Path]) -> None:
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
