"""`agentfw memory`: read, edit, move and clean up a skill graph, without a run.

Commands that only read never create a store or a tenant: a path or name that doesn't exist is probably a typo.
`COMMANDS` declares each command: its parameters, which call of the graph it is, and how the answer is printed.

This module is imported for `agentfw memory --help`, so each command imports what it needs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click import argument, option

from agentfw.errors import UsageError
from agentfw.host import runs_directory
from agentfw.printing.out import Out, shown_path

from ..command_options import confirm, json_option, yes_option
from . import memory_answers as printed
from . import translated_errors

if TYPE_CHECKING:
    from agentfw_memory import NewSkill, SkillGraph

_SERVERS = ("postgresql://", "postgres://")  # how the addresses of stores begin that are no files
_LISTED = 10  # maximum number of tenants that an error names

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


# Values of options


def _object(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, Any] | None:
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
_MAXIMUM = option(
    "-k", type=click.IntRange(1), default=5, show_default=True, help="Maximum number of skills to return."
)
_SKILL = argument("skill")
_METADATA = option("--metadata", callback=_object, metavar="JSON", help="Values to filter by, as an object.")
_WHERE = option(
    "--where", callback=_object, metavar="JSON", help='Only skills whose metadata fits, such as {"kind": "note"}.'
)
_EXPIRES = option(
    "--expires", "expires_at", callback=_time, metavar="TIME", help="When the skill ends by itself (UTC), or never."
)


@dataclass(frozen=True)
class Subcommand:
    """A command that calls a graph and prints the answer."""

    name: str
    help: str
    parameters: tuple[Decorator, ...]
    call: Callable[..., Any]
    """Called with the graph, with what tells the progress, and with the parameters. Returns what `--json` prints."""
    show: Callable[..., None]  # called with the output, the answer and the parameters
    makes: bool = False  # whether a store or a tenant is created if there is none
    doing: str = ""  # what is shown while it works
    nothing: str = ""  # what is noted if nothing was found
    asks: Callable[..., str] | None = None
    """Returns of the parameters what is to be confirmed, as it would be typed. It can't be undone."""


def _learned(graph: SkillGraph, tell: Callable[[str], object], trajectories: Any) -> list[Any]:
    answers: list[Any] = []
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
            raise UsageError(f"line {number} {wrong}", fix="write one JSON object per line, with a `reward`") from error
        place = len(answers) + 1
        try:
            answers.append(graph.learn(record, reward))
            tell(f"learning: {place:,} trajectories")
        except ValueError as error:
            fix = f"correct it and run the command again; the {place - 1} before it are learned and stay learned"
            raise UsageError(f"trajectory {place}: {error}", fix=fix) from error
    return answers


def _erased(graph: SkillGraph, tell: object, skills: tuple[str, ...], version: int | None) -> dict[str, Any]:
    return {name: count for name, count in asdict(graph.delete(*skills, version=version)).items() if name != "user"}


def _prepared(graph: SkillGraph, tell: object) -> dict[str, Any]:
    graph.prepare()
    found = graph.admin.stats()
    return {"skills": found.nodes.get("skill", 0), "communities": found.communities}


def _exported(graph: SkillGraph, tell: object, path: Path, skills: bool) -> dict[str, Any]:
    from agentfw_memory.graph.exchange.skill_folders import is_reviewed, write_skill_folders

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


def _reviewed(graph: SkillGraph, tell: object, skills: tuple[str, ...]) -> list[Any]:
    from agentfw_memory.graph.exchange.skill_folders import review_mark

    found = [graph.get(skill) for skill in skills]
    return [graph.update(skill.id, metadata={**skill.metadata, "reviewed": review_mark(skill.text)}) for skill in found]


COMMANDS = (
    Subcommand(
        "stats", "Show counts and the embedding model.", (), lambda graph, tell: graph.admin.stats(), printed.stats
    ),
    Subcommand(
        "recall",
        "Search for skills that match a query and a user.",
        (
            argument("query"),
            option("--user", required=True, help="User to recall for. Only skills visible to this user are searched."),
            _MAXIMUM,
            option("--why", is_flag=True, help="Show a table of what each term adds to the score."),
            _WHERE,
        ),
        lambda graph, tell, query, user, k, why, where: graph.recall(query, user=user, k=k, where=where),
        printed.hits,
        nothing="no skill visible to {user} matches",
    ),
    Subcommand(
        "add",
        "Add a skill. Adding the same text for the same owner again changes nothing.",
        (
            argument("text"),
            option("--owner", required=True, help="User who owns the skill."),
            option("--tool", "tools", multiple=True, help="Tool that the skill needs. Can be repeated."),
            option("--scenario", "scenarios", multiple=True, help="Scenario that the skill is for. Can be repeated."),
            option("--shared", is_flag=True, help="Make the skill visible to everybody in the tenant."),
            _METADATA,
            _EXPIRES,
            _EMBEDDER,
        ),
        lambda graph, tell, shared, **skill: graph.add(visibility="shared" if shared else "private", **skill),
        printed.skill,
        makes=True,
    ),
    Subcommand(
        "learn",
        """Learn from trajectories with a reward.

        TRAJECTORIES is a file (- for stdin) with one JSON object per line:

        {"id": "t1", "user": "ana", "query": "move my meeting", "scenarios": ["rescheduling"], "steps": [{"action":
        "look", "tool": "calendar", "worked": true}], "outcome": "Ana prefers mornings.", "reward": 0.9}
        """,
        (argument("trajectories", type=click.File("rb")), _EMBEDDER),
        _learned,
        printed.learned,
        makes=True,
        doing="learning",
    ),
    Subcommand(
        "forget",
        """Delete all data of a user, including history and files.

        This cannot be undone.
        """,
        (argument("user"),),
        lambda graph, tell, user: asdict(graph.forget(user)),
        printed.counted("forgotten"),
        nothing="no data of {user} was found; is the name right?",
        asks=lambda user: f"forget {user}",
    ),
    Subcommand(
        "list",
        "List a user's skills, oldest first.",
        (
            option("--owner", required=True, help="User whose skills are listed."),
            option("--scenario", help="Only skills for this scenario."),
            _WHERE,
        ),
        lambda graph, tell, owner, scenario, where: graph.skills(owner=owner, scenario=scenario, where=where),
        printed.skills,
        nothing="no skill of {owner} fits",
    ),
    Subcommand(
        "history",
        "Show every version of a skill, also of one that has ended.",
        (_SKILL,),
        lambda graph, tell, skill: graph.history(skill),
        printed.versions,
    ),
    Subcommand(
        "update",
        "Start a new version of a skill. What isn't given stays as it is.",
        (
            _SKILL,
            argument("text", required=False),
            option("--tool", "tools", multiple=True, help="Tool that the skill needs now. Can be repeated."),
            option(
                "--scenario", "scenarios", multiple=True, help="Scenario that the skill is for now. Can be repeated."
            ),
            option("--visibility", type=click.Choice(["private", "shared"]), help="Who may see it now."),
            _METADATA,
            _EXPIRES,
        ),
        lambda graph, tell, skill, tools, scenarios, **changes: graph.update(
            skill, tools=tools or None, scenarios=scenarios or None, **changes
        ),
        printed.skill,
    ),
    Subcommand(
        "retire",
        "End a skill. It is no longer recalled, and its history stays.",
        (_SKILL,),
        lambda graph, tell, skill: graph.retire(skill) or {"retired": skill},
        printed.said("{skill} retired; `agentfw memory delete {skill}` deletes its text too"),
    ),
    Subcommand(
        "delete",
        """Delete skills for good, by their ids, with their history and all bytes on disk.

        This cannot be undone.
        """,
        (
            argument("skills", nargs=-1, required=True),
            option("--version", type=int, help="Delete only this past version of one skill, as `history` numbers it."),
        ),
        _erased,
        printed.counted("deleted"),
        nothing="there is nothing with this id; it may be deleted already",
        asks=lambda skills, version: (
            f"delete {' '.join(skills)}" + ("" if version is None else f" --version {version}")
        ),
    ),
    Subcommand(
        "prepare",
        """Compute what speeds up the first recall, and save it.

        For a tenant on PostgreSQL with more than 200,000 skills, this creates the search indexes, finds the communities
        and counts common words. Run it after large imports, and every night where much is added.
        """,
        (),
        _prepared,
        printed.prepared,
        doing="preparing",
    ),
    Subcommand(
        "export",
        "Export all rows, history and vectors included, as JSON lines. With --skills, write a folder of Agent Skills.",
        (
            argument("path", type=click.Path(path_type=Path)),
            option("--skills", is_flag=True, help="Write each reviewed skill as a folder with a SKILL.md."),
        ),
        _exported,
        printed.exported,
        doing="exporting",
    ),
    Subcommand(
        "review",
        "Say that you have read skills as they are now, so that `export --skills` writes them.",
        (argument("skills", nargs=-1, required=True),),
        _reviewed,
        printed.skills,
    ),
)


@click.group()
def memory() -> None:
    """Read, edit, move and clean up a skill graph."""


def _add(one: Subcommand) -> None:
    def command(store: str, tenant: str, out: Out, embedder: str = "", yes: bool = False, **given: Any) -> None:
        with out.progress(one.doing) as tell, _opened(store, tenant, make=one.makes, embedder=embedder) as graph:
            if one.asks is not None:
                words = one.asks(**given)
                question = f"{words[0].upper()}{words[1:]} in {store}, tenant {tenant}? This cannot be undone."
                confirm(question, yes, fix=f"agentfw memory {words} --yes")
            answer = one.call(graph, tell, **given)
        found = {**answer, "user": ""}.values() if isinstance(answer, dict) else answer
        if one.nothing and not any(found):
            out.note(one.nothing.format_map(given))
        _answered(out, answer, one.show, **given)
        if one.asks is not None and store.startswith(_SERVERS):
            out.note("the server's write-ahead log, replicas and backups still hold the data until they are recycled")

    yes = (yes_option,) if one.asks else ()
    decorators = (*one.parameters, *yes, _STORE, _TENANT, json_option)
    decorated = reduce(lambda inner, decorator: decorator(inner), reversed(decorators), command)
    memory.command(one.name, help=one.help)(decorated)


def _answered(out: Out, answer: Any, show: Callable[..., None], **given: Any) -> None:
    """Print an answer, as JSON if that was asked for."""
    if not out.json:
        show(out, answer, **given)
    elif isinstance(answer, list):
        out.data([asdict(one) for one in answer])
    else:
        out.data(answer if isinstance(answer, dict) else asdict(answer))


for _one in COMMANDS:
    _add(_one)


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
            is_export, second = '"format"' in file.readline(1000), file.readline()
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
    told = printed.said(f"{{{what}:,}} {what} imported into {store}, tenant {tenant}")
    _answered(out, {"path": str(path), what: count}, told)


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
