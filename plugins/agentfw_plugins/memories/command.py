"""`agentfw memory`: look into a skill graph, feed it, move it and clean it, without a run.

The one rule: a command that only reads never makes a store or a tenant; a path or a name that isn't there is an error,
for it is a typing slip. `add`, `learn`, `import` and `serve` make what is missing.

    agentfw memory add --owner ana --tool calendar "Offer the earliest slot first"
    agentfw memory recall --user ana "which slot do I offer?"
    agentfw memory stats --store runs/2026-11-21-inbox-7f3a/skills.db

Imported when it is called: `agentfw --help` reads its name from the installed metadata alone.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw.errors import UsageError

if TYPE_CHECKING:
    from agentfw_memory import SkillGraph

__all__ = ["memory"]

_LISTED = 10
"""Tenants that an error names."""

Command = TypeVar("Command", bound=Callable[..., Any])

_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, and nothing else.")
_store = click.option(
    "--store",
    default="skills.db",
    show_default=True,
    metavar="PATH|URL",
    help="A file, or a postgresql:// address.",
)
_tenant = click.option("--tenant", default="agentfw", show_default=True, help="Whose graph of the store.")
_embedder = click.option("--embedder", default="", help="For a new graph: what makes its vectors. Else the recorded.")


def _on_a_store(command: Command) -> Command:
    return _store(_tenant(_json(command)))


@click.group()
def memory() -> None:
    """Look into a skill graph, feed it, move it and clean it."""


@memory.command()
@_on_a_store
def stats(store: str, tenant: str, as_json: bool) -> None:
    """How much there is, and how it was embedded."""
    with _opened(store, tenant) as graph:
        found = graph.stats()
    if as_json:
        _data(asdict(found))
        return
    skills, shared = found.nodes.get("skill", 0), found.shared
    rows = [
        [
            "skills",
            f"{skills:,}",
            f"{shared:,} shared, {skills - shared:,} private; {found.past_versions:,} past versions",
        ],
        *(
            [f"{kind}s" if kind[-1] != "y" else f"{kind[:-1]}ies", f"{count:,}", ""]
            for kind, count in sorted(found.nodes.items())
            if kind != "skill"
        ),
        *([kind, f"{count:,}", "edges"] for kind, count in sorted(found.edges.items())),
        ["communities", " ".join(f"{count:,}" for count in found.communities) or "none yet", "from the widest level"],
        ["on disk", f"{found.bytes_on_disk / 1e6:,.1f} MB", f"tenant {found.tenant}"],
        ["embedder", found.embedder or "none", f"version {found.embedder_version}, {found.dimensions} dimensions"],
    ]
    _table(["what", "how much", ""], rows, right=(1,))


@memory.command()
@click.argument("query")
@click.option("--user", required=True, help="For whom: who may see a skill is decided before it is searched for.")
@click.option("-k", "count", type=click.IntRange(1), default=5, show_default=True, help="At most so many.")
@_on_a_store
def recall(query: str, user: str, count: int, store: str, tenant: str, as_json: bool) -> None:
    """The skills that fit a query and a user, each with its reasons."""
    with _opened(store, tenant) as graph:
        hits = graph.recall(query, user=user, k=count)
    if as_json:
        _data([asdict(hit) for hit in hits])
        return
    if not hits:
        click.echo(f"nothing that {user} may see fits", err=True)
    for hit in hits:
        click.echo(f"{hit.score:6.3f}  {click.style(hit.skill.id, bold=True)}  {_line(hit.skill.text)}")
        about = [f"{hit.skill.visibility}, {hit.skill.owner}'s"]
        about += [f"tools {', '.join(hit.skill.tools)}"] if hit.skill.tools else []
        about += [f"for {', '.join(hit.skill.scenarios)}"] if hit.skill.scenarios else []
        about += [f"{hit.skill.uses} uses, mean reward {hit.skill.utility:.2f}"] if hit.skill.uses else []
        click.echo(click.style(f"        {'; '.join(about)}\n        {hit.why}", dim=True))


@memory.command()
@click.argument("text")
@click.option("--owner", required=True, help="Whose skill it is.")
@click.option("--tool", "tools", multiple=True, help="A tool that it needs; may be given several times.")
@click.option("--scenario", "scenarios", multiple=True, help="What it is for; may be given several times.")
@click.option("--shared", is_flag=True, help="Let everybody in the tenant see it.")
@_embedder
@_on_a_store
def add(
    text: str,
    owner: str,
    tools: tuple[str, ...],
    scenarios: tuple[str, ...],
    shared: bool,
    embedder: str,
    store: str,
    tenant: str,
    as_json: bool,
) -> None:
    """Add a skill. One of the same text and owner is there once."""
    with _opened(store, tenant, make=True, embedder=embedder) as graph:
        skill = graph.add_skill(
            owner=owner, text=text, tools=tools, scenarios=scenarios, visibility="shared" if shared else "private"
        )
    if as_json:
        _data(asdict(skill))
    else:
        click.echo(f"{skill.id}  {_line(skill.text)}")


@memory.command()
@click.argument("trajectories", type=click.File(encoding="utf-8"))
@_embedder
@_on_a_store
def learn(trajectories: Any, embedder: str, store: str, tenant: str, as_json: bool) -> None:
    """Learn from trajectories: a file (or - for stdin) with one a line, as JSON, each with its `reward`.

    {"id": "t1", "user": "ana", "query": "move my meeting", "scenarios": ["rescheduling"], "steps": [{"action":
    "look", "tool": "calendar", "worked": true}], "outcome": "Ana prefers the earliest slot.", "reward": 0.9}
    """
    answers = []
    with _opened(store, tenant, make=True, embedder=embedder) as graph:
        for place, (trajectory, reward) in enumerate(_trajectories(trajectories), start=1):
            try:
                answers.append(graph.learn(trajectory, reward))
            except ValueError as error:
                fix = f"{place - 1} before it were learned; fix the line and give the file again: what is known stays"
                raise UsageError(f"trajectory {place}: {error}", fix=fix) from error
    if as_json:
        _data([asdict(answer) for answer in answers])
        return
    rows = [
        [
            one.trajectory,
            "known already" if one.known_already else " ".join(f"+{skill}" for skill in one.added) or "nothing new",
            " ".join(one.merged),
            " ".join(one.retired),
            f"{len(one.complements)} complements, {len(one.conflicts)} conflicts",
        ]
        for one in answers
    ]
    _table(["trajectory", "learned", "merged into", "retired", "edges"], rows)


@memory.command()
@click.argument("user")
@click.option("--yes", is_flag=True, help="Don't ask.")
@_on_a_store
def forget(user: str, yes: bool, store: str, tenant: str, as_json: bool) -> None:
    """Take a person out of the graph, history and files included. It can't be undone."""
    with _opened(store, tenant) as graph:
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("forgetting can't be undone, and nobody is here to ask", fix="say --yes")
            click.confirm(f"Forget {user} in {store}, tenant {tenant}? It can't be undone.", abort=True, err=True)
        receipt = asdict(graph.forget(user))
    if not any(count for name, count in receipt.items() if name not in ("user", "index_files")):
        click.echo(f"nothing of {user} was here; is the name right?", err=True)
    if as_json:
        _data(receipt)
        return
    _table(
        ["forgotten", "rows"], [[name, f"{count:,}"] for name, count in receipt.items() if name != "user"], right=(1,)
    )


@memory.command("export")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@_on_a_store
def export_(path: Path, store: str, tenant: str, as_json: bool) -> None:
    """Write every row, history and vectors included, as lines of JSON."""
    with _opened(store, tenant) as graph, _files(path):
        rows = graph.export_jsonl(path)
    _wrote(path, rows, "rows", as_json)


@memory.command("import")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_on_a_store
def import_(path: Path, store: str, tenant: str, as_json: bool) -> None:
    """Take an export into a tenant that is empty."""
    # The tenant's embedder has to be the export's, and a new tenant records one at once.
    with _opened(store, tenant, make=True, embedder=_embedder_of(path)) as graph:
        rows = graph.import_jsonl(path)
    if as_json:
        _data({"path": str(path), "rows": rows})
    else:
        click.echo(f"{rows:,} rows taken into {store}, tenant {tenant}")


@memory.command()
@click.option("--embedder", required=True, help="What makes the vectors from now on, such as wordllama or hash:256.")
@_on_a_store
def reembed(embedder: str, store: str, tenant: str, as_json: bool) -> None:
    """Make every vector anew with another embedder. Interrupted, it goes on where it was."""
    from agentfw_memory import SkillGraph

    from .graph_errors import told

    def progress(done: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{done:,} vectors", nl=False, err=True)

    _must_exist(store, tenant)
    with told():
        made = SkillGraph.reembed(store, tenant=tenant, embedder=embedder, progress=progress)
    if sys.stderr.isatty():
        click.echo(err=True)
    if as_json:
        _data({"embedder": embedder, "vectors": made})
    else:
        click.echo(f"{made:,} vectors made by {embedder}")


@memory.command()
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), default="skills.html", show_default=True, help="The page."
)
@_on_a_store
def view(out: Path, store: str, tenant: str, as_json: bool) -> None:
    """Write one HTML page of the whole graph, private skills included. It opens without network."""
    from agentfw_memory.graph.html_page import graph_page

    with _opened(store, tenant) as graph, _files(out):
        # Without a pass over the communities the page would have no colours.
        graph.prepare()
        picture = graph.to_networkx()
        out.write_text(graph_page(picture, title=tenant, seed=graph.settings.seed), "utf-8")
    _wrote(out, picture.number_of_nodes(), "nodes", as_json)


@memory.command()
@click.option("--http", "port", type=click.IntRange(1, 65535), help="Serve HTTP on this port of this machine.")
@_embedder
@_store
@_tenant
def serve(port: int | None, embedder: str, store: str, tenant: str) -> None:
    """Serve the graph to agents as an MCP server: over stdin and stdout, or over HTTP on 127.0.0.1.

    HTTP wants a token: that of AGENTFW_MEMORY_TOKEN, or else one that is made and told on stderr.
    """
    from agentfw_memory.graph.mcp_server import HOST, serve_http, serve_stdio

    with _opened(store, tenant, make=True, embedder=embedder) as graph:
        if port is None:
            serve_stdio(graph)
            return
        token = os.environ.get("AGENTFW_MEMORY_TOKEN", "")
        if not token:
            token = secrets.token_urlsafe(24)
            click.echo(f"token: {token}", err=True)
        click.echo(f"serving http://{HOST}:{port}/mcp", err=True)
        serve_http(graph, port=port, token=token)


# What the commands share


@contextmanager
def _opened(store: str, tenant: str, *, make: bool = False, embedder: str = "") -> Iterator[SkillGraph]:
    from agentfw_memory import SkillGraph

    from .graph_errors import told

    if not make:
        _must_exist(store, tenant)
    with told(), SkillGraph.open(store, tenant=tenant, embedder=embedder) as graph:
        yield graph


def _must_exist(store: str, tenant: str) -> None:
    from agentfw_memory import SkillGraph

    from .graph_errors import told

    server = store.startswith("postgresql://")
    if not server and not Path(store).is_file():
        raise UsageError(
            f"there is no store {store}", fix="say --store PATH; a run keeps its own as skills.db in its folder"
        )
    with told():
        known = SkillGraph.tenants(store)
    if tenant in known:
        return
    near = get_close_matches(tenant, known, n=1)
    listed = ", ".join(known[:_LISTED]) + (f" and {len(known) - _LISTED} more" if len(known) > _LISTED else "")
    fix = f"say --tenant {near[0]}; " if near else ""
    fix += f"it holds {listed}" if known else "it holds nothing yet; `agentfw memory add` begins a graph"
    raise UsageError(f'{"the server" if server else store} holds nothing of tenant "{tenant}"', fix=fix)


@contextmanager
def _files(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}", fix="choose another path") from error


def _embedder_of(path: Path) -> str:
    """The embedder that an export names in its second line; what is no export is refused when it is read."""
    with path.open(encoding="utf-8", errors="replace") as file:
        file.readline()
        try:
            return str(json.loads(file.readline())["embedder"][0])
        except (ValueError, KeyError, TypeError, IndexError):
            return ""


def _trajectories(file: Any) -> Iterator[tuple[dict[str, Any], float]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            reward = record.pop("reward")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            wrong = "has no reward" if isinstance(error, KeyError) else f"is no trajectory ({error})"
            raise UsageError(f"line {number} {wrong}", fix="a line is one JSON object, with a `reward`") from error
        yield record, reward


def _wrote(path: Path, count: int, what: str, as_json: bool) -> None:
    if as_json:
        _data({"path": str(path), what: count})
    else:
        click.echo(f"{count:,} {what} written to {path}")


def _data(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _line(text: str) -> str:
    return " ".join(text.split())


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    widths = [max(len(row[place]) for row in [columns, *rows]) for place in range(len(columns))]
    for number, row in enumerate([columns, *rows]):
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo(click.style("  ".join(cells).rstrip(), dim=number == 0))
