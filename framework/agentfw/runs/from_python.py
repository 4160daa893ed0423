"""`agentfw.run`, `agentfw.train` and `agentfw.load`: what the command line does, for programs and notebooks.

They start from the same specs as the commands, leave the same run folders, and return a `RunResult`, which shows itself
as a table, in a notebook with the curve above it.

Programs that play many runs call `in_processes`. The answers are the same as from a single process, in the order of the
jobs. No worker outlives its parent process, even if the parent is killed.

    >>> in_processes(abs, [-1, 2, -3], 1)
    [1, 2, 3]
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from html import escape
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..boundary.guard import use_daemon_threads
from ..boundary.settings_input import nested
from ..episode import Episode
from ..errors import AgentfwError, UsageError
from ..host import Host, runs_directory
from ..host.plugin_loading import end_reading
from ..report.statistics import Interval
from .records.figure_table import EPISODE_FIGURES, figure_title, in_order
from .records.folder import RunFolder, find_run
from .records.journal import make_folder, write_whole
from .records.summary import Summary, beside
from .results.run_charts import curve
from .results.run_report import write_report
from .run import Run
from .spec.resolution import checked_spec
from .spec.run_spec import COMPONENTS, SINGULAR
from .spec.start import (
    Start,
    check_training,
    chosen_values,
    naming_layers,
    spec_file,
    start_from_runs,
    start_of_run,
    start_of_training,
)

One = str | object  # the name of a component; or the component itself, its class, or a function that it is made of
Several = One | Sequence[One]
Tasks = Path | str | Iterable[Mapping[str, Any]]
Job = TypeVar("Job")
Answer = TypeVar("Answer")


class RunResult:
    """A finished run: its figures, its episodes and its folder."""

    def __init__(self, folder: RunFolder) -> None:
        record = folder.summary()
        if record is None:
            raise UsageError(f"the run {folder.id} isn't finished", fix=f"agentfw runs resume {folder.path}")
        self.folder = folder
        self.summary = Summary.from_record(record)

    @property
    def path(self) -> Path:
        """The folder on disk. `report.html` in it is the report."""
        return self.folder.path

    @property
    def figures(self) -> Mapping[str, Interval]:
        """The mean of every metric with its 95% interval. For a training, those of the last evaluation."""
        return self.summary.figures

    @property
    def episodes(self) -> list[Episode]:
        """The recorded episodes. For a training, those of the last evaluation."""
        return list(self.folder.episodes())

    def frame(self, rows: Literal["episodes", "turns"] = "episodes") -> Any:
        """The episodes, or their turns, as a DataFrame of pandas, or of polars if only that is installed."""
        found = list(_turns(self.folder) if rows == "turns" else _episodes(self.folder))
        for name in ("pandas", "polars"):
            try:
                library = importlib.import_module(name)
            except ImportError:
                continue
            return library.DataFrame(found, **({"infer_schema_length": None} if name == "polars" else {}))
        raise UsageError("a table needs pandas or polars, and neither is installed", fix="pip install pandas")

    def to_record(self) -> dict[str, Any]:
        """Everything about the run as plain values, as `agentfw run --json` prints it."""
        return {**self.summary.to_record(), "folder": str(self.path)}

    def __repr__(self) -> str:
        heads, rows = self._table()
        widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads))]
        table = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in [heads, *rows]]
        return "\n".join([*("  ".join(row).rstrip() for row in table), str(self.path)])

    def _repr_html_(self) -> str:
        heads, rows = self._table()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"{curve(self.folder).to_svg()}<table><tr>{head}</tr>{body}</table><code>{escape(str(self.path))}</code>"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """The figures before and after a training. Of another run, its figures and those of simple players."""
        headline = self.folder.headline
        if self.summary.before:
            names = in_order([name for name in self.summary.before if name in self.figures], headline)
            return ["", "before", "after"], [
                [figure_title(name, self.folder), str(self.summary.before[name]), str(self.figures[name])]
                for name in names
            ]
        names = [name for name in self.folder.columns if name in self.figures] or in_order(self.figures, headline)
        rows = [
            [who, *(str(figures[name]) if name in figures else "" for name in names)]
            for who, figures in beside(self.summary, self.folder)
        ]
        return ["", *(self.folder.columns.get(name, figure_title(name, self.folder)) for name in names)], rows


def _episodes(folder: RunFolder) -> Iterator[dict[str, Any]]:
    for record in folder.metrics():
        yield {
            "episode": record["episode"],
            "task": record["task"],
            "user": record["user"],
            **{name: figure.of(record) for name, figure in EPISODE_FIGURES.items()},
            **record["outcome"],
            "finish": record["finish"],
        }


def _turns(folder: RunFolder) -> Iterator[dict[str, Any]]:
    for episode in folder.episodes():
        failed = episode.failed_calls
        for turn in episode.turns:
            yield {
                "episode": episode.id,
                "turn": turn.index,
                "round": turn.round,
                "started": turn.started,
                "ended": turn.ended,
                "text": turn.text,
                "calls": json.dumps([[call.name, dict(call.arguments)] for call in turn.calls], ensure_ascii=False),
                "failed_calls": sum(call.id in failed for call in turn.calls),
                "failures": len(turn.failures),
                "tokens": turn.count,
                "logprob": sum(turn.logprobs) / len(turn.logprobs) if turn.logprobs else None,
                "version": turn.version,
                "finish": turn.finish,
            }


def _played(
    start: Start,
    environment: str | None,
    spec: Path | str | None,
    settings: Mapping[str, Any] | None,
    chosen: Mapping[str, Any],
    runs: Path,
    host: Host | None,
    *,
    is_training: bool,
) -> RunResult:
    """Run what was chosen to its end, and write the report. Objects and functions become components of the host."""
    file = None if spec is None else spec_file(Path(spec), runs)  # before plugins, which may change the folder
    host, options = host or Host.load(), dict(chosen)
    for key, kind in COMPONENTS.items():
        if key in chosen:
            are_several = key in SINGULAR and isinstance(chosen[key], (list, tuple))
            given = chosen[key] if are_several else (chosen[key],)
            names = [each if each is None or isinstance(each, str) else host.take(kind, each) for each in given]
            options[key] = tuple(names) if key in SINGULAR else names[0]
    assignments = nested((key.split("."), value) for key, value in (settings or {}).items())
    values = chosen_values(host, start, environment, file, runs=runs, options=options, assignments=assignments)
    if is_training:
        check_training(values)
    elif values.get("optimizer") is not None:
        raise UsageError("this spec has an optimizer, so it is a training", fix="agentfw.train(...)")
    with naming_layers(values):
        made = Run.create(checked_spec(values, host), host, runs)

    task: asyncio.Task[None] | None = None

    async def main() -> None:
        nonlocal task
        task = asyncio.current_task()
        use_daemon_threads()
        await made.execute()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(main())
    else:  # a notebook, whose thread has an event loop already
        with ThreadPoolExecutor(1) as thread:
            played = thread.submit(lambda: asyncio.run(main()))
            try:
                played.result()
            except KeyboardInterrupt:  # of this thread: the run ends in good order, too
                if task is not None and not played.done():
                    task.get_loop().call_soon_threadsafe(task.cancel)
                raise
    write_report(made.folder)
    return RunResult(made.folder)


def run(
    environment: str | None = None,
    *,
    tasks: Tasks | None = None,
    model: str | None = None,
    policy: One | None = None,
    memory: Several = (),
    tool: Several = (),
    reward: Several = (),
    tracker: Several = (),
    interface: str | None = None,
    episodes: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    spec: Path | str | None = None,
    runs: Path | str | None = None,
    host: Host | None = None,
) -> RunResult:
    """Run an agent in an environment, as `agentfw run` does, and return how well it did.

    `tasks` are questions in place of an environment: a file with one JSON object per line, a list of dicts, or a
    `datasets.Dataset`. `model` is a model id of Hugging Face, a folder or a GGUF file. `policy` is the name of a
    policy, or a run, whose policy (of a training, the newest version) is meant. Wherever a component has a name, the
    component itself, its class, or a function can be given, such as `reward=correct`. `settings` are those of `--set`:
    `{"environment.rate": 0.5}`. `runs` is the directory of runs. Default: that of agentfw.toml, or `runs`. `host` has
    the plugins, such as those of `agentfw.testing.fresh_host`, which need not be installed. Default: all installed.
    """
    end_reading()
    lists = {"memories": memory, "tools": tool, "rewards": reward, "trackers": tracker}
    chosen = {"model": model, "policy": policy, "interface": interface, "episodes": episodes, "seed": seed, **lists}
    root = runs_directory(runs)
    environment = _environment(environment, tasks, root)
    return _played(start_of_run, environment, spec, settings, chosen, root, host, is_training=False)


def train(
    environment: str | None = None,
    *,
    tasks: Tasks | None = None,
    model: str | None = None,
    policy: One | None = None,
    optimizer: One | None = None,
    learner: One | None = None,
    teacher: One | None = None,
    memory: Several = (),
    tool: Several = (),
    reward: Several = (),
    tracker: Several = (),
    interface: str | None = None,
    updates: int | None = None,
    seed: int | None = None,
    learn_from: str | Sequence[str] = (),
    metric: str = "",
    settings: Mapping[str, Any] | None = None,
    spec: Path | str | None = None,
    runs: Path | str | None = None,
    host: Host | None = None,
) -> RunResult:
    """Improve a policy, as `agentfw train` does, and return how it did before and after.

    `learn_from` names recorded runs, as `--from` does, and `metric` the feedback in them, as `--metric` does. The other
    arguments are those of `run`.
    """
    end_reading()
    sources = (learn_from,) if isinstance(learn_from, str) else learn_from
    root = runs_directory(runs)
    start: Start = start_of_training
    if sources:
        start = start_from_runs(sources, root, optimizer if isinstance(optimizer, str) else None, metric)
    chosen = {"model": model, "policy": policy, "optimizer": optimizer, "learner": learner, "teacher": teacher}
    chosen |= {"memories": memory, "tools": tool, "rewards": reward, "trackers": tracker}
    figures = {"interface": interface, "updates": updates, "seed": seed}
    environment = _environment(environment, tasks, root)
    return _played(start, environment, spec, settings, chosen | figures, root, host, is_training=True)


def load(name: str = "last", *, runs: Path | str | None = None) -> RunResult:
    """A finished run: `last`, its name or the end of it, or its path."""
    return RunResult(find_run(runs_directory(runs), name))


def _environment(environment: str | None, tasks: Tasks | None, runs: Path) -> str | None:
    """The environment, or a file of tasks. What isn't in a file is written to one, so that the run can be resumed."""
    if tasks is None:
        return environment
    if environment is not None:
        raise UsageError("both an environment and tasks are given", fix="leave one of them out")
    if isinstance(tasks, (str, Path)):
        return str(tasks)
    text = "".join(json.dumps(dict(row), ensure_ascii=False, default=str) + "\n" for row in tasks)
    make_folder(runs / "tasks")
    path = runs / "tasks" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsonl"
    write_whole(path, text)
    return str(path)


def in_processes(
    work: Callable[[Job], Answer],
    jobs: Sequence[Job],
    processes: int,
    *,
    done: Callable[[int], object] = lambda count: None,
) -> list[Answer]:
    """Call `work` for each job. `done` is called with the number of finished jobs. An error in a job stops all jobs.

    Jobs and answers are pickled, and so is `work`, a function at the top of a module.
    """
    answers: dict[int, Answer] = {}
    if processes == 1:
        for number, job in enumerate(jobs):
            answers[number] = work(job)
            done(len(answers))
        return list(answers.values())
    # Spawned, not forked: threads and event loops of this process must not be copied.
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_leave_with, initargs=(theirs,))
    try:
        numbers = {pool.submit(work, job): number for number, job in enumerate(jobs)}
        for future in as_completed(numbers):
            answers[numbers[future]] = future.result()
            done(len(answers))
    except BrokenProcessPool as error:
        text = f"a worker process died, with {len(jobs) - len(answers)} of {len(jobs)} jobs to do"
        raise AgentfwError(text, fix="the machine may be out of memory; try again with fewer processes") from error
    finally:
        pool.shutdown(wait=len(answers) == len(jobs), cancel_futures=True)
        ours.close()  # workers that are still busy exit now
        theirs.close()
    return [answers[number] for number in range(len(jobs))]


def _leave_with(owner: Connection) -> None:
    """Thread of a worker: exit when the other end of the pipe is closed, whatever happened to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent

    def watch() -> None:
        try:
            owner.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, name="agentfw-worker-lease", daemon=True).start()
