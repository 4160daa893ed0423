"""`agentfw compare interfaces`: compares one agent in one environment under several interfaces.

Everything but the interface is the same, down to the tasks, so each difference is taken task by task.

    agentfw compare interfaces inbox --episodes 100
    agentfw compare interfaces inbox --interface step_loop --interface polling:15 --interface event_driven --seeds 1-8
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.out import Out
from agentfw_cli.common import (
    host_options,
    json_option,
    load_host,
    note_problems,
    quiet_option,
    runs_folder,
    runs_option,
)
from agentfw_cli.spec_options import set_option, spec_option

__all__ = ["compare_interfaces"]

MOST_SEEDS = 10_000


@click.command("interfaces")
@click.argument("environment")
@click.option("--policy", metavar="NAME", help="Policy that makes the decisions.")
@click.option(
    "--interface",
    "interfaces",
    multiple=True,
    metavar="NAME",
    help="Interface to compare: event_driven, step_loop, polling:EVERY or reflex. Can be repeated; the others are"
    " compared to the first. Default: step_loop, polling:45, polling:15, polling:5, reflex where the environment has"
    " one, and event_driven.",
)
@click.option("--episodes", type=int, help="Number of episodes for each seed.")
@click.option("--seeds", metavar="A,B,C-D", help="Random seeds: numbers and ranges.")
@click.option("--figure", "figures", multiple=True, metavar="NAME", help="Show only this figure. Can be repeated.")
@set_option
@spec_option
@click.option("--jobs", type=click.IntRange(1), help="Number of processes. Default: the number of cores.")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Output directory. Default: a new one beside the runs.",
)
@runs_option
@host_options
@quiet_option
@json_option
def compare_interfaces(
    environment: str,
    policy: str | None,
    interfaces: tuple[str, ...],
    episodes: int | None,
    seeds: str | None,
    figures: tuple[str, ...],
    assignments: tuple[str, ...],
    spec: Path | None,
    jobs: int | None,
    folder: Path | None,
    runs: Path | None,
    blocked: tuple[str, ...],
    strict: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compare one agent in ENVIRONMENT under several interfaces, on the same tasks.

    Each figure has its bootstrap 95% interval and its difference to the first interface, task by task. Without
    --figure, the main ones are shown. A chart and all figures of every episode are written to the output directory.
    """
    from agentfw.runs.results import interface_comparison
    from agentfw.runs.spec.run_spec import apply_assignments, parse_spec
    from agentfw.runs.spec.start import start_of_run, with_choices
    from agentfw.settings import parse_assignments

    out = Out(json=as_json, quiet=quiet)
    host = load_host(out, blocked, strict)
    values = with_choices(start_of_run(host, environment, spec), {"policy": policy, "episodes": episodes})
    values = apply_assignments(values, parse_assignments(assignments))
    parsed = parse_spec(values, "spec")
    with out.progress("playing") as tell:
        comparison = interface_comparison.compare_interfaces(
            parsed,
            host,
            interfaces=interfaces,
            seeds=_numbers(seeds) if seeds else (),
            processes=jobs,
            done=lambda count, of: tell(f"{count} of {of}"),
        )
    note_problems(host, out)
    rows = comparison.rows(figures or comparison.main_figures())
    files = comparison.write(folder or _folder(runs_folder(runs), environment))
    if as_json:
        out.data({**comparison.to_record(), "files": [str(file) for file in files]})
        return
    table = []
    for row in rows:
        for place, name in enumerate(row.runs):
            difference = row.differences[place]
            figure, gap = row.figure if place == 0 else "", "" if difference is None else str(difference)
            table.append([figure, name, str(row.intervals[place]), gap])
    out.table(["figure", "interface", "mean ± 95%", f"difference to {rows[0].runs[0]}"], table)
    out.line()
    out.line(f"{files[0].parent}/   {'   '.join(file.name for file in files)}")
    shown = {row.figure for row in rows}
    if not figures and (others := [name for name in comparison.figures() if name not in shown]):
        out.note(f"more figures, for --figure: {', '.join(others)}")
    if comparison.lower_is_better:
        out.note(f"the lower the {comparison.headline}, the better")


def _numbers(text: str) -> list[int]:
    """Seeds from words: `7`, `1,2,3`, `1-20`, `7,100-120`."""
    from agentfw.errors import UsageError

    found: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            seeds = range(int(first), int(last) + 1) if dash else [int(first)]
            if len(found) + len(seeds) > MOST_SEEDS:
                raise UsageError(
                    f'"{text}" names more than {MOST_SEEDS:,} seeds', fix="use fewer, such as --seeds 1-20"
                )
            found += seeds
    except ValueError:
        found = []
    if not found:
        raise UsageError(f'"{text}" names no seeds', fix="use numbers and ranges, such as --seeds 7 or --seeds 1-20")
    return found


def _folder(runs: Path, environment: str) -> Path:
    """A new name beside the runs."""
    import re
    import secrets
    from datetime import datetime

    word = re.sub(r"[^a-zA-Z0-9]+", "-", environment).strip("-")
    return runs / f"{datetime.now().astimezone():%Y-%m-%d}-interfaces-{word}-{secrets.token_hex(2)}"
