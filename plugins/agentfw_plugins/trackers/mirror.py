"""Keeps a copy of the run's folder in object storage, from which the run can be resumed on another machine.

    agentfw run inbox --tracker mirror --set tracker.mirror.address=s3://bucket/runs
    agentfw runs resume s3://bucket/runs/2026-11-21-inbox-7f3a19c4

A thread sends what has changed, so the run never waits for the storage. Storage that can't be reached for a while costs
nothing but the age of the copy. How consistent the copy is, says `agentfw.runs.records.mirror`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from agentfw import Settings, Tracker
from agentfw.errors import StorageError
from agentfw.runs import Mirror, check_address

logger = logging.getLogger(__name__)

_SHARE = 10
"""After a pass, nothing is sent for so many times as long as it took: journals are sent whole when they have grown."""


class MirrorSettings(Settings):
    address: str = Field(
        min_length=1,
        description="Where the folders of runs go, such as s3://bucket/runs. Keys are taken from the environment.",
    )
    every: float = Field(10.0, gt=0, description="Seconds between two looks at what has changed.")


class MirrorTracker(Tracker):
    """Sends the run's folder."""

    def __init__(self, settings: MirrorSettings) -> None:
        self.settings = settings
        check_address(settings.address)
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._failure: StorageError | None = None
        """Why the last pass failed, if it did."""

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self._mirror = Mirror(folder, self.settings.address)
        self._thread = threading.Thread(target=self._follow, name="agentfw-mirror", daemon=True)
        self._thread.start()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """The thread looks by itself."""

    def close(self) -> None:
        """Send the rest, and raise if it can't be sent."""
        if self._thread is None:
            return
        self._ends.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure

    def _follow(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ends.is_set()
            began = time.monotonic()
            failed, self._failure = self._failure, None
            try:
                self._mirror.send()
            except StorageError as error:
                self._failure = error
                if failed is None:
                    logger.warning("%s; it is tried again", error)
            if not is_last:
                self._ends.wait(max(self.settings.every, _SHARE * (time.monotonic() - began)))
