"""A run as a table for pandas or polars: a row for each episode, or for each turn.

agentfw.load("last").frame()
agentfw.load("last").frame("turns")
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any, Literal

from ...errors import UsageError
from ..records.figure_table import EPISODE_FIGURES
from ..records.folder import RunFolder

__all__ = ["Rows", "frame"]

Rows = Literal["episodes", "turns"]


def frame(folder: RunFolder, rows: Rows = "episodes") -> Any:
    """A DataFrame of pandas, or of polars if only that is installed."""
    found = list(_turns(folder) if rows == "turns" else _episodes(folder))
    for name in ("pandas", "polars"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        return library.DataFrame(found)
    raise UsageError("a table needs pandas or polars, and neither is installed", fix="pip install pandas")


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
