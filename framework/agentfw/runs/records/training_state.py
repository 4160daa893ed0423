"""The state of a training: its last completed update, and what learner and optimizer need to resume from there.

The state is one file that is replaced atomically. An update is not complete until the file says so.

    State(update=3, version="lora@3", adapter="learner/00003").write(folder)
    State.read(folder).update    # 3
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import PluginError, RunFolderError
from .journal import write_whole

__all__ = ["State"]

_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class State:
    """A run after one of its updates. A run that learns nothing keeps the initial state."""

    update: int = 0
    version: str = ""
    """The policy's newest version. Empty until there is one."""
    adapter: str = ""
    """Path of its adapter, below the run's folder."""
    learner: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    line: Mapping[str, Any] = field(default_factory=dict)
    """The metrics of the update, as in updates.jsonl. Stored here too, in case of a kill between the two writes."""

    def write(self, folder: Path) -> None:
        try:
            text = json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PluginError(
                f"after update {self.update}, the state of the learner or the optimizer can't be stored: {error}",
                fix="fix the plugin: a state must consist of finite numbers, text, lists and dicts",
            ) from error
        write_whole(folder / _FILE, text + "\n")

    @classmethod
    def read(cls, folder: Path) -> State:
        """Read the state. Without a file, no update is complete."""
        try:
            return cls(**json.loads((folder / _FILE).read_text("utf-8")))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, TypeError) as error:
            raise RunFolderError(f"{folder / _FILE} can't be read: {error}", fix="restore it from a backup") from None
