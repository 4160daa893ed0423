"""Trackers, hooks, plugins and commands: a good one of each, and bugs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from agentfw import Tracker, hookimpl
from agentfw.episode import Call, Episode, Turn
from agentfw.hookspecs import Hook, Verdict
from agentfw.scores import Score
from agentfw.tracker import Operation, PolicyCall

from .planting import Bug, bug

__all__ = ["BUGS", "Diary", "Lines", "PolicyCall", "Sundays", "Table", "Timing", "count", "os"]  # bugs use more


class Lines(Tracker):
    def __init__(self) -> None:
        self.file: Any = None
        self.lines: list[str] = []

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self.file = (folder / "figures.txt").open("a", encoding="utf-8")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.file.write(f"{step} {dict(metrics)}\n")

    def finish(self, summary: Mapping[str, float]) -> None:
        self.file.writelines(self.lines)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class Table(Tracker):
    """Keeps figures in SQLite."""

    def __init__(self) -> None:
        self.database: sqlite3.Connection | None = None

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self.database = sqlite3.connect(folder / "figures.db")
        self.database.execute("CREATE TABLE IF NOT EXISTS figures (step, name, value)")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        assert self.database is not None
        rows = [(step, name, value) for name, value in metrics.items()]
        self.database.executemany("INSERT INTO figures VALUES (?, ?, ?)", rows)
        self.database.commit()

    def close(self) -> None:
        if self.database is not None:
            self.database.close()


class Timing(Lines):
    def trace(self, operation: Operation) -> None:
        self.file.write(f"{operation.name} {operation.ended - operation.began}")


OPENS = "self.file = (folder"
WRITES = "self.file.write("
SPEAKS = "isinstance(operation, PolicyCall) and self.file.write(operation.generation.text)"
TRACKERS = [
    bug("a_run_can_be_tracked", Lines, OPENS, f"sum(settings.values()); {OPENS}"),
    bug("what_is_logged_is_kept", Table, "self.database.commit()", "pass"),
    bug("what_is_logged_is_kept", Lines, WRITES, "self.lines.append("),
    bug("operations_can_be_traced", Timing, WRITES, f"{SPEAKS}; {WRITES}"),
    bug("odd_figures_will_do", Lines, WRITES, f"[int(value * 1000) for value in metrics.values()]; {WRITES}"),
    bug("a_broken_off_run_goes_on", Lines, OPENS, f"(folder / run).mkdir(); {OPENS}"),
    bug("closing_is_always_fine", Lines, "if self.file is not None:", "if True:"),
    bug("the_run_folder_stays_whole", Lines, OPENS, f"[file.unlink() for file in folder.iterdir()]; {OPENS}"),
]


class Diary:
    """Writes a line for each episode."""

    @hookimpl
    def agentfw_run_started(self, run: Any) -> None:
        self.path = run.folder.path / "diary.txt"
        self.path.touch()

    @hookimpl
    def agentfw_episode_done(self, run: Any, episode: Episode) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{episode.id}\n")

    @hookimpl
    def agentfw_scored(self, run: Any, scores: Sequence[Score]) -> None:
        self.latest = len(scores)

    @hookimpl
    def agentfw_updated(self, run: Any, metrics: Mapping[str, float]) -> None:
        self.loss = metrics["loss"]


FIGURES = '[file.write_text("{}\\n" + file.read_text()) for file in run.folder.path.rglob("metrics.jsonl")]'
PLUGINS = [
    bug("it_loads", Diary, "def agentfw_scored", "def agentfw_episode_finished"),
    bug("it_loads", Diary, "scores: Sequence[Score]", "score: Any"),
    bug("its_hooks_do_not_raise", Diary, 'metrics["loss"]', '1 / (metrics["loss"] - 0.5)'),
    bug("a_resumed_run_may_tell_it_again", Diary, "touch()", "touch(exist_ok=False)"),
    bug("records_stay_as_they_are", Diary, "self.latest = len(scores)", FIGURES),
    bug("the_process_stays_as_it_is", Diary, "self.path.touch()", 'self.path.touch(); os.environ["DIARY_OF"] = run.id'),
]


class Sundays(Hook):
    """Refuses calls on Sundays, and marks what was recorded on one."""

    @hookimpl
    def agentfw_before_call(self, call: Call) -> Any:
        return Verdict("refuse", "not on Sundays") if call.name == "pour" else None

    @hookimpl
    def agentfw_record(self, record: dict[str, Any]) -> dict[str, Any]:
        return {**record, "profile": {"day": "Sunday"}}

    @hookimpl
    def agentfw_turn(self, turn: Turn) -> None:
        self.latest = turn.text


HOOKS = [
    bug("it_decides_on_requests_and_calls", Sundays, 'Verdict("refuse", "not on Sundays")', "True"),
    bug("it_keeps_records_whole", Sundays, '"profile": {"day": "Sunday"}', '"messages": record["messages"][:1]'),
    bug("it_watches_a_whole_run", Sundays, "turn.text", "0 + turn.usage.sampled"),
]

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")


@click.command()
@click.argument("path", type=click.Path(exists=True))
@AS_JSON
def count(path: str, as_json: bool) -> None:
    """Count the lines of a file."""
    lines = len(Path(path).read_text("utf-8").splitlines())
    click.echo(f'{{"lines": {lines}}}' if as_json else lines)


def no_command(path: str) -> None:
    """Count the lines of a file."""


@click.command()
@click.argument("path", type=click.Path(exists=True))
@AS_JSON
@click.option("--deep", is_flag=True)
def undescribed(path: str, as_json: bool, deep: bool) -> None:
    """Count the lines of a file."""


@click.command()
@click.argument("path", type=click.Path(exists=True))
def only_words(path: str) -> None:
    """Count the lines of a file."""


@click.command()
@click.argument("path")
@AS_JSON
def traceback(path: str, as_json: bool) -> None:
    """Count the lines of a file."""
    click.echo(len(Path(path).read_text("utf-8").splitlines()))


COMMANDS = [
    Bug("it_is_a_command", lambda: no_command),
    Bug("it_says_what_it_does", lambda: undescribed),
    Bug("it_speaks_json", lambda: only_words),
    Bug("wrong_arguments_are_usage_errors", lambda: traceback),
]

BUGS: dict[str, list[Bug]] = {"tracker": TRACKERS, "hook": HOOKS, "plugin": PLUGINS, "command": COMMANDS}
