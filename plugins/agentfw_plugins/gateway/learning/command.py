"""`agentfw serve versions`, `rollback` and `forget-feedback`: what a gateway has learned, and how to take it back.

A gateway that runs follows within a second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out, counted
from agentfw.runs import LiveRun, find_run

from ...command_options import gateway_options, show
from . import versions_at
from .ratings import fresh, left_out, read_ratings, without_removed
from .version_file import Removal, VersionFile, Wished, named

if TYPE_CHECKING:
    from .learning import Learning

CANARY = 0.5
Command = TypeVar("Command", bound=Callable[..., Any])


def learning_of(
    live: LiveRun, wished: Wished | None, spec: Path | None, *, shared: str, tell: Callable[[str], object]
) -> Learning | None:
    """What makes a gateway learn. One that learned earlier goes on serving what it learned, also without --learn."""
    from .learning import Learning

    policy = json.dumps(live.folder.about["spec"]["policy"], sort_keys=True)
    learning = Learning(live, tell, versions_at(live.folder.path, shared, policy=policy))
    if not (wished or learning.file.exists):
        learning.file.close()
        return None
    if wished:
        learning.start(wished, spec)
    return learning


def _of_run(command: Command) -> Command:
    run = click.option("--run", metavar="RUN", help="Run of the gateway. Default: the newest that learns.")
    return run(gateway_options("Versions of the gateways that share these sessions.")(command))


def _file(run: str | None, runs: Path, shared: str) -> VersionFile:
    if shared:
        files, words = [versions_at(Path(), shared)], "no gateway that shares these sessions learns"
    else:
        begun = sorted(runs.glob("*/run.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        folders = [find_run(runs, run).path] if run else [path.parent for path in begun]
        files, words = [versions_at(folder) for folder in folders], f"no gateway in {runs} has learned anything"
    if (found := next((file for file in files if file.exists), None)) is None:
        raise UsageError(words, fix="start one that does: agentfw serve --learn")
    return found


@click.command()
@_of_run
def versions(run: str | None, runs: Path, shared: str, out: Out) -> None:
    """List the versions that a gateway has made of its feedback, and why each is served or not."""
    file = _file(run, runs, shared)
    state, episodes = file.read(), list(file.episodes())
    waiting = fresh(read_ratings(episodes, state.removals, state.metric), state.since)
    ignored = left_out(episodes, state.removals, state.metric)
    if out.json:
        out.data({**asdict(state), "waiting": waiting, "ignored": dict(ignored)})
        return
    rows = [["*" if state.served == 0 else "", named(0), "the policy as it came", "", "", ""]]
    served = {state.served, *(one.number for one in state.own.values())}
    for one in state.versions:
        mark = "*" if one.number in served else f"{state.share:.0%}" if one.number == state.canary else ""
        made = datetime.fromtimestamp(one.at).isoformat(" ", "minutes")
        rows.append([mark, one.name, one.outcome, made, str(one.ratings), one.why])
    out.table(["", "version", "outcome", "made", "ratings", "why"], rows, right=(4,))
    for gone in state.removals:
        out.line("left out: " + ", ".join(f"{name} {said}" for name, said in asdict(gone).items() if said))
    for why, count in ignored.most_common():
        out.line(f"{counted(count, 'rated answer')} not learned from: {why}")
    if state.said:
        out.line(f"last attempt: {state.said}")
    if state.canary:
        out.line(f"{named(state.canary)} is on trial: {waiting} new ratings, {state.every} needed")
    elif state.rebuild:
        out.line("feedback was taken out: a version is made without it")
    elif state.rebuilds:
        out.line("versions of single users are made or tested, if a gateway runs")
    else:
        enough = "not enough feedback yet" if waiting < state.every else "a version is being made, if a gateway runs"
        out.line(f"{enough}: {waiting} new ratings, {state.every} needed")


@click.command()
@_of_run
def rollback(run: str | None, runs: Path, shared: str, out: Out) -> None:
    """Take back the canary, or else the served version: the one before it is served again."""
    with _file(run, runs, shared).change() as state:
        taken, served = state.roll_back()
    told = {"rolled_back": named(taken), "served": named(served)}
    show(out, told, f"{named(taken)} is rolled back; served: {named(served)}")


@click.command()
@click.option("--user", default="", help="Feedback of this user.")
@click.option("--session", default="", help="Feedback on this session, by its name in the record.")
@click.option("--since", type=click.DateTime(), metavar="TIME", help="Feedback given since then.")
@click.option("--until", type=click.DateTime(), metavar="TIME", help="Feedback given before then.")
@_of_run
def forget_feedback(
    user: str,
    session: str,
    since: datetime | None,
    until: datetime | None,
    run: str | None,
    runs: Path,
    shared: str,
    out: Out,
) -> None:
    """Leave out feedback that was given so far: what all the given options say.

    Versions that learned from it are withdrawn, and the newest one that did not is served at once. The gateway makes
    another one from what is left.
    """
    if not (user or session or since or until):
        raise UsageError("nothing says which feedback", fix="use --user, --session, --since or --until")
    file = _file(run, runs, shared)
    removal = Removal(user, session, since.timestamp() if since else None, until.timestamp() if until else time.time())
    episodes = list(file.episodes())  # before the change: in a file, one transaction waits for the other
    # Versions may have learned from what is about another metric, or was said anew since.
    sessions = {one.task.query for one in episodes if without_removed(one, [removal]).events != one.events}
    with file.change() as state:
        ratings = read_ratings(episodes, state.removals, state.metric)
        gone = sum(removal.holds(one.user, one.session, one.at) for one in ratings)
        withdrawn, served = [one.name for one in state.remove(removal, sessions)], named(state.served)
    words = f"{gone} ratings are left out; withdrawn: {', '.join(withdrawn) or 'no version'}; served: {served}"
    show(out, {"left_out": gone, "withdrawn": withdrawn, "served": served}, words)
