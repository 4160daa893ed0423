"""`agentfw memory`: read, edit, move and clean up a skill graph, without a run.

Commands that only read never create a store or a tenant: a path or name that doesn't exist is probably a typo.
`_on_graph` makes a command of a call of the graph: with its parameters, and with how the answer is printed.

This module is imported for `agentfw memory --help`, so each command imports what it needs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from click import argument, option

from agentfw.errors import UsageError
from agentfw.host import runs_directory
from agentfw.printing.out import Out, counted, shown_path

from ..command_options import confirm, json_option, yes_option
from . import memory_answers as printed
from . import translated_errors

if TYPE_CHECKING:
    from agentfw_memory import Hit, NewSkill, Skill, SkillGraph, SkillHistory, Stats

_SERVERS = ("postgresql://", "postgres://")  # how the addresses of stores begin that are no files
_LISTED = 10  # maximum number of tenants that an error names

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Json = dict[str, Any] | None


# Values of options


def _object(context: click.Context, parameter: click.Parameter, value: str | None) -> Json:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f'{value!r} is not JSON ({error}); write it like \'{{"kind": "note"}}\'') from None
    if not isinstance(found, dict):
        raise click.BadParameter(f'{value!r} is not an object; write it like \'{{"kind": "note"}}\'')
    return found


def _time(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None or value == "never":
        return None if value is None else math.inf
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a time; write it like 2027-01-31 or 2027-01-31T18:00+01:00"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


# Parameters that several commands have


def _served() -> str:
    return shown_path(runs_directory(None) / "memory.db")


_STORE = option(
    "--store",
    default=_served,
    show_default="runs/memory.db, as agentfw serve",
    metavar="PATH|URL",
    help="Store of the graph: a file, or an address such as postgresql://.",
)
_TENANT = option("--tenant", default="agentfw", show_default=True, help="Tenant whose graph is used.")
_EMBEDDER = option(
    "--embedder",
    default="",
    help="Embedding model of a new graph. Default: the one that the graph was created with, or the best installed.",
)
_SKILL = argument("skill")
_METADATA = option("--metadata", callback=_object, metavar="JSON", help="Values to filter by, as an object.")
_WHERE = option(
    "--where", callback=_object, metavar="JSON", help='Only skills whose metadata fits, such as {"kind": "note"}.'
)
_EXPIRES = option(
    "--expires", "expires_at", callback=_time, metavar="TIME", help="When the skill ends by itself (UTC), or never."
)


@click.group()
def memory() -> None:
    """Read, edit, move and clean up a skill graph."""


def _on_graph(
    show: Callable[..., None],
    *parameters: Decorator,
    makes: bool = False,  # whether a store or a tenant is created if there is none
    doing: str = "",  # what is shown while it works
    nothing: str = "",  # what is noted if nothing was found
    asks: Callable[..., str] | None = None,
) -> Decorator:
    """Make a command of a function that is called with the graph and the parameters, and returns what `--json` prints.

    `show` is called with the output, the answer and the parameters. `asks` returns of these what is to be confirmed, as
    it would be typed, because it can't be undone.
    """

    def made(call: Callable[..., Any]) -> Any:
        def command(store: str, tenant: str, out: Out, embedder: str = "", yes: bool = False, **given: Any) -> None:
            with out.progress(doing), _opened(store, tenant, make=makes, embedder=embedder) as graph:
                if asks is not None:
                    words = asks(**given)
                    question = f"{words[0].upper()}{words[1:]} in {store}, tenant {tenant}? This cannot be undone."
                    confirm(question, yes, fix=f"agentfw memory {words} --yes")
                answer = call(graph, **given)
            found = {**answer, "user": ""}.values() if isinstance(answer, dict) else answer
            if nothing and not any(found):
                out.note(nothing.format_map(given))
            _answered(out, answer, show, **given)
            if asks is not None and store.startswith(_SERVERS):
                kept = "write-ahead log, replicas and backups still hold the data until they are recycled"
                out.note(f"the server's {kept}")

        confirmed = (yes_option,) if asks else ()
        decorators = (*parameters, *confirmed, _STORE, _TENANT, json_option)
        decorated = reduce(lambda inner, decorator: decorator(inner), reversed(decorators), command)
        return memory.command(call.__name__.strip("_"), help=call.__doc__)(decorated)

    return made


def _answered(out: Out, answer: Any, show: Callable[..., None], **given: Any) -> None:
    """Print an answer, as JSON if that was asked for."""
    if not out.json:
        show(out, answer, **given)
    elif isinstance(answer, list):
        out.data([asdict(one) for one in answer])
    else:
        out.data(answer if isinstance(answer, dict) else asdict(answer))


@_on_graph(printed.stats)
def stats(graph: SkillGraph) -> Stats:
    """Show counts and the embedding model."""
    return graph.admin.stats()


@_on_graph(
    printed.hits,
    argument("query"),
    option("--user", required=True, help="User to recall for. Only skills visible to this user are searched."),
    option("-k", type=click.IntRange(1), default=5, show_default=True, help="Maximum number of skills to return."),
    option("--why", is_flag=True, help="Show a table of what each term adds to the score."),
    _WHERE,
    nothing="no skill visible to {user} matches",
)
def recall(graph: SkillGraph, query: str, user: str, k: int, why: bool, where: Json) -> list[Hit]:
    """Search for skills that match a query and a user."""
    return graph.recall(query, user=user, k=k, where=where)


@_on_graph(
    printed.skill,
    argument("text"),
    option("--owner", required=True, help="User who owns the skill."),
    option("--tool", "tools", multiple=True, help="Tool that the skill needs. Can be repeated."),
    option("--scenario", "scenarios", multiple=True, help="Scenario that the skill is for. Can be repeated."),
    option("--shared", is_flag=True, help="Make the skill visible to everybody in the tenant."),
    _METADATA,
    _EXPIRES,
    _EMBEDDER,
    makes=True,
)
def add(graph: SkillGraph, shared: bool, **skill: Any) -> Skill:
    """Add a skill. Adding the same text for the same owner again changes nothing."""
    return graph.add(visibility="shared" if shared else "private", **skill)


@_on_graph(
    printed.counted("forgotten"),
    argument("user"),
    nothing="no data of {user} was found; is the name right?",
    asks=lambda user: f"forget {user}",
)
def forget(graph: SkillGraph, user: str) -> dict[str, Any]:
    """Delete all data of a user, including history and files.

    This cannot be undone.
    """
    return asdict(graph.forget(user))


@_on_graph(
    printed.skills,
    option("--owner", required=True, help="User whose skills are listed."),
    option("--scenario", help="Only skills for this scenario."),
    _WHERE,
    nothing="no skill of {owner} fits",
)
def list_(graph: SkillGraph, owner: str, scenario: str | None, where: Json) -> list[Skill]:
    """List a user's skills, oldest first."""
    return graph.skills(owner=owner, scenario=scenario, where=where)


@_on_graph(printed.versions, _SKILL)
def history(graph: SkillGraph, skill: str) -> SkillHistory:
    """Show every version of a skill, also of one that has ended."""
    return graph.history(skill)


@_on_graph(
    printed.skill,
    _SKILL,
    argument("text", required=False),
    option("--tool", "tools", multiple=True, help="Tool that the skill needs now. Can be repeated."),
    option("--scenario", "scenarios", multiple=True, help="Scenario that the skill is for now. Can be repeated."),
    option("--visibility", type=click.Choice(["private", "shared"]), help="Who may see it now."),
    _METADATA,
    _EXPIRES,
)
def update(graph: SkillGraph, skill: str, tools: tuple[str, ...], scenarios: tuple[str, ...], **changes: Any) -> Skill:
    """Start a new version of a skill. What isn't given stays as it is."""
    return graph.update(skill, tools=tools or None, scenarios=scenarios or None, **changes)


@_on_graph(printed.said("{skill} retired; `agentfw memory delete {skill}` deletes its text too"), _SKILL)
def retire(graph: SkillGraph, skill: str) -> dict[str, Any]:
    """End a skill. It is no longer recalled, and its history stays."""
    graph.retire(skill)
    return {"retired": skill}


@_on_graph(
    printed.counted("deleted"),
    argument("skills", nargs=-1, required=True),
    option("--version", type=int, help="Delete only this past version of one skill, as `history` numbers it."),
    nothing="there is nothing with this id; it may be deleted already",
    asks=lambda skills, version: f"delete {' '.join(skills)}" + ("" if version is None else f" --version {version}"),
)
def delete(graph: SkillGraph, skills: tuple[str, ...], version: int | None) -> dict[str, Any]:
    """Delete skills for good, by their ids, with their history and all bytes on disk.

    This cannot be undone.
    """
    return {name: count for name, count in asdict(graph.delete(*skills, version=version)).items() if name != "user"}


@_on_graph(printed.prepared, doing="preparing")
def prepare(graph: SkillGraph) -> dict[str, Any]:
    """Compute what speeds up the first recall, and save it.

    For a tenant on PostgreSQL with more than 200,000 skills, this creates the search indexes, finds the communities
    and counts common words. Run it after large imports, and every night where much is added.
    """
    graph.prepare()
    found = graph.admin.stats()
    return {"skills": found.nodes.get("skill", 0), "communities": found.communities}


@_on_graph(
    printed.exported,
    argument("path", type=click.Path(path_type=Path)),
    option("--skills", is_flag=True, help="Write each reviewed skill as a folder with a SKILL.md."),
    doing="exporting",
)
def export(graph: SkillGraph, path: Path, skills: bool) -> dict[str, Any]:
    """Export all rows, history and vectors included, as JSON lines. With --skills, write a folder of Agent Skills."""
    from agentfw_memory.graph.exchange.skill_folders import is_reviewed, write_skill_folders

    if path.exists() and not (skills or path.is_dir()):
        raise UsageError(f"{path} already exists and is not overwritten", fix="choose another name, or remove it")
    try:
        if not skills:
            return {"path": str(path), "rows": graph.admin.export_jsonl(path)}
        every = [skill for owner in graph.admin.owners() for skill in graph.skills(owner=owner)]
        reviewed = [(skill, graph.history(skill.id)) for skill in every if is_reviewed(skill)]
        if left_out := len(every) - len(reviewed):
            Out().note(f"{left_out:,} that nobody has reviewed are left out; review them: agentfw memory review ID")
        return {"path": str(path), "skills": len(write_skill_folders(path, reviewed))}
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}", fix="choose another path") from error


@_on_graph(printed.skills, argument("skills", nargs=-1, required=True))
def review(graph: SkillGraph, skills: tuple[str, ...]) -> list[Skill]:
    """Say that you have read skills as they are now, so that `export --skills` writes them."""
    from agentfw_memory.graph.exchange.skill_folders import review_mark

    found = [graph.get(skill) for skill in skills]
    return [graph.update(skill.id, metadata={**skill.metadata, "reviewed": review_mark(skill.text)}) for skill in found]


@memory.command()
@argument("trajectories", type=click.File("rb"))
@_EMBEDDER
@_STORE
@_TENANT
@json_option
def learn(trajectories: IO[bytes], embedder: str, store: str, tenant: str, out: Out) -> None:
    """Learn from trajectories with a reward.

    TRAJECTORIES is a file (- for stdin) with one JSON object per line:

    {"id": "t1", "user": "ana", "query": "move my meeting", "scenarios": ["rescheduling"], "steps": [{"action":
    "look", "tool": "calendar", "worked": true}], "outcome": "Ana prefers mornings.", "reward": 0.9}
    """
    answers: list[Any] = []
    with out.progress("learning") as tell, _opened(store, tenant, make=True, embedder=embedder) as graph:
        for number, line in enumerate(trajectories, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode("utf-8-sig"))
                reward = record.pop("reward")
            except UnicodeDecodeError as error:
                raise UsageError(f"line {number} is not UTF-8 text", fix="save the file as UTF-8") from error
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                wrong = "has no reward" if isinstance(error, KeyError) else f"is not a trajectory ({error})"
                fix = "write one JSON object per line, with a `reward`"
                raise UsageError(f"line {number} {wrong}", fix=fix) from error
            place = len(answers) + 1
            try:
                answers.append(graph.learn(record, reward))
                tell(f"learning: {place:,} trajectories")
            except ValueError as error:
                fix = f"correct it and run the command again; the {place - 1} before it are learned and stay learned"
                raise UsageError(f"trajectory {place}: {error}", fix=fix) from error
    _answered(out, answers, printed.learned)


# Commands that don't open the graph of a tenant as the others do


@memory.command("import")
@argument("words", nargs=-1, required=True, metavar="FILE | skills FOLDER")
@option("--owner", default="", help="User who owns memories that name nobody.")
@option("--yes", is_flag=True, help="Approve the folder of skills, which you have read.")
@_EMBEDDER
@_STORE
@_TENANT
@json_option
def import_(words: tuple[str, ...], owner: str, yes: bool, embedder: str, store: str, tenant: str, out: Out) -> None:
    """Import an export into an empty tenant, or memories of mem0 or LangMem, or Agent Skills, into any.

    Memories are JSON or JSON lines: what mem0's get_all returns, items of a LangGraph store, or objects with text,
    owner and, where known, tools, scenarios, shared and valid_from. A broken record means that nothing is imported.

    `skills FOLDER` imports folders with a SKILL.md, once you have approved them.
    """
    if len(words) != (1 + (words[0] == "skills")):
        raise UsageError(f"{' '.join(words)} is not FILE or skills FOLDER", fix="agentfw memory import skills FOLDER")
    path = Path(words[-1])
    if not path.exists():
        raise UsageError(f"there is no {path}", fix="check the path")
    what, new = "rows", list["NewSkill"]()
    if words[0] == "skills":
        from agentfw.host.trust import allow_folder, require_trusted_folder
        from agentfw_memory.graph.exchange.skill_folders import as_new_skill, read_skill_folders

        (allow_folder if yes else require_trusted_folder)(path)
        with translated_errors():
            what = "skills"
            new = [as_new_skill(one, owner=owner, reviewed=True) for one in read_skill_folders(path)]
    elif path.is_dir():
        raise UsageError(f"{path} is a folder", fix=f"agentfw memory import skills {path}")
    else:
        with path.open(encoding="utf-8", errors="replace") as file:
            is_export, second = file.readline(1000).startswith('{"format": "agentfw'), file.readline()
        if is_export:
            # The tenant must use the export's embedder, and a new tenant stores its embedder at once.
            try:
                embedder = str(json.loads(second)["embedder"][0])
            except (ValueError, KeyError, TypeError, IndexError):
                embedder = ""  # the file is refused when it is read
        else:
            from agentfw_memory import read_memories

            with translated_errors():
                what, new = "memories", read_memories(path, owner=owner)
    with out.progress("importing"), _opened(store, tenant, make=True, embedder=embedder) as graph:
        count = graph.admin.import_jsonl(path) if what == "rows" else len(graph.add_all(new))
    amount = counted(count, {"memories": "memory"}.get(what, what[:-1]))
    told = printed.said("{amount} imported into {store}, tenant {tenant}")
    _answered(out, {"path": str(path), what: count}, told, amount=amount, store=store, tenant=tenant)


@memory.command()
@option("--embedder", required=True, help="New embedding model, such as wordllama or hash:256.")
@_STORE
@_TENANT
@json_option
def reembed(embedder: str, store: str, tenant: str, out: Out) -> None:
    """Recompute all vectors with another embedding model.

    Run the same command again to resume after an interruption.
    """
    from agentfw_memory import SkillGraph

    _must_exist(store, tenant)
    with translated_errors(), out.progress("reading the graph") as tell:
        made = SkillGraph.reembed(
            store, tenant=tenant, embedder=embedder, progress=lambda done: tell(f"{done:,} vectors")
        )
    _answered(out, {"embedder": embedder, "vectors": made}, printed.said("{vectors:,} vectors made by {embedder}"))


@memory.command()
@_EMBEDDER
@_STORE
@_TENANT
def serve(embedder: str, store: str, tenant: str) -> None:
    """Serve the graph to an agent as an MCP server, over stdin and stdout."""
    from agentfw_memory.graph.exchange.mcp_server import serve_stdio

    with _opened(store, tenant, make=True, embedder=embedder) as graph:
        serve_stdio(graph)


@contextmanager
def _opened(store: str, tenant: str, *, make: bool = False, embedder: str = "") -> Iterator[SkillGraph]:
    from agentfw_memory import SkillGraph

    if not make:
        _must_exist(store, tenant)
    elif store == _served():
        Path(store).parent.mkdir(parents=True, exist_ok=True)
    with translated_errors(), SkillGraph.open(store, tenant=tenant, embedder=embedder) as graph:
        yield graph


def _must_exist(store: str, tenant: str) -> None:
    from agentfw_memory import SkillGraph

    server = store.startswith(_SERVERS)
    if not server and not Path(store.rpartition("://")[2]).is_file():
        problem = f"there is no store {store}"
        raise UsageError(problem, fix="pass --store PATH: agentfw serve has RUNS/memory.db, a run RUN/skills.db")
    with translated_errors():
        known = SkillGraph.tenants(store)
    if tenant in known:
        return
    near = get_close_matches(tenant, known, n=1)
    listed = ", ".join(known[:_LISTED]) + (f" and {len(known) - _LISTED} more" if len(known) > _LISTED else "")
    fix = f"pass --tenant {near[0]}; " if near else ""
    fix += f"its tenants are {listed}" if known else "it has no tenants yet; `agentfw memory add` creates one"
    raise UsageError(f'there is no tenant "{tenant}" in {"the server" if server else store}', fix=fix)
