"""`agentfw memory`: read, edit, move and clean up a skill graph, without a run.

Commands that only read never create a store or a tenant. A path or name that doesn't exist is an error, because it is
probably a typo. `add`, `learn`, `import` and `serve` create what is missing.

    agentfw memory add --owner ana --tool calendar "Offer the earliest slot first"
    agentfw memory recall --user ana "which slot do I offer?"
    agentfw memory stats --store runs/2026-11-21-inbox-7f3a19c4/skills.db

This module is imported for `agentfw memory --help`, so each command imports what it needs.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out

from ..command_options import json_option, one_line
from .skill_options import confirmed, day, expires_option, metadata_option, where_option

if TYPE_CHECKING:
    from agentfw_memory import Hit, SkillGraph
    from agentfw_memory.graph.records import Visibility

__all__ = ["memory"]

_SERVERS = ("postgresql://", "postgres://")
"""How the addresses of stores begin that are no files."""
_LISTED = 10
"""Maximum number of tenants that an error names."""

Command = TypeVar("Command", bound=Callable[..., Any])

_store = click.option(
    "--store",
    default="skills.db",
    show_default=True,
    metavar="PATH|URL",
    help="Store of the graph: a file, or an address (postgresql://, duckdb://).",
)
_tenant = click.option("--tenant", default="agentfw", show_default=True, help="Tenant whose graph is used.")
_embedder = click.option(
    "--embedder",
    default="",
    help="Embedding model of a new graph. Default: the one that the graph was created with, or the best installed.",
)

_maximum = click.option(
    "-k", "count", type=click.IntRange(1), default=5, show_default=True, help="Maximum number of skills to return."
)


def _on_a_store(command: Command) -> Command:
    return _store(_tenant(json_option(command)))


@click.group()
def memory() -> None:
    """Read, edit, move and clean up a skill graph."""


@memory.command()
@_on_a_store
def stats(store: str, tenant: str, out: Out) -> None:
    """Show counts and the embedding model."""
    with _opened(store, tenant) as graph:
        found = graph.stats()
    if out.json:
        out.data(asdict(found))
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
    out.table(["what", "how much", ""], rows, right=(1,))


@memory.command()
@click.argument("query")
@click.option("--user", required=True, help="User to recall for. Only skills visible to this user are searched.")
@_maximum
@click.option("--why", is_flag=True, help="Show a table of what each term adds to the score.")
@where_option
@_on_a_store
def recall(
    query: str, user: str, count: int, why: bool, where: dict[str, Any] | None, store: str, tenant: str, out: Out
) -> None:
    """Search for skills that match a query and a user."""
    with _opened(store, tenant) as graph:
        hits = graph.recall(query, user=user, k=count, where=where)
    if out.json:
        out.data([asdict(hit) for hit in hits])
        return
    if not hits:
        out.note(f"no skill visible to {user} matches")
    if why and hits:
        _reasons(hits, out)
        return
    for hit in hits:
        out.line(f"{hit.score:6.3f}  {out.style(hit.skill.id, 'bold')}  {one_line(hit.skill.text)}")
        about = [f"{hit.skill.visibility}, {hit.skill.owner}'s"]
        about += [f"tools {', '.join(hit.skill.tools)}"] if hit.skill.tools else []
        about += [f"for {', '.join(hit.skill.scenarios)}"] if hit.skill.scenarios else []
        about += [f"{hit.skill.uses} uses, mean reward {hit.skill.utility:.2f}"] if hit.skill.uses else []
        out.line(out.style(f"        {'; '.join(about)}", "dim"))


def _reasons(hits: Sequence[Hit], out: Out) -> None:
    """Print what each term adds to the scores. Terms that add nothing to any of them are left out."""
    terms = [name for name in hits[0].why.points if any(round(hit.why.points[name], 3) for hit in hits)]
    rows = [
        [
            hit.skill.id,
            one_line(hit.skill.text),
            f"{hit.score:.3f}",
            *(f"{hit.why.points[name]:+.3f}" if round(hit.why.points[name], 3) else "" for name in terms),
            hit.why.path,
        ]
        for hit in hits
    ]
    out.table(["skill", "text", "score", *terms, "found"], rows, right=range(2, 3 + len(terms)))


@memory.command()
@click.argument("text")
@click.option("--owner", required=True, help="User who owns the skill.")
@click.option("--tool", "tools", multiple=True, help="Tool that the skill needs. Can be repeated.")
@click.option("--scenario", "scenarios", multiple=True, help="Scenario that the skill is for. Can be repeated.")
@click.option("--shared", is_flag=True, help="Make the skill visible to everybody in the tenant.")
@metadata_option
@expires_option
@_embedder
@_on_a_store
def add(
    text: str,
    owner: str,
    tools: tuple[str, ...],
    scenarios: tuple[str, ...],
    shared: bool,
    metadata: dict[str, Any] | None,
    expires_at: float | None,
    embedder: str,
    store: str,
    tenant: str,
    out: Out,
) -> None:
    """Add a skill. Adding the same text for the same owner again changes nothing."""
    with _opened(store, tenant, make=True, embedder=embedder) as graph:
        skill = graph.add_skill(
            owner=owner,
            text=text,
            tools=tools,
            scenarios=scenarios,
            visibility="shared" if shared else "private",
            metadata=metadata,
            expires_at=expires_at,
        )
    if out.json:
        out.data(asdict(skill))
    else:
        out.line(f"{skill.id}  {one_line(skill.text)}")


@memory.command()
@click.argument("trajectories", type=click.File("rb"))
@_embedder
@_on_a_store
def learn(trajectories: Any, embedder: str, store: str, tenant: str, out: Out) -> None:
    """Learn from trajectories with a reward.

    TRAJECTORIES is a file (- for stdin) with one JSON object per line:

    {"id": "t1", "user": "ana", "query": "move my meeting", "scenarios": ["rescheduling"], "steps": [{"action":
    "look", "tool": "calendar", "worked": true}], "outcome": "Ana prefers the earliest slot.", "reward": 0.9}
    """
    answers = []
    with out.progress("learning") as tell, _opened(store, tenant, make=True, embedder=embedder) as graph:
        for place, (trajectory, reward) in enumerate(_trajectories(trajectories), start=1):
            try:
                answers.append(graph.learn(trajectory, reward))
                tell(f"learning: {place:,} trajectories")
            except ValueError as error:
                fix = f"correct it and run the command again; the {place - 1} before it are learned and stay learned"
                raise UsageError(f"trajectory {place}: {error}", fix=fix) from error
    if out.json:
        out.data([asdict(answer) for answer in answers])
        return
    rows = [
        [
            one.trajectory,
            "known already" if one.known_already else " ".join(f"+{skill}" for skill in one.added) or "nothing new",
            " ".join(one.merged),
            " ".join(one.retired),
            f"{len(one.complements)} complements",
        ]
        for one in answers
    ]
    out.table(["trajectory", "learned", "merged into", "retired", "edges"], rows)


@memory.command()
@click.argument("user")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@_on_a_store
def forget(user: str, yes: bool, store: str, tenant: str, out: Out) -> None:
    """Delete all data of a user, including history and files.

    This cannot be undone.
    """
    with _opened(store, tenant) as graph:
        confirmed(f"Forget {user} in {store}, tenant {tenant}?", yes, f"agentfw memory forget {user} --yes")
        receipt = asdict(graph.forget(user))
    if not any(count for name, count in receipt.items() if name not in ("user", "index_files")):
        out.note(f"no data of {user} was found; is the name right?")
    if out.json:
        out.data(receipt)
    else:
        rows = [[name, f"{count:,}"] for name, count in receipt.items() if name != "user"]
        out.table(["forgotten", "rows"], rows, right=(1,))
    _note_what_a_server_keeps(store, out)


@memory.command("list")
@click.option("--owner", required=True, help="User whose skills are listed.")
@click.option("--scenario", help="Only skills for this scenario.")
@where_option
@_on_a_store
def list_(owner: str, scenario: str | None, where: dict[str, Any] | None, store: str, tenant: str, out: Out) -> None:
    """List a user's skills, oldest first."""
    with _opened(store, tenant) as graph:
        found = graph.skills(owner=owner, scenario=scenario, where=where)
    if out.json:
        out.data([asdict(skill) for skill in found])
        return
    if not found:
        out.note(f"no skill of {owner} fits")
    for skill in found:
        out.line(f"{out.style(skill.id, 'bold')}  {day(skill.valid_from)}  {one_line(skill.text)}")


@memory.command()
@click.argument("skill")
@_on_a_store
def history(skill: str, store: str, tenant: str, out: Out) -> None:
    """Show every version of a skill, also of one that has ended."""
    with _opened(store, tenant) as graph:
        found = graph.history(skill)
    if out.json:
        out.data(asdict(found))
        return
    rows = [
        [
            str(one.number),
            day(one.valid_from),
            "" if one.valid_to is None else day(one.valid_to),
            one.visibility,
            one_line(one.text),
        ]
        for one in found.versions
    ]
    out.table(["version", "from", "to", "visible", "text"], rows)


@memory.command()
@click.argument("skill")
@click.argument("text", required=False)
@click.option("--tool", "tools", multiple=True, help="Tool that the skill needs now. Can be repeated.")
@click.option("--scenario", "scenarios", multiple=True, help="Scenario that the skill is for now. Can be repeated.")
@click.option("--visibility", type=click.Choice(["private", "shared"]), help="Who may see it now.")
@metadata_option
@expires_option
@_on_a_store
def update(
    skill: str,
    text: str | None,
    tools: tuple[str, ...],
    scenarios: tuple[str, ...],
    visibility: Visibility | None,
    metadata: dict[str, Any] | None,
    expires_at: float | None,
    store: str,
    tenant: str,
    out: Out,
) -> None:
    """Start a new version of a skill. What isn't given stays as it is."""
    with _opened(store, tenant) as graph:
        after = graph.update_skill(
            skill,
            text=text,
            tools=tools or None,
            scenarios=scenarios or None,
            visibility=visibility,
            metadata=metadata,
            expires_at=expires_at,
        )
    if out.json:
        out.data(asdict(after))
    else:
        out.line(f"{after.id}  {one_line(after.text)}")


@memory.command()
@click.argument("skill")
@_on_a_store
def retire(skill: str, store: str, tenant: str, out: Out) -> None:
    """End a skill. It is no longer recalled, and its history stays."""
    with _opened(store, tenant) as graph:
        graph.retire_skill(skill)
    if out.json:
        out.data({"retired": skill})
    else:
        out.line(f"{skill} retired; `agentfw memory delete {skill}` deletes its text too")


@memory.command()
@click.argument("skills", nargs=-1, required=True)
@click.option("--version", type=int, help="Delete only this past version of one skill, as `history` numbers it.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@_on_a_store
def delete(skills: tuple[str, ...], version: int | None, yes: bool, store: str, tenant: str, out: Out) -> None:
    """Delete skills for good, by their ids, with their history and all bytes on disk.

    This cannot be undone.
    """
    with _opened(store, tenant) as graph:
        named = " ".join(skills) + ("" if version is None else f" --version {version}")
        confirmed(f"Delete {named} in {store}, tenant {tenant}?", yes, f"agentfw memory delete {named} --yes")
        receipt = asdict(graph.erase(*skills, version=version))
    receipt.pop("user")
    if not receipt["versions"]:
        out.note("there is nothing with this id; it may be deleted already")
    if out.json:
        out.data(receipt)
    else:
        out.table(["deleted", "rows"], [[name, f"{count:,}"] for name, count in receipt.items()], right=(1,))
    _note_what_a_server_keeps(store, out)


@memory.command()
@_on_a_store
def prepare(store: str, tenant: str, out: Out) -> None:
    """Compute what speeds up the first recall, and save it.

    For a tenant on PostgreSQL with more than 200,000 skills, this creates the search indexes, finds the communities
    and counts common words. Run it after large imports, and every night where much is added.
    """
    with out.progress("preparing"), _opened(store, tenant) as graph:
        graph.prepare()
        found = graph.stats()
    skills, communities = found.nodes.get("skill", 0), found.communities
    if out.json:
        out.data({"skills": skills, "communities": communities})
    else:
        out.line(f"{skills:,} skills prepared, communities {' '.join(f'{one:,}' for one in communities) or 'none'}")


@memory.command("export")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@_on_a_store
def export_(path: Path, store: str, tenant: str, out: Out) -> None:
    """Export all rows, history and vectors included, as JSON lines."""
    with out.progress("exporting"), _opened(store, tenant) as graph, _writing(path):
        rows = graph.export_jsonl(path)
    _wrote(path, rows, "rows", out)


@memory.command("import")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--owner", default="", help="User who owns memories that name nobody.")
@_embedder
@_on_a_store
def import_(path: Path, owner: str, embedder: str, store: str, tenant: str, out: Out) -> None:
    """Import an export into an empty tenant, or memories of mem0 or LangMem into any.

    Memories are JSON or JSON lines: what mem0's get_all returns, items of a LangGraph store, or objects with text,
    owner and, where known, tools, scenarios, shared and valid_from. A broken record means that nothing is imported.
    """
    from .graph_errors import translated_errors

    if not _is_export(path):
        from agentfw_memory import read_memories

        with translated_errors():
            memories = read_memories(path, owner=owner)
        with out.progress("importing"), _opened(store, tenant, make=True, embedder=embedder) as graph:
            added = len(graph.add_skills(memories))
        if out.json:
            out.data({"path": str(path), "memories": added})
        else:
            out.line(f"{added:,} memories imported into {store}, tenant {tenant}")
        return
    # The tenant must use the export's embedder, and a new tenant stores its embedder at once.
    with out.progress("importing"), _opened(store, tenant, make=True, embedder=_embedder_of(path)) as graph:
        rows = graph.import_jsonl(path)
    if out.json:
        out.data({"path": str(path), "rows": rows})
    else:
        out.line(f"{rows:,} rows imported into {store}, tenant {tenant}")


@memory.command()
@click.option("--embedder", required=True, help="New embedding model, such as wordllama or hash:256.")
@_on_a_store
def reembed(embedder: str, store: str, tenant: str, out: Out) -> None:
    """Recompute all vectors with another embedding model.

    Run the same command again to resume after an interruption.
    """
    from agentfw_memory import SkillGraph

    from .graph_errors import translated_errors

    _must_exist(store, tenant)
    with translated_errors(), out.progress("reading the graph") as tell:
        made = SkillGraph.reembed(
            store, tenant=tenant, embedder=embedder, progress=lambda done: tell(f"{done:,} vectors")
        )
    if out.json:
        out.data({"embedder": embedder, "vectors": made})
    else:
        out.line(f"{made:,} vectors made by {embedder}")


@memory.command()
@click.option(
    "--out",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    default="skills.html",
    show_default=True,
    help="Output file.",
)
@click.option("--query", help="Also show what this query finds, and what each term adds to the scores.")
@click.option("--user", help="User to recall for.")
@_maximum
@_on_a_store
def view(page: Path, query: str | None, user: str | None, count: int, store: str, tenant: str, out: Out) -> None:
    """Draw the whole graph, private skills included, as one HTML page that opens offline."""
    from agentfw.runs import make_private
    from agentfw_memory.graph.exchange.html_page import Recalled, graph_page

    if (query is None) != (user is None):
        raise UsageError("--query and --user belong together", fix="pass both or neither")
    with out.progress("drawing"), _opened(store, tenant) as graph, _writing(page):
        graph.prepare()  # finds the communities, which the page colours
        recalled = None
        if query is not None and user is not None:
            recalled = Recalled(query, user, tuple(graph.recall(query, user=user, k=count)))
        picture = graph.to_networkx()
        make_private(page)
        page.write_text(graph_page(picture, title=tenant, recalled=recalled, seed=graph.settings.seed), "utf-8")
    _wrote(page, picture.number_of_nodes(), "nodes", out)


@memory.command()
@click.option("--http", "port", type=click.IntRange(1, 65535), help="Serve HTTP on this port of 127.0.0.1.")
@_embedder
@_store
@_tenant
def serve(port: int | None, embedder: str, store: str, tenant: str) -> None:
    """Serve the graph to agents as an MCP server, over stdin and stdout or over HTTP.

    HTTP requests need a token: the value of AGENTFW_MEMORY_TOKEN, or a generated one, which is printed to stderr.
    """
    from agentfw_memory.graph.exchange.mcp_server import HOST, serve_http, serve_stdio

    out = Out()
    with _opened(store, tenant, make=True, embedder=embedder) as graph:
        if port is None:
            serve_stdio(graph)
            return
        token = os.environ.get("AGENTFW_MEMORY_TOKEN", "")
        if not token:
            token = secrets.token_urlsafe(24)
            out.note(f"token: {token}")
        out.note(f"serving http://{HOST}:{port}/mcp")
        serve_http(graph, port=port, token=token)


@contextmanager
def _opened(store: str, tenant: str, *, make: bool = False, embedder: str = "") -> Iterator[SkillGraph]:
    from agentfw_memory import SkillGraph

    from .graph_errors import translated_errors

    if not make:
        _must_exist(store, tenant)
    with translated_errors(), SkillGraph.open(store, tenant=tenant, embedder=embedder) as graph:
        yield graph


def _note_what_a_server_keeps(store: str, out: Out) -> None:
    if store.startswith(_SERVERS):
        out.note("the server's write-ahead log, replicas and backups still hold the data until they are recycled")


def _must_exist(store: str, tenant: str) -> None:
    from agentfw_memory import SkillGraph

    from .graph_errors import translated_errors

    server = store.startswith(_SERVERS)
    if not server and not Path(store.rpartition("://")[2]).is_file():
        raise UsageError(
            f"there is no store {store}", fix="pass --store PATH; the store of a run is skills.db in the run's folder"
        )
    with translated_errors():
        known = SkillGraph.tenants(store)
    if tenant in known:
        return
    near = get_close_matches(tenant, known, n=1)
    listed = ", ".join(known[:_LISTED]) + (f" and {len(known) - _LISTED} more" if len(known) > _LISTED else "")
    fix = f"pass --tenant {near[0]}; " if near else ""
    fix += f"its tenants are {listed}" if known else "it has no tenants yet; `agentfw memory add` creates one"
    raise UsageError(f'there is no tenant "{tenant}" in {"the server" if server else store}', fix=fix)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}", fix="choose another path") from error


def _embedder_of(path: Path) -> str:
    """The embedder named in the second line of an export. A file that isn't an export is refused when it is read."""
    with path.open(encoding="utf-8", errors="replace") as file:
        file.readline()
        try:
            return str(json.loads(file.readline())["embedder"][0])
        except (ValueError, KeyError, TypeError, IndexError):
            return ""


def _is_export(path: Path) -> bool:
    """Whether a file says in its first line that it is an export of a skill graph."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return '"format"' in file.readline(1000)


def _trajectories(file: Any) -> Iterator[tuple[dict[str, Any], float]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8-sig"))
            reward = record.pop("reward")
        except UnicodeDecodeError as error:
            raise UsageError(f"line {number} is not UTF-8 text", fix="save the file as UTF-8") from error
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            wrong = "has no reward" if isinstance(error, KeyError) else f"is not a trajectory ({error})"
            raise UsageError(f"line {number} {wrong}", fix="write one JSON object per line, with a `reward`") from error
        yield record, reward


def _wrote(path: Path, count: int, what: str, out: Out) -> None:
    if out.json:
        out.data({"path": str(path), what: count})
    else:
        out.line(f"{count:,} {what} written to {path}")
