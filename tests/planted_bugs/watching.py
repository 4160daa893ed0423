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


class Lines(Tracker):
    def __init__(self) -> None:
        self.file: Any = None

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self.file = (folder / "figures.txt").open("a", encoding="utf-8")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.file.write(f"{step} {dict(metrics)}\n")

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class Strict(Lines):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            int(value * 1000)
            name.encode("ascii")


class Once(Lines):
    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        (folder / run).mkdir()
        super().begin(run, folder, settings)


class Cleaning(Lines):
    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        for file in folder.iterdir():
            file.unlink()
        super().begin(run, folder, settings)


class UnknownSettings(Lines):
    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        super().begin(run, folder, {key: value + 0 for key, value in settings.items()})


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
        self.commit()

    def commit(self) -> None:
        assert self.database is not None
        self.database.commit()

    def close(self) -> None:
        if self.database is not None:
            self.database.close()


class AtTheEnd(Lines):
    """Writes when the run is complete, and nothing of a run that was broken off."""

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        super().begin(run, folder, settings)
        self.lines: list[str] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.lines.append(f"{step} {dict(metrics)}")

    def finish(self, summary: Mapping[str, float]) -> None:
        self.file.writelines(self.lines)


class Timing(Lines):
    def trace(self, operation: Operation) -> None:
        self.file.write(f"{operation.name} {operation.ended - operation.began}")


class TracesSuccess(Lines):
    def trace(self, operation: Operation) -> None:
        if isinstance(operation, PolicyCall):
            self.file.write(operation.generation.text)  # type: ignore[union-attr]


# -- hooks -------------------------------------------------------------------------------------------------------------


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


class MisspeltHook(Diary):
    @hookimpl
    def agentfw_episode_finished(self, run: Any) -> None:
        pass


class WrongArgument(Diary):
    @hookimpl
    def agentfw_turn(self, run: Any, answer: Any) -> None:
        pass


class DividesByLosses(Diary):
    @hookimpl
    def agentfw_updated(self, run: Any, version: str, metrics: Mapping[str, float]) -> None:
        1 / (metrics["loss"] - 0.5)


class StartsOnce(Diary):
    @hookimpl
    def agentfw_run_started(self, run: Any) -> None:
        super().agentfw_run_started(run)
        (run.folder.path / "diary").mkdir()


class WritesIntoRecords(Diary):
    @hookimpl
    def agentfw_episode_done(self, run: Any, episode: Episode) -> None:
        for file in run.folder.path.rglob("metrics.jsonl"):
            with file.open("a", encoding="utf-8") as lines:
                lines.write('{"note": "done"}\n')


class SetsVariables(Diary):
    @hookimpl
    def agentfw_run_started(self, run: Any) -> None:
        super().agentfw_run_started(run)
        os.environ["DIARY_OF"] = run.id


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


class Permissive(Sundays):
    @hookimpl
    def agentfw_before_call(self, call: Call) -> Any:
        return call.name == "pour"


class FirstMessageOnly(Sundays):
    @hookimpl
    def agentfw_record(self, record: dict[str, Any]) -> dict[str, Any]:
        return {**record, "messages": record["messages"][:1]}


class NeedsUsage(Sundays):
    @hookimpl
    def agentfw_turn(self, turn: Turn) -> None:
        self.sampled = 0 + turn.usage.sampled  # type: ignore[operator]


# -- commands ----------------------------------------------------------------------------------------------------------


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


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("path", required=False, nargs=-1)
@AS_JSON
def takes_anything(path: str, as_json: bool) -> None:
    """Count the lines of a file."""


BUGS: dict[str, list[Bug]] = {
    "tracker": [
        bug("a_run_can_be_tracked", UnknownSettings),
        bug("what_is_logged_is_kept", Table, commit=lambda self: None),
        bug("what_is_logged_is_kept", AtTheEnd),
        bug("operations_can_be_traced", TracesSuccess),
        bug("odd_figures_will_do", Strict),
        bug("a_broken_off_run_goes_on", Once),
        bug("closing_is_always_fine", Lines, close=lambda self: self.file.close()),
        bug("the_run_folder_stays_whole", Cleaning),
    ],
    "hook": [
        bug("it_decides_on_requests_and_calls", Permissive),
        bug("it_keeps_records_whole", FirstMessageOnly),
        bug("it_watches_a_whole_run", NeedsUsage),
    ],
    "plugin": [
        bug("it_loads", MisspeltHook),
        bug("it_loads", WrongArgument),
        bug("its_hooks_do_not_raise", DividesByLosses),
        bug("a_resumed_run_may_tell_it_again", StartsOnce),
        bug("records_stay_as_they_are", WritesIntoRecords),
        bug("the_process_stays_as_it_is", SetsVariables),
    ],
    "command": [
        Bug("it_is_a_command", lambda: no_command),
        Bug("it_says_what_it_does", lambda: undescribed),
        Bug("it_speaks_json", lambda: only_words),
        Bug("wrong_arguments_are_usage_errors", lambda: traceback),
        Bug("wrong_arguments_are_usage_errors", lambda: takes_anything),
    ],
}
