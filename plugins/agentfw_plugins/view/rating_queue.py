"""What comes of looking: answers to rate, trainings on the ratings, questions asked again, tasks, and kept filters.

The queue is the episodes of a filter in their order. Tasks are added to `tasks.jsonl` beside the runs, and filters are
kept in `filters.jsonl`. Commands that a page starts (`--allow-start`) end with the view.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any

from agentfw.errors import UsageError
from agentfw.runs import Journal, read_journal, write_whole

from .annotations import read_annotations
from .episode_view import EpisodeView
from .index import Index
from .index_rows import record_of
from .search import Filter, Row, address, ordered, shown_rows

_TOGETHER = 20
_MOST = 2000  # episodes of a filter that are looked through


class Command:
    """A command that a page has started, with what it says and the run that it makes."""

    def __init__(self, words: list[str], index: Index, leads_to: str, given: str) -> None:
        """`leads_to` is the address of what comes of it, where `{run}` stands for its run. `given` is its input."""
        self.words, self._leads_to = words, leads_to
        # They are gone with this object, and the command has them as long as it goes on.
        self._out, self._err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        command = [sys.executable, "-m", "agentfw", *words, "--runs", str(index.root), "--json"]
        with tempfile.TemporaryFile() as read:
            read.write(given.encode())
            read.seek(0)
            self.process = subprocess.Popen(command, stdin=read, stdout=self._out, stderr=self._err)

        def wait() -> None:
            self.process.wait()
            index.refresh()
            index.generation += 1  # also a command that fails is news to the pages

        threading.Thread(target=wait, daemon=True).start()

    @property
    def state(self) -> str:
        code = self.process.poll()
        return "running" if code is None else "done" if code == 0 else "failed"

    @property
    def said(self) -> str:
        """The end of what it says, which is why it failed if it did."""
        lines = _content(self._err).decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-1 if self.state == "running" else -4 :])

    @property
    def link(self) -> str:
        """Where what came of it is. Empty until it is done."""
        done = self.state == "done"
        return self._leads_to.replace("{run}", Path(json.loads(_content(self._out))["folder"]).name) if done else ""


def _content(file: IO[bytes]) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)  # the command has the same place in the file


def asking_again(row: Row, form: Mapping[str, str]) -> list[str]:
    """The command that asks the questions of a session again, of the policy, model, version or prompt of a form."""
    words = ["serve", "replay", row["run_name"], "--session", row["query"]]
    words += ["--policy", form["policy"]] if form.get("policy") else []
    given = {name: form.get(name, "").strip() for name in ("model", "version")}
    given["prompt"] = "/dev/stdin" if form.get("prompt", "").strip() else ""
    settings = ",".join(f"{name}={value}" for name, value in given.items() if value)
    return [*words, "--variant", f"again:{settings}"] if settings else words


def next_unrated(index: Index, rows: sqlite3.Connection, wanted: Filter, after: str = "") -> str:
    """The first answer behind `after` that nobody has rated, as EPISODE:TURN. Empty if there is none."""
    name, _, turn = after.rpartition(":")
    first, waits, ids = "", bool(after), ordered(rows, wanted, _MOST)
    parts = (shown_rows(rows, ids[since : since + _TOGETHER]) for since in range(0, len(ids), _TOGETHER))
    for row in chain.from_iterable(parts):
        here = address(row)
        is_last = waits and here == name
        if waits and not is_last and first:
            continue
        since = int(turn) + 1 if is_last and turn.isdecimal() else 0
        view = EpisodeView.read(index, row, rows)
        answers = () if view.feedback or view.marks().is_rated else view.turns
        whole = (one for one in answers if one.turn.finish != "interrupted" and (one.said.strip() or one.calls))
        places = (one.turn.index for one in whole if not (one.feedback or view.marks(one.turn.index).is_rated))
        found = next((f"{here}:{at}" for at in places if at >= since), "")
        if found and (is_last or not waits):
            return found
        # What it goes on behind may have left the filter, with its rating: then the queue begins anew.
        first, waits = first or found, waits and not is_last
    return first


def rated_runs(index: Index, rows: sqlite3.Connection, name: str = "") -> list[dict[str, Any]]:
    """The runs that have ratings, or the one of this name, the newest first, with the number of their ratings, and the
    model that answered if it is one that can be trained."""
    asked = (
        "SELECT r.name, r.folder, json_extract(r.about, '$.settings.policy.model') AS model,"
        " (SELECT sum(rated) FROM episodes e WHERE e.run = r.id) AS recorded"
        " FROM runs r WHERE ? IN ('', r.name) ORDER BY r.began DESC"
    )
    found = []
    for run in rows.execute(asked, (name,)).fetchall():
        said = sum(marks.is_rated for marks in read_annotations(index.root / run["folder"]).values())
        if said or run["recorded"]:
            ratings = said + (run["recorded"] or 0)
            found.append({"name": run["name"], "ratings": ratings, "model": str(run["model"] or "")})
    return found


def add_task(root: Path, view: EpisodeView, turn: int) -> None:
    """Add what was asked before a turn to the set of tasks, with the correction of the answer if there is one."""
    if view.episode is None or not 0 <= turn < len(view.turns):
        raise UsageError(f"there is no turn {turn + 1}", fix="choose one of the page")
    shown = [view.episode.messages[place] for place in view.turns[turn].turn.shown]
    task: dict[str, Any] = {
        "messages": [{"role": one.role, "content": one.content} for one in shown if one.role in ("system", "user")],
        "user": view.row["user"],
        "from": f"{address(view.row)}:{turn}",
    }
    if answer := view.marks(turn).correction:
        task["answer"] = answer
    # It is no journal, since people write it as well: a line may be empty, and the last one without an end. A task that
    # was added before its answer was corrected keeps its place.
    path = root / "tasks.jsonl"
    lines = path.read_text("utf-8-sig").split("\n") if path.exists() else []
    known = {str((record_of(line) or {}).get("from", at)): line for at, line in enumerate(lines) if line.strip()}
    known[task["from"]] = json.dumps(task, ensure_ascii=False).encode(errors="replace").decode()
    write_whole(path, "".join(f"{line}\n" for line in known.values()))


def save_filter(root: Path, name: str, query: str) -> None:
    """Keep a filter by a name. Without a query, the filter of that name is removed."""
    if not (name := name.strip()) or len(name) > 60:
        raise UsageError("a filter is kept by a name of 1 to 60 characters", fix="give it one")
    with Journal.open(root / "filters.jsonl") as journal:
        journal.append({"name": name, "filter": query})


def saved_filters(root: Path) -> dict[str, str]:
    """The filters that are kept: the query of each, by its name."""
    found = {str(line["name"]): str(line["filter"]) for line in read_journal(root / "filters.jsonl")}
    return {name: query for name, query in found.items() if query}
