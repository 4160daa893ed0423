"""Runs: playing tasks, learning from them, and storing and reporting the results.

`spec/` says what to do. `assembly.py` makes the components. `run.py`, `execution.py` and `play.py` do the work, and
`learning.py` and `proof.py` the part that only trainings have. `observers.py` says who is told. `records/` is what is
on disk, and `results/` what is made of that. A run with an optimizer is called a training.

The public names besides those of `agentfw`, such as `Run` and `RunSpec`, are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .assembly import Assembly, assemble
    from .deciding import Question, decisions
    from .from_python import RunResult, in_processes
    from .live import Again, EndedSession, LiveRun, read_sessions
    from .observers import Observer, RunInfo
    from .records.figure_table import EPISODE_FIGURES, Figure, figure_text, figure_title, figures_of
    from .records.folder import RunFolder, find_run, list_runs
    from .records.journal import (
        Journal,
        drop_records,
        encoded,
        make_folder,
        make_private,
        read_journal,
        sealed,
        unsealed,
        write_whole,
    )
    from .records.mirror import Mirror, check_address
    from .records.play_records import Records
    from .records.summary import ComparedFigure, Summary, compare_runs
    from .results.run_charts import timeline_picture, transcript
    from .results.run_report import run_results, write_report
    from .spec.resolution import resolve
    from .spec.run_spec import Choice, RewardChoice, SamplingSettings, parse_spec
    from .spec.start import SpecValues, chosen_values, find_training, newest_version, policy_of_run, start_from_runs
    from .spec.values import apply_assignments, read_spec

__all__ = ["EPISODE_FIGURES", "Again", "Assembly", "Choice", "ComparedFigure", "EndedSession", "Figure", "Journal"]
__all__ += ["LiveRun", "Mirror", "Observer", "Question", "Records", "RewardChoice", "RunFolder", "RunInfo", "RunResult"]
__all__ += ["SamplingSettings", "SpecValues", "Summary", "apply_assignments", "assemble", "check_address"]
__all__ += ["chosen_values", "compare_runs", "decisions", "drop_records", "encoded", "figure_text", "figure_title"]
__all__ += ["figures_of", "find_run", "find_training", "in_processes", "list_runs", "make_folder", "make_private"]
__all__ += ["newest_version", "parse_spec", "policy_of_run", "read_journal", "read_sessions", "read_spec", "resolve"]
__all__ += ["run_results", "sealed", "start_from_runs", "timeline_picture", "transcript", "unsealed", "write_report"]
__all__ += ["write_whole"]

_MODULES = {
    "assembly": "Assembly assemble",
    "deciding": "Question decisions",
    "from_python": "RunResult in_processes",
    "live": "Again EndedSession LiveRun read_sessions",
    "observers": "Observer RunInfo",
    "records.figure_table": "EPISODE_FIGURES Figure figure_text figure_title figures_of",
    "records.folder": "RunFolder find_run list_runs",
    "records.journal": "Journal drop_records encoded make_folder make_private read_journal sealed unsealed write_whole",
    "records.mirror": "Mirror check_address",
    "records.play_records": "Records",
    "records.summary": "ComparedFigure Summary compare_runs",
    "results.run_charts": "timeline_picture transcript",
    "results.run_report": "run_results write_report",
    "spec.resolution": "resolve",
    "spec.run_spec": "Choice RewardChoice SamplingSettings parse_spec",
    "spec.start": "SpecValues chosen_values find_training newest_version policy_of_run start_from_runs",
    "spec.values": "apply_assignments read_spec",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that __getattr__ isn't called again for this name
    return value
