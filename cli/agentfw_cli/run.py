"""`agentfw run`: from words on a command line to a spec, and the run itself with a live picture."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw_cli.common import host_options, json_option, load_host, runs_folder, runs_option
from agentfw_cli.out import Out

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.run import Run
    from agentfw.summary import Summary

__all__ = ["execute", "run"]


@click.command()
@click.argument("environment", required=False)
@click.option("--policy", metavar="NAME", help="Who decides.")
@click.option("--memory", "memories", multiple=True, metavar="NAME", help="What it remembers with; may be repeated.")
@click.option("--tool", "tools", multiple=True, metavar="NAME", help="What it can call besides; may be repeated.")
@click.option("--reward", "rewards", multiple=True, metavar="NAME[=WEIGHT]", help="What its work is scored by; may be repeated.")
@click.option("--tracker", "trackers", multiple=True, metavar="NAME", help="Where figures go besides; may be repeated.")
@click.option("--interface", metavar="NAME", help="event_driven, step_loop, polling:EVERY or reflex.")
@click.option("--episodes", type=int, help="How many episodes.")
@click.option("--seed", type=int, help="Where every random choice comes from.")
@click.option("--plugin", "distributions", multiple=True, metavar="DIST", help="A plugin that must be there and whole.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any other setting, such as environment.rate=0.5.")
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
) -> int:
    """Let an agent work in ENVIRONMENT, and see how it goes.

    Without ENVIRONMENT it does the main job. Everything can be set: by --spec FILE, then by the options, then by --set.

    \b
      agentfw run
      agentfw run inbox --interface step_loop --set environment.rate=0.5
      agentfw run gymnasium --policy random --set environment.id=CartPole-v1
    """
    from agentfw.run import Run
    from agentfw.runspec import apply_assignments, parse_spec
    from agentfw.settings import parse_assignments

    out = Out(json=as_json, quiet=quiet)
    host = load_host(out, blocked, strict)
    for distribution in distributions:
        host.select_distribution(distribution)
    values = _start(host, environment, spec)
    values.update({key: value for key, value in _chosen(chosen).items() if value})
    values = apply_assignments(values, parse_assignments(assignments))
    made = Run.create(parse_spec(values, "spec"), host, runs_folder(runs))
    return execute(made, host, out)


def _start(host: Host, environment: str | None, spec: Path | None) -> dict[str, Any]:
    """The plain values to begin with: the file that was given, what a plugin ships for this environment, or the default."""
    from agentfw.project import find_project
    from agentfw.runspec import read_spec

    if spec is not None:
        values = read_spec(spec)
    else:
        project = find_project()
        if environment is not None:
            host.find("environment", environment)
        if environment is not None and environment in host.specs():
            values = read_spec(Path(host.find_spec(environment).path))
        elif project is not None and project.default is not None:
            values = read_spec(project.default)
        else:
            values = read_spec(Path(host.find_spec("default").path))
    if environment is not None and _name(values.get("environment")) != environment:
        values["environment"] = environment
    return values


def _chosen(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as values of a spec. A list that is given takes the place of the spec's."""
    rewards = []
    for text in options.pop("rewards"):
        name, equals, weight = text.partition("=")
        rewards.append({"name": name, "weight": _weight(weight)} if equals else {"name": name})
    return {**options, "rewards": rewards}


def _weight(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _name(choice: Any) -> Any:
    return choice.get("name") if isinstance(choice, dict) else choice


def execute(made: Run, host: Host, out: Out) -> int:
    """Play a run with a live picture, and print what came of it."""
    from agentfw.run_report import write_report
    from agentfw_cli.live import watch

    try:
        with watch(made, out) as watcher:
            summary = asyncio.run(made.execute(watcher))
    except KeyboardInterrupt:
        out.note("")
        out.note(f"interrupted; every episode that was finished is kept. Go on with: agentfw runs resume {made.id}")
        return 130
    files = write_report(made.folder)
    for line in host.notes:
        out.note(f"plugin: {line}")
    if out.json:
        record = summary.to_record()
        out.data({**record, "folder": str(made.folder.path), "files": [str(file) for file in files]})
    else:
        _tell(made, summary, out, files)
    return 0


def _tell(made: Run, summary: Summary, out: Out, files: list[Path]) -> None:
    from agentfw.report import bars

    headline = str(made.folder.about["headline"])
    values = [row["outcome"].get(headline, row["utility"]) for row in made.folder.metrics()]
    if len(values) >= 8:
        quarters = [values[len(values) * part // 4 : len(values) * (part + 1) // 4] for part in range(4)]
        means = [sum(quarter) / len(quarter) for quarter in quarters]
        out.line(f"{headline} by quarter   {bars(means)}")
        out.line()
    order = sorted(summary.figures, key=lambda name: (name != headline, name not in ("reward", "utility")))
    rows = [
        [name, f"{figure.estimate:.3f}", f"{figure.low:.3f} to {figure.high:.3f}" if figure.count > 1 else ""]
        for name, figure in ((name, summary.figures[name]) for name in order)
    ]
    out.table(["", "mean", "95% interval"], rows, right=(1,))
    out.line()
    out.line(f"{made.folder.path}/   {'   '.join(file.name for file in files)}")
    if summary.failures:
        out.note(f"{summary.failures} answers could not be understood; agentfw runs show {made.id} says which")
    other = "event_driven" if made.spec.interface == "step_loop" else "step_loop"
    out.note(
        f"next: agentfw run {made.spec.environment.name} --interface {other}    agentfw compare {made.id} last"
        "    agentfw plugins list"
    )
