"""Reads what earlier versions of agentfw wrote. A folder keeps its format: later lines are added in the newest one.

The format changes only where a reader needs something that was not written before.
"""

from __future__ import annotations

from typing import Any

__all__ = ["EARLIER", "migrate", "migrate_about"]

EARLIER = {2: "the tokens of judges were not counted, and are 0; there was no deadline, and now the default one holds"}
"""The formats that are still read, with what they lack."""


def migrate(record: dict[str, Any]) -> None:
    """Add to a line of metrics.jsonl, or to a summary, what its version didn't write, or wrote under another name."""
    if "course" in record:
        record["headline_by_round"] = record.pop("course")
    if "usage" in record:
        record.setdefault("judged", {"prompt": 0, "cached": 0, "sampled": 0})


def migrate_about(about: dict[str, Any]) -> None:
    """Take out of a run.json what its format allowed and today's doesn't, and rename what had another name."""
    if "scene" in about:
        about["description"] = about.pop("scene")
    if about["format"] in EARLIER and about["spec"].get("deadline", 0) is None:
        del about["spec"]["deadline"]
