"""`agentfw runs`: what has been run here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw_cli.common import host_options, json_option, load_host, runs_folder, runs_option
from agentfw_cli.out import Out

if TYPE_CHECKING:
    from agentfw.run_folder import RunFolder

__all__ = ["runs"]


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
    from agentfw.run_folder import list_runs

    root, out = runs_folder(runs), Out(json=as_json)
    rows = [_row(folder) for folder in list_runs(root)]
    if as_json:
        out.data(rows)
    elif not rows:
        out.note(f"no runs below {root}; make one: agentfw run")
    else:
        table = [
            [
                str(row["run"]),
                str(row["policy"]),
                str(row["interface"]),
                f"{row['done']}/{row['total']}",
                str(row["state"]),
                _figure(row["headline"], row["mean"]),
            ]
            for row in rows
        ]
        out.table(["run", "policy", "interface", "episodes", "state", "headline"], table, right=(3,))


@runs.command()
@click.argument("run")
@runs_option
@json_option
def show(run: str, runs: Path | None, as_json: bool) -> None:
    """What RUN was made of, and what came of it."""
    from agentfw.run_folder import find_run

    out = Out(json=as_json)
    folder = find_run(runs_folder(runs), run)
    summary, row = folder.summary(), _row(folder)
    bad = [(record["episode"], record["failures"]) for record in folder.metrics() if record["failures"]]
    if as_json:
        out.data({**row, "folder": str(folder.path), "about": folder.about, "summary": summary, "failures": dict(bad)})
        return
    out.line(out.style(folder.id, "bold") + f"   {row['state']}, {row['done']} of {row['total']} episodes")
    out.line()
    spec: dict[str, Any] = folder.about["spec"]
    facts = [("made", folder.about.get("created", "")), ("agentfw", folder.about.get("agentfw", ""))]
    facts += list(folder.about.get("components", {}).items())
    facts += [(key, spec[key]) for key in ("interface", "seed", "split", "concurrency")]
    out.table(["", ""], [[str(key), str(value)] for key, value in facts])
    if summary is not None:
        out.line()
        rows = [
            [name, f"{figure['mean']:.3f}", f"{figure['low']:.3f} to {figure['high']:.3f}"]
            for name, figure in summary["figures"].items()
        ]
        out.table(["", "mean", "95% interval"], rows, right=(1,))
    for episode, count in bad[:10]:
        out.note(f"episode {episode}: {count} answers could not be understood")
    if row["state"] == "interrupted":
        out.note(f"go on: agentfw runs resume {folder.id}")


@runs.command()
@click.argument("run")
@runs_option
@host_options
@click.option("--quiet", is_flag=True, help="No progress, no hints.")
@json_option
def resume(run: str, runs: Path | None, blocked: tuple[str, ...], strict: bool, quiet: bool, as_json: bool) -> int:
    """Go on with RUN where it was broken off; what is there already is not played again."""
    from agentfw.run import Run
    from agentfw.run_folder import find_run
    from agentfw_cli.run import execute

    out = Out(json=as_json, quiet=quiet)
    folder = find_run(runs_folder(runs), run)
    host = load_host(out, blocked, strict)
    return execute(Run.open(folder, host), host, out)


def _row(folder: RunFolder) -> dict[str, Any]:
    spec: dict[str, Any] = folder.about["spec"]
    summary = folder.summary()
    headline = str(folder.about.get("headline", "utility"))
    return {
        "run": folder.id,
        "environment": spec["environment"]["name"],
        "policy": spec["policy"]["name"],
        "memories": [memory["name"] for memory in spec["memories"]],
        "interface": spec["interface"],
        "done": summary["episodes"] if summary else len(folder.metrics()),
        "total": spec["episodes"] * spec["samples"],
        "state": folder.state,
        "headline": headline,
        "mean": summary["figures"].get(headline, {}).get("mean") if summary else None,
    }


def _figure(name: str, value: float | None) -> str:
    return "" if value is None else f"{name} {value:.3f}"
