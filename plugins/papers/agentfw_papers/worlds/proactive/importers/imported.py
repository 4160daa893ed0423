"""What an importer returns: the dialogues, and what it had to leave out and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentfw_papers.timing import Dialogue, Domain


@dataclass
class Imported:
    """Dialogues of a data set."""

    domain: str
    dialogues: list[Dialogue] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the conversations that are left out, by reason."""
    named_by: dict[str, int] = field(default_factory=dict)
    """How many values of triggers got their name in which way."""

    @property
    def share_left_out(self) -> float:
        count = sum(map(len, self.left_out.values()))
        return count / (count + len(self.dialogues)) if count else 0.0

    def leave_out(self, reason: str, dialogue: str) -> None:
        self.left_out.setdefault(reason, []).append(dialogue)

    def report(self) -> Mapping[str, object]:
        return {"left_out": self.left_out, "values_named_by": self.named_by}


Importer = Callable[[Path, Domain], Imported]
"""Reads a file with the names and slots of a domain."""
