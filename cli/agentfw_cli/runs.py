"""`agentfw runs`: what has been run here.

The one rule: one damaged run doesn't hide the others; it is listed as damaged, and `show` says what is wrong with it.

    agentfw runs list
    agentfw runs resume last
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.out import Out
from agentfw_cli.common import (
    figure_row,
    host_options,
    json_option,
    load_host,
    name_of,
    runs_folder,
    runs_option,
)

if TYPE_CHECKING:
    from agentfw.runs.folder import RunFolder

__all__ = ["runs"]

_SHOWN = 10
"""Episodes whose failures are named; the others are in metrics.jsonl."""


@click.group()
def runs() -> None:
    """List, show and resume runs.

    A RUN is its folder, its name, the end of its name, or `last`.
    """


@runs.command("list")
@runs_option
@json_option
def list_(runs: Path | None, as_json: bool) -> None:
    """The runs that are kept here, newest first."""
    from agentfw.errors import RunFolderError
    from agentfw.runs.folder import list_runs

    root, out = runs_folder(runs), Out(json=as_json)
    rows: list[dict[str, Any]] = []
    for folder in list_runs(root):
        try:
            rows.append(_row(folder))
        except RunFolderError as error:
            rows.append({**_known(folder), "done": 0, "state": "damaged", "mean": None, "problem": error.message})
    if as_json:
        out.data(rows)
        return
    if not rows:
        out.note(f"no runs below {root}; make one: agentfw run")
        return
    shown = [
        [
            row["run"],
            row["policy"],
            row["interface"],
            f"{row['done']}/{row['total']}" + (" updates" if row["unit"] == "updates" else ""),
            row["state"],
            "" if row["mean"] is None else f"{row['headline']} {row['mean']:.3f}",
        ]
        for row in rows
    ]
    out.table(["run", "policy", "interface", "progress", "state", "headline"], shown, right=(3,))
    cut_off = next((row["run"] for row in rows if row["state"] == "interrupted"), None)
    if cut_off:
        out.note(f"go on with an interrupted one: agentfw runs resume {cut_off}")


@runs.command()
@click.argument("run")
@runs_option
@json_option
def show(run: str, runs: Path | None, as_json: bool) -> None:
    """What RUN was made of, and what came of it."""
    from agentfw.runs.folder import find_run
    from agentfw.runs.summary import in_order, summarize

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
    out.table(["", ""], [[str(key), str(value)] for key, value in facts])
    if summary is not None:
        figures = summary["figures"]
        out.line()
        rows = [figure_row(name, figures[name]) for name in in_order(figures, folder.headline)]
        out.table(["", "mean", "95% interval"], rows, right=(1,))
    for episode, count in list(bad.items())[:_SHOWN]:
        out.note(f"episode {episode}: {count} answers could not be understood")
    if len(bad) > _SHOWN:
        out.note(f"... and {len(bad) - _SHOWN} more episodes; metrics.jsonl has them all")
    if row["state"] == "interrupted":
        out.note(f"go on: agentfw runs resume {name_of(folder)}")


@runs.command()
@click.argument("run")
@runs_option
@host_options
@click.option("--quiet", is_flag=True, help="No progress, no hints.")
@json_option
def resume(run: str, runs: Path | None, blocked: tuple[str, ...], strict: bool, quiet: bool, as_json: bool) -> None:
    """Go on with RUN where it was broken off; what is there already is not played again."""
    from agentfw.runs.folder import find_run
    from agentfw_cli.playing import execute, reopen

    out = Out(json=as_json, quiet=quiet)
    folder = find_run(runs_folder(runs), run)
    if folder.state == "done":
        out.note(f"{folder.id} is done already")
    host = load_host(out, blocked, strict)
    execute(reopen(folder, host), host, out)


def _row(folder: RunFolder) -> dict[str, Any]:
    summary = folder.summary()
    return {
        **_known(folder),
        "done": folder.done,
        "state": folder.state,
        "mean": summary["figures"].get(folder.headline, {}).get("mean") if summary else None,
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
