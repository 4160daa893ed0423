"""`agentfw runs` and `agentfw report`: list, show and resume runs, and write their reports.

A damaged run doesn't hide the others: it is listed as damaged, and `show` says what is wrong with it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import RunFolderError, UsageError
from agentfw.printing.out import Out, counted
from agentfw_cli.common import Given, several_option, shared_options, usage_words
from agentfw_cli.run import execute, samples_option

if TYPE_CHECKING:
    from agentfw.runs.records.folder import RunFolder

_SHOWN = 10  # maximum number of episodes whose failures are listed, and of updates
_DAMAGED: dict[str, Any] = {"done": 0, "how_far": "", "state": "damaged", "mean": None}


@click.group()
def runs() -> None:
    """List, show and resume runs.

    RUN is the path of a run, its name, the end of its name, or `last`.
    """


@runs.command("list")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Maximum number of runs to list. 0 lists all.",
)
@shared_options("runs", "json")
def list_(given: Given, limit: int) -> None:
    """List the runs, newest first."""
    from agentfw.runs.records.folder import newest_first

    root, out = given.root, given.out
    names = newest_first(root)
    rows = [_row_of(root / name) for name in names[: limit or None]]
    if out.json:
        out.data(rows)
    elif not rows:
        out.note(f"there are no runs below {root}; start one: agentfw run")
    else:
        shown = []
        for row in rows:
            state = f"{row['state']}, {row['how_far']}" if row["how_far"] else row["state"]
            headline = "" if row["mean"] is None else f"{row['headline']} {row['mean']:.3f}"
            shown.append([row["run"], row["policy"], state, headline])
        out.table(["run", "policy", "state", "headline"], shown)
        first = {row["state"]: row for row in reversed(rows)}
        if "unreadable" in first:
            out.note(f"what is wrong with an unreadable run: agentfw runs show {first['unreadable']['run']}")
        if "interrupted" in first:
            out.note(f"resume an interrupted run: {first['interrupted']['resume']}")
    if len(names) > len(rows):
        out.note(f"{counted(len(names) - len(rows), 'older run')} not shown; list all: agentfw runs list --limit 0")


@runs.command()
@click.argument("run")
@click.option("--episode", metavar="ID", help="Show this episode: what was read, said and done, turn by turn.")
@shared_options("runs", "json")
def show(given: Given, run: str, episode: str | None) -> None:
    """Show the settings and the results of RUN, or one of its episodes.

    \b
      agentfw runs show last
      agentfw runs show last --episode 17
    """
    from agentfw.runs.records.call_record import read_calls, running_calls
    from agentfw.runs.records.play_records import State, reasons
    from agentfw.runs.records.summary import summarize
    from agentfw.runs.results.run_report import what_each_did
    from agentfw_cli.result_table import print_calls, print_figures

    out, folder = given.out, given.folder(run)
    if episode is not None:
        _show_episode(folder, episode, out)
        return
    damaged = folder.damage(deep=True)
    try:
        row, records, updates, failed = _row(folder), folder.metrics(), folder.updates(), reasons(folder.failed())
        summary = folder.summary() or (summarize(folder, 0.0).to_record() if records else None)
    except RunFolderError as error:  # what can be read is shown
        damaged = list(dict.fromkeys([*damaged, error.message]))
        row, records, updates, failed = _row(folder, is_damaged=True) | {"resume": folder.resume_command}, [], [], {}
        summary = folder.summary()
    bad = {record["episode"]: record["failures"] for record in records if record["failures"]}
    row |= {"damage": damaged, "state": "damaged" if damaged and row["state"] == "done" else row["state"]}
    calls, running = read_calls(folder.path), running_calls(folder.path)
    if out.json:
        more = {"about": folder.about, "summary": summary, "failures": bad, "calls": calls, "running": running}
        out.data({**row, "folder": str(folder.path), **more})
        return
    how_far = f", {row['how_far']}" if row["how_far"] else ""
    out.line(f"{out.style(folder.id, 'bold')}   {row['state']}{how_far}")
    for reason, count in failed.items():
        out.line(f"failed and left out, {counted(count, 'episode')}: {reason}")
    out.line()
    spec: dict[str, Any] = folder.about["spec"]
    created, words = str(folder.about.get("created", "")), usage_words(summary) if summary is not None else ""
    facts = [
        ("made", created[:19].replace("T", " ")),
        ("agentfw", folder.about.get("agentfw", "")),
        *folder.about.get("components", {}).items(),
        *(("resumed", line) for line in folder.segments),
        *((key, spec[key]) for key in ("interface", "seed", "split", "updates", "concurrency") if key in spec),
        *([("tokens", words)] if words else []),
    ]
    out.table(["", ""], [[str(key), str(value)] for key, value in facts])
    if summary is not None:
        out.line()
        print_figures(folder, summary["figures"], out)
    _print_updates(updates, out)
    if records:
        out.line()
        out.table(["", ""], [list(row) for row in what_each_did(folder).items()])
    print_calls(calls, out)
    for call in running:
        out.note(f"{'running' if row['state'] == 'running' else 'was running when the process ended'}: {call}")
    for episode, count in list(bad.items())[:_SHOWN]:
        out.note(f"episode {episode}: {counted(count, 'answer')} could not be understood")
    if len(bad) > _SHOWN:
        out.note(f"... and {len(bad) - _SHOWN} more episodes; metrics.jsonl has them all")
    adapter = State.known(folder.path).adapter
    if adapter and any((folder.path / adapter).glob("*.safetensors")):
        out.note(f"serve what was learned: agentfw serve --policy {folder.called}")
    for line in damaged:
        out.warning(f"damaged: {line}")
    if row["state"] == "interrupted":
        out.note(f"resume it: {folder.resume_command}")


def _show_episode(folder: RunFolder, name: str, out: Out) -> None:
    from agentfw.runs.results.run_charts import transcript

    for episode in folder.episodes():
        if episode.id == name or (name.isdigit() and episode.id == f"{int(name):05}-0"):
            if out.json:
                out.data(episode.to_record())
            else:
                out.line(transcript(episode))
            return
    names = [str(record["episode"]) for record in folder.metrics()]
    known = f"its episodes are {names[0]} to {names[-1]}" if names else "it has none yet"
    raise UsageError(f'{folder.id} has no finished episode "{name}"', fix=known)


@runs.command()
@click.argument("run")
@several_option(
    "--set",
    "assignments",
    "KEY=VALUE",
    "Secret that is not kept on disk, such as policy.api_key=... (asked for on a terminal), or setting that can't "
    "change results, such as deadline=1200, or a larger number of updates. Can be repeated.",
)
@click.option(
    "--from-update",
    type=click.IntRange(min=1),
    metavar="N",
    help="Go on from this update, where later ones are damaged. What came after it is kept in RUN/set_aside.",
)
@click.option(
    "--with-changed", is_flag=True, help="Resume although the world, a reward or the policy is of another version now."
)
@samples_option
@shared_options("runs", "host", "quiet", "json")
def resume(
    given: Given, run: str, assignments: tuple[str, ...], from_update: int | None, with_changed: bool, samples: bool
) -> None:
    """Resume RUN where it was interrupted. Episodes that are on disk are not played again.

    \b
      agentfw runs resume last
      agentfw runs resume last --set learner.tokens=512 --set updates=60
    """
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.runs.run import Run
    from agentfw.runs.spec.resolution import missing_secrets

    out, folder, host = given.out, given.folder(run), given.host()
    # Secrets that run.json doesn't have and nobody has set are typed in.
    known = {assignment.partition("=")[0].removesuffix(".env") for assignment in assignments}
    asked = [key for key in missing_secrets(folder.about) if key not in known] if sys.stdin.isatty() else []
    secrets = [f"{key}={json.dumps(click.prompt(key, hide_input=True, err=True))}" for key in asked]
    changes = parse_assignments([*assignments, *secrets])
    if from_update is not None:
        folder.rewind(from_update)
    resumed = Run.open(folder, host, changes, with_changed=with_changed)
    if resumed.is_done:
        out.note(f"{folder.id} is done already")
    execute(resumed, host, out, samples=samples)


@runs.command()
@click.argument("run")
@click.option("--toml", "as_toml", is_flag=True, help="Its spec, as a file for `agentfw run --spec`.")
@click.option("--lock", is_flag=True, help="What it was played with, as a requirements file for pip.")
@shared_options("runs")
def export(given: Given, run: str, as_toml: bool, lock: bool) -> None:
    """Print the spec of RUN, or what it was played with.

    \b
      agentfw runs export last --toml > spec.toml
      agentfw runs export last --lock > requirements.txt
    """
    from agentfw.runs.records.package import read_lock
    from agentfw.runs.spec.start import spec_text

    if as_toml == lock:
        raise UsageError("one thing is printed at a time", fix="--toml for the spec, or --lock for the requirements")
    out, folder = given.out, given.folder(run)
    if as_toml:
        text, missing = spec_text(folder.about)
        out.line(text.rstrip())
        if missing:
            out.note(f"secrets aren't kept, so the spec lacks {', '.join(missing)}")
        return
    for line in read_lock(folder.path).requirements(folder.path / "package"):
        out.line(line)


def _print_updates(lines: list[dict[str, Any]], out: Out) -> None:
    """The newest updates of a training, and why some have taught nothing."""
    from agentfw.runs.records.summary import WHY_NO_LEARNING, nothing_learned
    from agentfw.runs.results.run_charts import updates_table

    if not lines:
        return
    heads, rows = updates_table(lines[-_SHOWN:])
    out.line()
    shown = [[str(getattr(cell, "text", "" if cell is None else cell)) for cell in row] for row in rows]
    out.table(heads, shown, right=tuple(range(2, len(heads))))
    why = [words for words in map(nothing_learned, lines) if words]
    for words in dict.fromkeys(why):
        out.note(f"{words} ({counted(why.count(words), 'update')}). {WHY_NO_LEARNING}")


def _row(folder: RunFolder, *, is_damaged: bool = False) -> dict[str, Any]:
    """The row of a run. Of a damaged one, what can be known."""
    spec: dict[str, Any] = folder.about["spec"]
    row = {
        "run": folder.id,
        "environment": spec["environment"]["name"],
        "policy": spec["policy"]["name"],
        "memories": [memory["name"] for memory in spec["memories"]],
        "interface": spec["interface"],
        "total": folder.total,
        "unit": folder.unit,
        "headline": folder.headline,
    }
    if is_damaged:
        return row | _DAMAGED
    summary = folder.summary()
    return row | {
        "done": folder.done,
        "how_far": folder.how_far,
        "state": folder.state,
        "resume": folder.resume_command,
        "mean": summary["figures"].get(folder.headline, {}).get("mean") if summary else None,
    }


def _row_of(path: Path) -> dict[str, Any]:
    """The row of a run, which may be damaged or of another version."""
    from agentfw.runs.records.folder import RunFolder

    try:
        folder = RunFolder.open(path)
    except RunFolderError as error:
        empty: dict[str, Any] = dict.fromkeys(("environment", "policy", "interface", "unit", "headline"), "")
        nothing = {**_DAMAGED, "memories": [], "total": 0, "state": "unreadable"}
        return {"run": path.name, **empty, **nothing, "problem": error.message}
    try:
        return _row(folder)
    except RunFolderError as error:
        return _row(folder, is_damaged=True) | {"problem": error.message}


@click.command()
@click.argument("run", default="last")
@click.option(
    "--picture",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Only draw the timeline of one episode into this file (.svg).",
)
@click.option("--episode", metavar="ID", help="Episode that --picture draws. Default: the first.")
@shared_options("runs", "json")
def report(given: Given, run: str, picture: Path | None, episode: str | None) -> None:
    """Write report.html and curve.svg of RUN. Default: the last run.

    Works also while the run goes on, and for an interrupted run.
    """
    from agentfw.runs.results.run_charts import write_episode_picture
    from agentfw.runs.results.run_report import write_report

    out, folder = given.out, given.folder(run)
    if episode is not None and picture is None:
        raise UsageError("--episode needs a file to draw the episode into", fix="add --picture FILE")
    with out.progress("writing the report"):
        written = [write_episode_picture(folder, picture, episode)] if picture is not None else write_report(folder)
    files = [str(file) for file in written]
    if out.json:
        out.data({"run": folder.id, "state": folder.state, "files": files})
    else:
        for file in files:
            out.line(file)
