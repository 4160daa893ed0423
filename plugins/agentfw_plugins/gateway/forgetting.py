"""`agentfw serve forget`: takes a person out of everything that gateways have of them, and says what it can't reach.

First the versions that learned from them are withdrawn, then their sessions are deleted, and last what the memories
keep. So the same command goes on where one was killed. Others' records stay as they are, line by line.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from agentfw import Task
from agentfw.errors import AgentfwError, UsageError
from agentfw.printing.out import Out, counted
from agentfw.runs import LiveRun, drop_records, find_run, list_runs, read_journal, write_whole

from ..command_options import confirm, gateway_options, show, yes_option
from ..hooks.ledger import FILE, Ledger
from ..view.index_rows import record_of
from .learning import versions_at
from .learning.version_file import Removal, VersionFile
from .operator_commands import keys_at
from .usage import ledger_of


@dataclass
class Forgotten:
    sessions: int = 0
    withdrawn: list[str] = field(default_factory=list)
    memories: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    """What the same command reaches once something is mended."""


@click.command()
@click.argument("user")
@click.option("--run", metavar="RUN", help="Record of the gateway. Default: all records in the directory of runs.")
@click.option(
    "--spec", type=click.Path(path_type=Path, exists=True), help="Spec of these gateways, which names their memories."
)
@yes_option
@gateway_options("Sessions that gateways share.")
def forget(user: str, run: str | None, shared: str, spec: Path | None, yes: bool, runs: Path, out: Out) -> int:
    """Delete USER everywhere: record, memories, and versions trained on their feedback.

    What this can't reach is listed. A gateway that keeps its record in a folder has to be stopped first. The exit code
    is 1 if something has to be repeated. This cannot be undone.
    """
    if not user:  # such as of a variable that isn't set
        raise UsageError("USER is empty", fix="name whom to delete; `agentfw serve sessions delete` is for sessions")
    if bool(shared) != bool(spec) or (shared and run):
        raise UsageError(
            "--sessions and --spec belong together, without --run: what is shared, and the memories beside it",
            fix="name both for gateways that share sessions, and neither for one that keeps its record in a folder",
        )
    confirm(f"Delete everything of {user}?", yes)
    told, tried = Forgotten(), set[Path]()
    if shared:
        with tempfile.TemporaryDirectory(prefix="agentfw-forget-") as folder:
            _out_of_database(user, shared, Path(folder), runs, told)
            _out_of_memories(user, Path(folder), {"spec": spec, "assignments": [f"hook.budget.ledger={shared}"]}, told)
    else:
        records = [find_run(runs, run)] if run else list_runs(runs)
        for record in (one for one in records if (one.path / "turns.jsonl").exists()):
            tried.add(record.path)
            try:
                record.lock()
                try:
                    told.withdrawn += _withdraw(user, VersionFile(record.path))
                    told.sessions += _rewrite(user, record.path)
                    _unname(user, VersionFile(record.path))
                finally:
                    record.unlock()
                _out_of_memories(user, runs, {"resume": str(record.path)}, told)
            except AgentfwError as error:  # the others are theirs, too
                told.undone.append(f"{error.message}; {error.fix}")
    for index in runs.glob(".index.sqlite*"):  # what `agentfw view` has read of them; it is made again
        index.unlink(missing_ok=True)
    if (tasks := runs / "tasks.jsonl").exists():  # no journal, as people write it, too
        lines = [line for line in tasks.read_text("utf-8-sig").split("\n") if line.strip()]
        others = [line for line in lines if (record_of(line) or {}).get("user") != user]
        write_whole(tasks, "".join(f"{line}\n" for line in others))
    told.left += [
        f"the key {key.name}, which lets them in again: agentfw serve keys revoke {key.name}"
        for key in keys_at(runs, shared).known().values()
        if user in (key.name, key.user)
    ]
    told.left += [f"copy in {path}: delete this run" for path in _copies(user, runs) if path not in tried]
    told.left.append("what they spent, in sums without their name")
    told.left.append("backups and dumps that were made before: forget them again after one is restored")
    kept = ", ".join(f"{count} {name}" for name, count in told.memories.items() if count) or "nothing"
    show(
        out,
        vars(told),
        f"{counted(told.sessions, 'session')} deleted; of the memories: {kept}",
        f"versions withdrawn and deleted: {', '.join(told.withdrawn) or 'none'}",
        *(f"left: {each}" for each in told.left),
    )
    for each in () if out.json else told.undone:
        out.warning(f"not done: {each}")
    return int(bool(told.undone))


def _withdraw(user: str, file: VersionFile) -> list[str]:
    if not file.exists:
        return []
    names = {episode.task.query for episode in file.episodes() if episode.task.user == user}
    with file.change() as state:
        learned = {name for one in state.versions for name in one.sessions if name in names or one.user == user}
        withdrawn = state.remove(Removal(user, until=time.time()), learned)
        told = [one.name for one in withdrawn]
        state.tried.pop(user, None)
        state.said = "somebody was forgotten"  # what was said before may name them
        for one in withdrawn:
            one.adapter = ""
        for one in state.versions:
            one.sessions = [name for name in one.sessions if name not in learned]
            if one.user == user:  # whose it was is forgotten, and no other version gets its number
                one.user, one.why = "", ""
    file.drop(one.number for one in state.versions if not one.adapter)  # also those that a kill left
    file.clear(state)
    return told


def _unname(user: str, file: VersionFile) -> None:
    """Take the name out of the list of removals. A trainer at work still sees that somebody was removed."""
    if file.exists:
        with file.change() as state:
            # They cover no time, so they leave nothing out.
            nothing = [Removal(since=one.until, until=one.until) for one in state.removals if one.user == user]
            state.removals = [*(one for one in state.removals if one.user != user), *nothing]


def _out_of_database(user: str, shared: str, folder: Path, runs: Path, told: Forgotten) -> None:
    from .sessions.session_store import Chosen, SessionJournal

    with closing(versions_at(folder, shared)) as versions, closing(SessionJournal(shared)) as journal:
        told.withdrawn += _withdraw(user, versions)
        names = [episode.task.query for episode in journal.sessions(Chosen(user))]
        for run in list_runs(runs):
            if not (run.path / "turns.jsonl").exists():  # the record of one gateway has sessions of its own
                _drop_spans(run.path, names)
                (run.path / "answers.jsonl").unlink(missing_ok=True)
        told.sessions, in_use = journal.delete(Chosen(user))
        if in_use:
            told.undone.append(f"{counted(in_use, 'session')} being answered; run the same command again later")
        else:
            _unname(user, versions)
    Ledger(runs / FILE).forget(user)  # what the model took that writes down what they said
    told.left.append("long texts that tools gave them, beside the records of gateways: `long_texts/`")
    told.left.append("copies of their sessions at running gateways, until somebody opens a page of `/view` there")
    told.left.append("spans of their sessions, and sums of what they spent, in other directories of runs of gateways")
    if told.withdrawn:
        told.left.append("copies of these versions at gateways that are stopped: each deletes its own when it starts")


def _rewrite(user: str, folder: Path) -> int:
    """Write the journals of a record again without a person. Returns the number of their sessions."""
    tasks = {Task(**line["task"]) for line in read_journal(folder / "turns.jsonl")}
    own = {task.id: task.query for task in tasks if task.user == user}

    def is_theirs(line: dict[str, Any]) -> bool:
        # The task of a whole episode has its fields. A metric's is a text, beside the episode's id.
        episode = line["episode"] if "episode" in line else Task(**line["task"]).id if "task" in line else ""
        heard = str(line.get("heard", "")).split("/")
        return episode in own or user in (line.get("user"), line.get("forgotten")) or not own.keys().isdisjoint(heard)

    if not own:  # without a session here, they may have asked to be forgotten
        drop_records(folder / "heard.jsonl", is_theirs)
        return 0
    # A metric without its episode would be damage. The turns, by which sessions are found, come last.
    for name in ("annotations", "findings", "metrics", "failed", "episodes"):
        drop_records(folder / f"{name}.jsonl", is_theirs)
    # No other session may get the number of one that is gone.
    last = max(task.index for task in tasks)
    drop_records(folder / "heard.jsonl", is_theirs, [{"forgotten": "", "session": last, "at": time.time()}])
    _drop_spans(folder, own.values())
    long_texts = {file.name: file for file in folder.glob("long_texts/*")}
    for line in read_journal(folder / "turns.jsonl") if long_texts else ():
        if not is_theirs(line):
            told = json.dumps(line["messages"])
            long_texts = {name: file for name, file in long_texts.items() if name not in told}
    streams = [file for file in folder.glob("streams/*") if file.name.rpartition("-")[0] in own]
    whole = [folder / name for name in ("report.html", "summary.json", "answers.jsonl", "typed")]
    for file in (*streams, *long_texts.values(), *whole):
        file.unlink(missing_ok=True)
    drop_records(folder / "turns.jsonl", is_theirs)
    return len(own)


def _drop_spans(folder: Path, sessions: Iterable[str]) -> None:
    from ..view.waterfall import spans_file, spans_of

    for session in sessions:
        traces = {f"~{span['trace']}" for span in spans_of(folder, session)}
        for name in (*traces, session.partition("~")[0]):  # the session, by which traces are found, comes last
            spans_file(folder, name).unlink(missing_ok=True)


def _out_of_memories(user: str, root: Path, given: dict[str, Any], told: Forgotten) -> None:
    from .live import opened

    live: LiveRun = opened(root, **given)
    live.keeps = "resume" in given

    async def forgotten() -> None:
        async with live:
            rewards = {f"reward {name}": one for name, one in live.assembly.rewards.items() if one.overrides("forget")}
            memories = zip(live.assembly.spec.memories, live.assembly.memories, strict=True)
            parts: list[tuple[str, Any]] = [*((f"memory {choice.name}", one) for choice, one in memories)]
            for name, part in [*parts, *rewards.items()]:
                try:
                    found = await part.forget(user)
                except AgentfwError as error:
                    told.undone.append(f"{name}: {error.message}; {error.fix}")
                else:
                    told.memories.update(found if isinstance(found, dict) else {"reward models": int(found)})

    asyncio.run(forgotten())
    ledger_of(live).forget(user)
    trackers = zip(live.assembly.spec.trackers, live.assembly.trackers, strict=True)
    told.left += [f"what the tracker {choice.name} was told" for choice, one in trackers if one.overrides("trace")]
    told.left += [
        f"their limits in {given.get('resume') or given['spec']}: start gateways without hook.{hook.name}.users.{user}"
        for hook in live.assembly.spec.hooks
        if user in getattr(hook.checked, "users", ())
    ]


def _copies(user: str, root: Path) -> list[Path]:
    """Runs, such as trainings, that have sessions of a person."""
    forms = (re.escape(json.dumps(user, ensure_ascii=ascii).encode()) for ascii in (False, True))
    named = re.compile(rb'"user": ?(?:' + b"|".join(forms) + rb")")

    def names_them(file: Path) -> bool:
        with file.open("rb") as lines:
            return any(named.search(line) for line in lines)

    return [run.path for run in list_runs(root) if any(map(names_them, run.path.rglob("*.jsonl")))]
