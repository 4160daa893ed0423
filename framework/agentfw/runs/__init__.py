"""Runs: playing tasks, learning from them, and storing and reporting the results.

`spec.py` says what to do, `assembly.py` creates the components, `run.py` and `loop.py` do the work, `folder.py` and
`journal.py` store it, `summary.py`, `comparison.py` and `report.py` present the results. A run with an optimizer is
called a training.

The public names besides those of `agentfw`, such as `Run` and `RunSpec`, are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .assembly import Assembly, assemble
    from .folder import RunFolder, find_run
    from .journal import Journal, read_journal, write_whole
    from .live import LiveRun, read_sessions
    from .records import Records
    from .report import write_report
    from .resolution import resolve
    from .spec import SamplingSettings, apply_assignments, parse_spec, read_spec
    from .summary import Summary
    from .workers import in_processes, usual_processes

__all__ = [
    "Assembly",
    "Journal",
    "LiveRun",
    "Records",
    "RunFolder",
    "SamplingSettings",
    "Summary",
    "apply_assignments",
    "assemble",
    "find_run",
    "in_processes",
    "parse_spec",
    "read_journal",
    "read_sessions",
    "read_spec",
    "resolve",
    "usual_processes",
    "write_report",
    "write_whole",
]

_MODULES: dict[str, tuple[str, ...]] = {
    "assembly": ("Assembly", "assemble"),
    "folder": ("RunFolder", "find_run"),
    "summary": ("Summary",),
    "journal": ("Journal", "read_journal", "write_whole"),
    "live": ("LiveRun", "read_sessions"),
    "records": ("Records",),
    "report": ("write_report",),
    "resolution": ("resolve",),
    "spec": ("SamplingSettings", "apply_assignments", "parse_spec", "read_spec"),
    "workers": ("in_processes", "usual_processes"),
}
_HOME: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that __getattr__ isn't called again for this name
    return value
