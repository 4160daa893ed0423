"""The contract of trackers, which only observe: nothing that a run logs may make them raise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from ..episode import Message, Task
from ..errors import AgentfwError
from ..memory import Query, Recollection
from ..request import Generation, Sampling
from ..scores import Score
from ..tracker import Operation, PlayedEpisode, PolicyCall, Recall, Scoring, ToolCall, Tracker
from .checks import DoesNotApply, Subject, require, working_folder

Trackers = Subject[Tracker]

_RUN = "2026-01-05-teahouse-7f3a"
_SETTINGS: Mapping[str, Any] = {
    "environment": {"name": "teahouse", "settings": {"guests": 3, "drinks": ["tea", "coffee"], "note": "ünï 🫖"}},
    "horizon": None,
    "policy": {"name": "host", "settings": {"temper": "calm"}},
    "memories": [],
    "seed": 7,
}
_DISTINCT = "quokka_count"
_ODD_NAMES = ("error@25", "spread (%)", "naïve", "a/b.c-d", "two words", "日本", "x" * 120, "Reward", "reward")


@contextmanager
def _begun(subject: Trackers) -> Iterator[Tracker]:
    """A tracker of a run that has begun, in an empty working folder."""
    folder = subject.folder / "run"
    folder.mkdir(exist_ok=True)
    with working_folder(subject.folder / "work"), closing(subject.make()) as tracker:
        tracker.begin(_RUN, folder, _SETTINGS)
        yield tracker


def a_run_can_be_tracked(subject: Trackers) -> None:
    """It takes a run from its beginning to its end, and can be closed twice."""
    with _begun(subject) as tracker:
        for step in range(3):
            tracker.log(step, {"reward": 0.5 * step, "utility": 1.0})
        tracker.finish({"reward": 0.5, "utility": 1.0})
        tracker.close()


def what_is_logged_is_kept(subject: Trackers) -> None:
    """If it writes files, what was logged is in them when it is closed, also when the run didn't finish."""
    with _begun(subject) as tracker:
        for step in range(3):
            tracker.log(step, {_DISTINCT: 0.5 * step})
    if not (files := [path for path in subject.folder.rglob("*") if path.is_file()]):
        raise DoesNotApply("it writes no files here")
    wrong = f'a figure called "{_DISTINCT}" was logged and is in none of its files ({files[0].name})'
    kept = any(_DISTINCT.encode() in path.read_bytes() for path in files)
    require(kept, f"{wrong}; commit or flush in log() or close()")


def operations_can_be_traced(subject: Trackers) -> None:
    """It takes every operation of an episode, also one that failed."""
    if type(subject.make()).trace is Tracker.trace:
        raise DoesNotApply("it doesn't follow operations")
    task = Task(0, 7)
    common: dict[str, Any] = {"task": task, "name": "teahouse", "began": 1_700_000_000.0, "ended": 1_700_000_001.5}
    query, message = Query("tea", task), Message("user", "tea 🫖")
    operations: list[Operation] = [
        PolicyCall(messages=(message,), sampling=Sampling(), generation=Generation("hello"), **common),
        PolicyCall(messages=(), sampling=Sampling(), generation=None, error="TimeoutError", **common),
        ToolCall(arguments={"cups": 2}, answer="two cups", **common),
        ToolCall(arguments={}, answer="", error="ValueError", **common),
        Recall(query=query, found=(Recollection("likes tea"),), **common),
        Recall(query=query, error="OSError", **common),
        Scoring(scores=(Score("00000-0", "utility", 1.0),), **common),
        Scoring(error="ValueError", **common),
        PlayedEpisode(finish="finished", outcome={"served": 1.0}, **common),
        PlayedEpisode(error="KeyError", **common),
    ]
    try:
        with _begun(subject) as tracker:
            for operation in operations:
                tracker.trace(operation)
            tracker.finish({})
    except AgentfwError as error:
        raise DoesNotApply(f"it says that it can't work here: {error.message}") from None


def odd_figures_will_do(subject: Trackers) -> None:
    """Figures may have any name and any value, also NaN."""
    with _begun(subject) as tracker:
        for step, name in enumerate(_ODD_NAMES):
            tracker.log(step, {name: 1.0})
        tracker.log(20, dict.fromkeys(_ODD_NAMES, 0.5))
        tracker.log(21, {"reward": math.nan, "loss": math.inf, "other": -math.inf})
        tracker.log(22, {})
        tracker.log(5, {"reward": 1.0})  # episodes end in any order
        tracker.finish({"reward": math.nan, "spread (%)": 1.0})


def a_broken_off_run_goes_on(subject: Trackers) -> None:
    """A run that was broken off goes on under the same name, and may log a step again."""
    with _begun(subject) as tracker:
        tracker.log(0, {"reward": 0.5})
        tracker.log(1, {"reward": 0.6})
    with _begun(subject) as tracker:
        tracker.log(1, {"reward": 0.6})
        tracker.log(2, {"reward": 0.7, "new": 1.0})
        tracker.finish({"reward": 0.6})


def closing_is_always_fine(subject: Trackers) -> None:
    """It can be closed before a run began, and when the run failed."""
    with working_folder(subject.folder / "work"):
        subject.make().close()
    with _begun(subject):
        pass


def the_run_folder_stays_whole(subject: Trackers) -> None:
    """It doesn't touch what the run itself has written."""
    folder = subject.folder / "run"
    folder.mkdir()
    own = {"run.json": "{}\n", "metrics.jsonl": '{"reward": 0.5}\n'}
    for name, text in own.items():
        (folder / name).write_text(text, "utf-8")
    with _begun(subject) as tracker:
        tracker.log(0, {"reward": 0.5})
        tracker.finish({"reward": 0.5})
    for name, text in own.items():
        there = (folder / name).read_text("utf-8") if (folder / name).exists() else "nothing"
        require(there == text, f"it changed {name} of the run's folder")
