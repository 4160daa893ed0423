"""`agentfw compare` and `agentfw reproduce`: runs beside each other, and a run beside itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out, counted
from agentfw_cli.common import Given, note_problems, several_option, shared_options
from agentfw_cli.run import play, set_option

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.runs.records.folder import RunFolder
    from agentfw.runs.records.summary import ComparedFigure
    from agentfw.runs.spec.run_spec import RunSpec


@click.command()
@click.argument("which", metavar="RUN|SPEC...", nargs=-1, required=True)
@several_option("--figure", "figures", "NAME", "Show only this figure. Can be repeated.")
@several_option(
    "--sweep",
    "sweeps",
    "KEY=A,B",
    "Run one SPEC, or what `agentfw run` calls by that name, once for each of these values, and compare these"
    " runs. Can be repeated, for all combinations.",
)
@set_option
@shared_options("runs", "host", "quiet", "json")
def compare(
    given: Given,
    which: tuple[str, ...],
    figures: tuple[str, ...],
    sweeps: tuple[str, ...],
    assignments: tuple[str, ...],
) -> None:
    """Compare runs. A SPEC (a .toml file) is run first, and with --sweep once for each value of a setting.

    Each figure has its 95% interval. The difference to the first run is taken episode by episode where both
    have played the same tasks. Its p-value is the probability of such a difference if there were none.
    """
    from agentfw.runs import compare_runs, figure_title
    from agentfw.runs.spec.resolution import checked_spec
    from agentfw.runs.spec.start import chosen_values, start_of_run

    out, root = given.out, given.root
    labels: dict[str, str] = {}
    if sweeps:
        host = given.host()
        played = _played(_swept(which, sweeps, assignments, host, root), host, root, out)
        labels = {folder.id: label for label, folder in played.items()}
        folders = list(played.values())
    elif assignments:
        raise UsageError("--set changes what --sweep runs, and there is no --sweep", fix="drop --set")
    else:
        # A run that doesn't exist, the same one twice, or a wrong key is an error before a spec is run for an hour.
        found = {name: given.folder(name) for name in which if not name.endswith(".toml")}
        if len({found[name].path.resolve() if name in found else Path(name) for name in which}) < max(2, len(which)):
            raise UsageError("a comparison needs two different runs", fix="name another one; see: agentfw runs list")
        if files := [name for name in which if name not in found]:
            host = given.host()
            values = {name: chosen_values(host, start_of_run, None, Path(name), runs=root) for name in files}
            found |= _played({name: checked_spec(values[name], host, name) for name in files}, host, root, out)
        folders = [found[name] for name in which]
    with out.progress("comparing"):
        table = compare_runs(folders, figures)
    if out.json:
        records = [row.to_record() for row in table]
        for one in (one for record in records for one in record["runs"] if labels):
            one["label"] = labels[one["run"]]
        out.data(records)
        return
    rows = []
    for row in table:
        for place, name in enumerate(row.runs):
            difference = row.differences[place]
            figure = figure_title(row.figure, folders[0]) if place == 0 else ""
            gap = "" if difference is None else str(difference)
            rows.append([figure, labels.get(name, name), str(row.intervals[place]), gap])
    out.table(["figure", "run", "mean ± 95%", "difference to the first"], rows)
    for line in _remarks(folders, table):
        out.note(line)


def _remarks(folders: Sequence[RunFolder], table: Sequence[ComparedFigure]) -> Iterator[str]:
    """What to know of a comparison besides its figures."""
    from agentfw.runs.records.package import changed_parts
    from agentfw.runs.results.reproduction import compare_records

    first = folders[0]
    for other in folders[1:]:
        if compare_records(first, other).equal and compare_records(other, first).equal:
            yield f"the records of {first.id} and {other.id} are equal, to the last digit"
    for name in dict.fromkeys(row.figure.partition(" after ")[0] for row in table if row.better == "lower"):
        yield f"the lower the {name}, the better"
    for folder, difference in zip(folders, table[0].differences, strict=True):
        if failed := len(folder.failed()):
            yield f"of {folder.id}, {counted(failed, 'episode')} failed, and are in no figure here"
        if folder.state != "done":
            yield f"{folder.id} is {folder.state}; it is compared as far as it is"
        yield from (f"{folder.id}, {line}" for line in folder.segments)
        yield from changed_parts(first.about, folder.about, f"in {first.id}", f"in {folder.id}")
        if folder is first:
            continue
        tasks = 0 if difference is None else difference.difference.count
        ours, theirs = len(first.metrics()), len(folder.metrics())
        if not tasks:
            yield f"{folder.id} has no task in common with {first.id}"
        elif tasks < max(ours, theirs):
            common = counted(tasks, "common task")
            yield f"the difference of {folder.id} is that of {common}, of {ours} and {theirs}"


def _swept(
    which: Sequence[str], sweeps: Sequence[str], assignments: Sequence[str], host: Host, root: Path
) -> Mapping[str, RunSpec]:
    """One spec, once for each value of a setting or each combination of several, by what sets it apart."""
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.runs.spec.run_spec import RunSpec, parse_spec
    from agentfw.runs.spec.start import chosen_values, start_of_run
    from agentfw.runs.spec.values import apply_assignments

    if len(which) != 1:
        raise UsageError("--sweep runs one spec with several values", fix="name one spec, or one environment")
    file = Path(which[0]) if which[0].endswith(".toml") else None
    given, name = parse_assignments(assignments), None if file else which[0]
    values = chosen_values(host, start_of_run, name, file, runs=root, assignments=given)
    choices, specs = list[list[tuple[str, str]]](), dict[str, RunSpec]()
    for sweep in sweeps:
        key, equals, listed = sweep.partition("=")
        several = [value.strip() for value in listed.split(",")]
        if not equals or not key or "" in several or len(set(several)) != len(several):
            wrong = f'--sweep "{sweep}" isn\'t of the form KEY=A,B with different values'
            raise UsageError(wrong, fix="--sweep environment.rate=0.1,0.5")
        choices.append([(key, value) for value in several])
    for chosen in product(*choices):
        label = " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in chosen)
        changes = parse_assignments(f"{key}={value}" for key, value in chosen)
        specs[label] = parse_spec(apply_assignments(values, changes), label)
    if len(specs) < 2:
        raise UsageError("a sweep needs two different values", fix="--sweep environment.rate=0.1,0.5")
    return specs


def _played(specs: Mapping[str, RunSpec], host: Host, root: Path, out: Out) -> dict[str, RunFolder]:
    from agentfw.runs.run import Run
    from agentfw.runs.spec.resolution import resolve

    for spec in specs.values():  # so that a wrong setting of the last is an error before the first is run
        resolve(spec, host)
    folders = {}
    for name, spec in specs.items():
        run = Run.create(spec, host, root)
        play(run, out)
        note_problems(host, out, selected=True)
        folders[name] = run.folder
    return folders


@click.command()
@click.argument("run")
@click.option("--env", is_flag=True, help="Install what the run was played with into an environment of its own, first.")
@set_option
@shared_options("runs", "host", "quiet", "json")
def reproduce(given: Given, run: str, env: bool, assignments: tuple[str, ...]) -> None:
    """Play RUN again, and compare every episode, figure and version with its own.

    RUN is the path or the name of a run, also of one that was copied from another machine. --set is for secrets, which
    aren't kept on disk. Exits with 0 if the records are equal, and with 1 if they aren't.

    \b
      agentfw reproduce last
      agentfw reproduce ~/downloads/2026-11-21-inbox-7f3a19c4 --env
    """
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.runs.results import reproduction
    from agentfw.runs.run import Run

    out, root, folder = given.out, given.root, given.folder(run)
    if env:
        with out.progress("installing what the run was played with"):
            python = reproduction.environment_of(folder, root)
        options = [*(f"--set={each}" for each in assignments), f"--runs={root}"]
        options += [*(f"--no-plugin={each}" for each in given.blocked), *["--strict-plugins"] * given.strict]
        options += [*["--quiet"] * out.quiet, *["--json"] * out.json]
        words = [str(python), "-m", "agentfw", "reproduce", str(folder.path), *options]
        raise click.exceptions.Exit(subprocess.run(words).returncode)
    host = given.host()
    differences = reproduction.installation_differences(folder)
    for line in differences:
        out.note(line)
    secrets = parse_assignments(assignments)
    again = reproduction.play_again(folder, host, root, secrets)
    play(again, out)
    for updates in reproduction.added_updates(folder):
        again = Run.open(again.folder, host, {**secrets, "updates": updates})
        play(again, out)
    found = reproduction.compare_records(folder, again.folder)
    if out.json:
        out.data(
            {
                "run": folder.id,
                "again": again.id,
                "equal": found.equal,
                "compared": found.compared,
                "first_difference": found.first or None,
                "share_within_rounding": found.rounding,
                "installation": differences,
            }
        )
    elif found.equal:
        out.line(f"equal: {counted(found.compared, 'record')} of {folder.id} and {again.id}, to the last digit")
    else:
        out.line(f"not equal: {found.first}")
        if found.rounding is not None:
            out.line(f"{found.rounding:.0%} of its figures are equal but for rounding")
        if not differences:
            out.note("the installation is the same, so something outside of it differs: a server, a file, the time")
        out.line(f"see: agentfw compare {folder.id} {again.id}")
    raise click.exceptions.Exit(0 if found.equal else 1)
