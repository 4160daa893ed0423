"""`agentfw loop` and `agentfw forget`: memory, rewards and training together, for several variants, in one table.

agentfw loop assistant --seeds 3 --jobs 2 --folder loops/first
agentfw forget ana --loop loops/assistant     # delete all data of a user, with a receipt
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentfw.printing.out import Out, shown_path
from agentfw_plugins.command_options import json_option

if TYPE_CHECKING:
    from agentfw import Host

    from .table import Row

_SPEC = "loop-"
"""What the names of specs of loops begin with; the rest is an environment."""


def _host(out: Out) -> Host:
    from agentfw import Host

    host = Host.load()
    _tell_notes(host, out)
    return host


def _tell_notes(host: Host, out: Out) -> None:
    for line in host.notes:
        out.note(f"plugin: {line}")
    host.notes.clear()


@click.command()
@click.argument("environment", required=False)
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME", help="Do this variant. Default: all. Can be repeated."
)
@click.option("--quick", is_flag=True, help="Do only the few variants that the spec names for a first look.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Number of seeds for each variant.")
@click.option(
    "--first-seed",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="The first of the seeds. What was chosen on some seeds is measured on others.",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Number of cells that are done at a time."
)
@click.option("--folder", type=click.Path(path_type=Path), help="Directory of the loop. Default: loops/ENVIRONMENT.")
@click.option("--spec", "file", type=click.Path(path_type=Path), help="Spec of the loop (TOML).")
@json_option
def loop(
    environment: str | None,
    variants: tuple[str, ...],
    quick: bool,
    seeds: int,
    first_seed: int,
    jobs: int,
    folder: Path | None,
    file: Path | None,
    out: Out,
) -> None:
    """Alternate runs and trainings in ENVIRONMENT, and compare variants on held-out users.

    Runs, in which memories learn, and trainings, in which the policy learns, take turns. Then each variant is measured
    on users that it has not seen. Repeat the command with the same folder to resume an interrupted loop, or to add
    variants and seeds.

    \b
      agentfw loop assistant --quick
      agentfw loop assistant --variant A1 --seeds 3 --jobs 2 --folder loops/memory
    """
    from agentfw.errors import UnknownNameError, UsageError

    from .loop import Loop
    from .spec import read_loop

    home, started_in = folder and folder.absolute(), Path.cwd()
    host = _host(out)
    if file is None:
        specs = host.specs()
        known = [name.removeprefix(_SPEC) for name in specs if name.startswith(_SPEC)]
        if environment is None or _SPEC + environment not in specs:
            if environment:
                raise UnknownNameError("loop", environment, known)
            raise UsageError("no environment was named", fix=f"use {', '.join(known)}, or --spec FILE")
        file = Path(host.find_spec(_SPEC + environment).path)
    spec = read_loop(file)
    if quick and not spec.quick:
        raise UsageError(f"{file.name} names no variants for --quick", fix="add quick = [...], or use --variant NAME")
    spec = spec.chosen((*spec.quick, *variants) if quick else variants)
    spec.check(host)
    found = Loop.at(home or started_in / "loops" / (environment or file.stem), spec, seeds, first_seed)
    with out.progress("reading what is done") as tell:
        result = found.do(host, lambda text, done, of: tell(f"{done}/{of}  {text}"), jobs=jobs)
    _tell_notes(host, out)
    if out.json:
        out.data({"folder": str(found.path), **result.to_record()})
        return
    leading = spec.figures[0]
    means = [
        [row.variant, *(f"{row.means[name]:.3f}" if name in row.means else "" for name in spec.figures), row.about]
        for row in result.rows
    ]
    out.table(["variant", *spec.figures, ""], means, right=tuple(range(1, len(spec.figures) + 1)))
    out.line()
    _compared(out, f"{leading} beside {result.rows[0].variant}", leading, result.rows[1:])
    if result.contrasts:
        out.line()
        _compared(out, leading, leading, result.contrasts)
    out.line(f"{shown_path(found.path)}/   report.html   table.json   cells")


def _compared(out: Out, head: str, figure: str, rows: Sequence[Row]) -> None:
    from agentfw.report.statistics import probability

    lines = []
    for row in rows:
        one = row.differences.get(figure)
        if one is not None and row.corrected is not None:
            interval = f"{one.difference.low:+.3f} to {one.difference.high:+.3f}"
            estimate = f"{one.difference.estimate:+.3f}"
            lines.append([row.variant, estimate, interval, probability(row.corrected), row.about])
    out.table(["", head, "95% interval", "p (Holm)", ""], lines, right=(1, 2, 3))


@click.command()
@click.argument("user")
@click.option("--loop", "folder", type=click.Path(path_type=Path), required=True, help="Directory of the loop.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
def forget(user: str, folder: Path, yes: bool, out: Out) -> None:
    """Delete all data of USER from a loop, and compute its tables again.

    USER is taken out of the memories, the reward models, the state of the optimizers and the records of all runs. The
    loop must be complete. This cannot be undone. To delete a user from a memory that is not part of a loop, use
    `agentfw memory forget`.
    """
    from agentfw.errors import UsageError

    from .forgetting import forget as forget_in_loop

    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "forgetting can't be undone, and there is no terminal to confirm it on",
                fix=f"agentfw forget {user} --loop {folder} --yes",
            )
        click.confirm(f"Forget {user} in {folder}? This cannot be undone.", abort=True, err=True)
    receipt = forget_in_loop(folder, user, _host(out))
    if receipt.empty:
        out.note(f"no data of {user} was found; is the name right?")
    if out.json:
        out.data(receipt.to_record())
        return
    rows = [
        ["lines of records", receipt.records],
        ["runs with such lines", receipt.runs],
        ["states of optimizers", receipt.optimizers],
        ["reward models", receipt.models],
        *([f"memory: {name.replace('_', ' ')}", count] for name, count in receipt.memories.items()),
    ]
    out.table(["forgotten", "number"], [[str(name), f"{count:,}"] for name, count in rows], right=(1,))
