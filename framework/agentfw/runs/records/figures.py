"""The metrics of updates and evaluations, as they are stored and as trackers log them.

A metric has the same name everywhere.

    >>> flat({"update": 3, "rollouts": {"reward": 0.5}, "learner": {"kl": 0.1}, "seconds": {"play": 2.0}})
    {'reward': 0.5, 'learner/kl': 0.1, 'seconds/play': 2.0}
    >>> nothing_learned({"rollouts": {"groups": 8, "groups_alike": 8, "groups_learned": 0}, "served": {}})
    'nothing learned: all rewards of 8 groups are equal'
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import PluginError, StorageError, disk_fix
from ...optimizer import Scored
from ...printing.out import counted
from .summary import columns

WHY_NO_LEARNING = "See docs/guides/why-no-learning.md"
"""Where a person finds what to do about an update that has taught nothing."""
_ROUNDING = 1e-12
"""Relative difference below which rewards count as equal."""


def means(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of each metric, without an interval, because the policy changes during a training."""
    known = {name: [value for value in values if not math.isnan(value)] for name, values in columns(records).items()}
    return {name: math.fsum(values) / len(values) for name, values in known.items()}


def components(groups: Sequence[Sequence[Scored]]) -> dict[str, float]:
    """The mean of each component of the reward over the episodes, by `reward/NAME`. Together they are the reward."""
    episodes = [scored for group in groups for scored in group]
    names = dict.fromkeys(score.component for scored in episodes for score in scored.scores)
    return {
        f"reward/{name}": math.fsum(s.value for each in episodes for s in each.scores if s.component == name)
        / len(episodes)
        for name in names
    }


def lengths(groups: Sequence[Sequence[Scored]]) -> dict[str, float]:
    """The tokens of an answer, and the share of answers that were cut off. Nothing where no answer has tokens."""
    turns = [turn for group in groups for scored in group for turn in scored.episode.turns if turn.count]
    if not turns:
        return {}
    return {
        "answer_tokens": math.fsum(turn.count for turn in turns) / len(turns),
        "answer_tokens_most": float(max(turn.count for turn in turns)),
        "cut_off": sum(turn.finish == "length" for turn in turns) / len(turns),
    }


def alike(group: Sequence[Scored]) -> bool:
    """Whether a group has nothing to compare: all of its rewards are equal."""
    rewards = [scored.reward for scored in group]
    return len(rewards) > 1 and math.isclose(min(rewards), max(rewards), rel_tol=_ROUNDING)


def nothing_learned(line: Mapping[str, Any]) -> str:
    """Why the rewards of an update have taught nothing, from its line of updates.jsonl. Empty if they have."""
    figures, published = line["rollouts"], bool(line["served"])
    if figures["groups_learned"] and published:
        return ""
    groups = counted(int(figures["groups"]), "group")
    if not figures["groups"]:
        why = "every episode was left out"
    elif figures["groups_learned"]:
        why = "no gradient has reached a weight"
    elif figures["groups_alike"] == figures["groups"]:
        why = f"all rewards of {groups} are equal"
    else:
        why = f"the optimizer gave {groups} no advantage"
    return f"only the KL penalty acted: {why}" if published else f"nothing learned: {why}"


def flat(line: Mapping[str, Any]) -> dict[str, float]:
    """A line of updates.jsonl as names and numbers. Metrics of rollouts have no prefix."""
    return {
        name if part == "rollouts" else f"{part}/{name}": value
        for part, some in line.items()
        if isinstance(some, Mapping)
        for name, value in some.items()
    }


def finite(metrics: Mapping[str, float], who: str) -> dict[str, float]:
    """Check the metrics of a plugin. Raises if one isn't finite, because then the weights aren't finite either."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise PluginError(
                f"{who} reported {name} = {value}",
                fix="lower the learning rate and resume: the step was probably too large",
            )
    return dict(metrics)


def size_of(path: Path) -> int:
    """Size in bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in _files(path))


def sync(path: Path) -> None:
    """Flush a version to disk before it is recorded."""
    for file in _files(path):
        try:
            with file.open("r+b") as handle:
                os.fsync(handle.fileno())
        except OSError as error:
            raise StorageError(f"can't flush {file} to disk: {error.strerror or error}", fix=disk_fix(error)) from error


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
