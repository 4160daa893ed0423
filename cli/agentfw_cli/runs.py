"""`agentfw runs`: lists, shows and resumes runs.

A damaged run doesn't hide the others: it is listed as damaged, and `show` says what is wrong with it.

    agentfw runs list
    agentfw runs resume last
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.out import Out, counted
from agentfw_cli.common import (
    figure_row,
    host_options,
    json_option,
    load_host,
    name_of,
    quiet_option,
    runs_folder,
    runs_option,
    usage_words,
)

if TYPE_CHECKING:
    from agentfw.runs.records.folder import RunFolder

__all__ = ["runs"]

_SHOWN = 10
"""Maximum number of episodes whose failures are listed."""


@click.group()
def runs() -> None:
    """List, show and resume runs.

    RUN is the path of a run, its name, the end of its name, or `last`.
    """


@runs.command("list")
@runs_option
@json_option
def list_(runs: Path | None, as_json: bool) -> None:
    """List the runs, newest first."""
    from agentfw.errors import RunFolderError
    from agentfw.runs.records.folder import list_runs

    root, out = runs_folder(runs), Out(json=as_json)
    rows: list[dict[str, Any]] = []
    for folder in list_runs(root):
        try:
            rows.append(_row(folder))
        except RunFolderError as error:
            rows.append({**_known(folder), "done": 0, "state": "damaged", "mean": None, "problem": error.message})
    known = {row["run"] for row in rows}
    others = sorted(file.parent for file in root.glob("*/run.json") if file.parent.name not in known)
    rows += [_unreadable(path) for path in others]
    if as_json:
        out.data(rows)
        return
    if not rows:
        out.note(f"there are no runs below {root}; start one: agentfw run")
    else:
        _print_rows(rows, out)
    if others:
        out.note(f"what is wrong with an unreadable run: agentfw runs show {others[0].name}")


@runs.command()
@click.argument("run")
@runs_option
@json_option
def show(run: str, runs: Path | None, as_json: bool) -> None:
    """Show the settings and the results of RUN."""
    from agentfw.runs.records.folder import find_run
    from agentfw.runs.records.summary import in_order, summarize

    out = Out(json=as_json)
    folder = find_run(runs_folder(runs), run)
    row, records = _row(folder), folder.metrics()
    summary = folder.summary() or (summarize(folder, 0.0).to_record() if records else None)
    bad = {record["episode"]: record["failures"] for record in records if record["failures"]}
    if as_json:
        out.data({**row, "folder": str(folder.path), "about": folder.about, "summary": summary, "failures": bad})
        return
    out.line(f"{out.style(folder.id, 'bold')}   {row['state']}, {row['done']} of {row['total']} {row['unit']}")
    out.line()
    spec: dict[str, Any] = folder.about["spec"]
    facts = [
        ("made", str(folder.about.get("created", ""))[:19].replace("T", " ")),
        ("agentfw", folder.about.get("agentfw", "")),
    ]
    facts += list(folder.about.get("components", {}).items())
    facts += [(key, spec[key]) for key in ("interface", "seed", "split", "updates", "concurrency") if key in spec]
    words = usage_words(summary) if summary is not None else ""
    facts += [("tokens", words)] if words else []
    out.table(["", ""], [[str(key), str(value)] for key, value in facts])
    if summary is not None:
        figures = summary["figures"]
        out.line()
        rows = [figure_row(name, figures[name]) for name in in_order(figures, folder.headline)]
        out.table(["", "mean", "95% interval"], rows, right=(1,))
    for episode, count in list(bad.items())[:_SHOWN]:
        out.note(f"episode {episode}: {counted(count, 'answer')} could not be understood")
    if len(bad) > _SHOWN:
        out.note(f"... and {len(bad) - _SHOWN} more episodes; metrics.jsonl has them all")
    if row["state"] == "interrupted":
        out.note(f"resume it: agentfw runs resume {name_of(folder)}")


@runs.command()
@click.argument("run")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Secret that is not kept on disk, such as policy.api_key=... (asked for on a terminal), or setting that can't "
    "change results, such as deadline=1200. Can be repeated.",
)
@runs_option
@host_options
@quiet_option
@json_option
def resume(
    run: str,
    assignments: tuple[str, ...],
    runs: Path | None,
    blocked: tuple[str, ...],
    strict: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Resume RUN where it was interrupted. Episodes that are on disk are not played again."""
    from agentfw.runs.records.folder import find_run
    from agentfw.runs.run import Run
    from agentfw.settings import parse_assignments
    from agentfw_cli.execution import execute

    out = Out(json=as_json, quiet=quiet)
    folder = find_run(runs_folder(runs), run)
    if folder.state == "done":
        out.note(f"{folder.id} is done already")
    host = load_host(out, blocked, strict)
    changes = parse_assignments([*assignments, *_asked_for(folder, assignments)])
    execute(Run.open(folder, host, changes), host, out)


def _asked_for(folder: RunFolder, assignments: tuple[str, ...]) -> list[str]:
    """The secrets that run.json doesn't have and nobody has set, as a person at a terminal types them."""
    from agentfw.runs.spec.resolution import missing_secrets

    if not sys.stdin.isatty():
        return []
    given = {assignment.partition("=")[0].removesuffix(".env") for assignment in assignments}
    missing = [key for key in missing_secrets(folder.about) if key not in given]
    return [f"{key}={json.dumps(click.prompt(key, hide_input=True, err=True))}" for key in missing]


def _print_rows(rows: list[dict[str, Any]], out: Out) -> None:
    shown = [
        [
            row["run"],
            row["policy"],
            row["interface"],
            f"{row['done']}/{row['total']} {row['unit']}",
            row["state"],
            "" if row["mean"] is None else f"{row['headline']} {row['mean']:.3f}",
        ]
        for row in rows
    ]
    out.table(["run", "policy", "interface", "progress", "state", "headline"], shown, right=(3,))
    cut_off = next((row["run"] for row in rows if row["state"] == "interrupted"), None)
    if cut_off:
        out.note(f"resume an interrupted run: agentfw runs resume {cut_off}")


def _row(folder: RunFolder) -> dict[str, Any]:
    summary = folder.summary()
    return {
        **_known(folder),
        "done": folder.done,
        "state": folder.state,
        "mean": summary["figures"].get(folder.headline, {}).get("mean") if summary else None,
    }


def _unreadable(path: Path) -> dict[str, Any]:
    """The row of a folder that is a run and can't be opened as one, by its damage or its version."""
    from agentfw.errors import RunFolderError
    from agentfw.runs.records.folder import RunFolder

    problem = ""
    try:
        RunFolder.open(path)
    except RunFolderError as error:
        problem = error.message
    empty: dict[str, Any] = dict.fromkeys(("environment", "policy", "interface", "unit", "headline"), "")
    return {
        "run": path.name,
        **empty,
        "memories": [],
        "total": 0,
        "done": 0,
        "state": "unreadable",
        "mean": None,
        "problem": problem,
    }


def _known(folder: RunFolder) -> dict[str, Any]:
    """What run.json says."""
    spec: dict[str, Any] = folder.about["spec"]
    return {
        "run": folder.id,
        "environment": spec["environment"]["name"],
        "policy": spec["policy"]["name"],
        "memories": [memory["name"] for memory in spec["memories"]],
        "interface": spec["interface"],
        "total": folder.total,
        "unit": folder.unit,
        "headline": folder.headline,
    }
