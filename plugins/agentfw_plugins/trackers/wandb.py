"""Logs a run's settings and metrics to Weights & Biases, offline unless `mode` is online.

Nothing leaves the machine unless `mode` is online. Offline, the records are in the run's folder and `wandb sync` sends
them. The parts of one run share one id, so they are joined there.

    agentfw run inbox --tracker wandb
    wandb sync runs/2026-11-21-inbox-7f3a19c4/wandb/offline-run-*

Neither code nor git information is recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agentfw import Settings, Tracker
from agentfw.errors import AgentfwError, MissingExtraError

__all__ = ["WandbSettings", "WandbTracker"]


class WandbSettings(Settings):
    mode: Literal["offline", "online"] = Field(
        "offline", description="Keep the records on this machine, or send them during the run."
    )
    project: str = Field("agentfw", min_length=1, description="Project that the runs belong to.")


class WandbTracker(Tracker):
    """Writes one Weights & Biases run."""

    def __init__(self, settings: WandbSettings) -> None:
        self.settings = settings
        self._run: Any = None

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        # Read when wandb is imported; it switches off wandb's crash reports.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("the tracker wandb", "track", module=error.name or "") from error
        online = self.settings.mode == "online"
        if online and not wandb.api.api_key:
            raise AgentfwError(
                "the tracker wandb is online but has no API key",
                fix="wandb login, or set WANDB_API_KEY, or set mode to offline",
            )
        self._run = wandb.init(
            project=self.settings.project,
            name=run,
            id=re.sub(r"[^\w.-]", "-", run),
            dir=str(folder),
            mode=self.settings.mode,
            # Offline the existing data is unknown; `wandb sync` joins the parts.
            resume="allow" if online else None,
            reinit="create_new",
            config=dict(settings),
            settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
        )
        # Episodes end in any order, and wandb drops values whose step goes back.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({**metrics, "step": step})

    def finish(self, summary: Mapping[str, float]) -> None:
        self._run.summary.update({f"summary/{name}": value for name, value in summary.items()})
        self._end(0)

    def close(self) -> None:
        self._end(1)

    def _end(self, code: int) -> None:
        """Only the first end counts; a run that is closed before it finished has failed."""
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=code)
