"""How far a training is: the last update that counts, and what learner and optimizer need to resume from there.

There is one such file, written whole and renamed. Until it says so, an update has not happened.

    State(update=3, version="lora@3", adapter="learner/00003").write(folder)
    State.read(folder).update    # 3
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import PluginError, RunFolderError
from .journal import write_whole

__all__ = ["State"]

_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class State:
    """A run after one of its updates; one that learns nothing stays as it is made."""

    update: int = 0
    version: str = ""
    """The policy's newest version; empty until there is one."""
    adapter: str = ""
    """Where it is, below the run's folder."""
    learner: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    line: Mapping[str, Any] = field(default_factory=dict)
    """The figures of the update, as they go into updates.jsonl: a kill between the two files loses nothing."""

    def write(self, folder: Path) -> None:
        try:
            text = json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PluginError(
                f"after update {self.update}, the state of the learner or the optimizer can't be written down: {error}",
                fix="a state is made of finite numbers, texts, lists and tables; fix the plugin",
            ) from error
        write_whole(folder / _FILE, text + "\n")

    @classmethod
    def read(cls, folder: Path) -> State:
        """What is on disk; where there is no file, no update has happened."""
        try:
            return cls(**json.loads((folder / _FILE).read_text("utf-8")))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, TypeError) as error:
            raise RunFolderError(f"{folder / _FILE} can't be read: {error}", fix="restore it from a copy") from None
