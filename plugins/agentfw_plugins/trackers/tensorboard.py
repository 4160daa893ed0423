"""Writes a run's metrics as TensorBoard event files.

A metric is on disk when `log` returns, so a run can be watched, or killed, at any time. Each start writes a new event
file beside the earlier ones, and TensorBoard shows them as one run.

    agentfw run inbox --tracker tensorboard && tensorboard --logdir runs

It needs only the tensorboard package, not torch or tensorflow.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from agentfw import Settings, Tracker
from agentfw.errors import MissingExtraError

__all__ = ["TensorBoardSettings", "TensorBoardTracker"]


class TensorBoardSettings(Settings):
    folder: str = Field(
        "",
        description="Directory for the event files of all runs, one folder each. Default: the run's folder.",
    )


class TensorBoardTracker(Tracker):
    """Writes event files."""

    def __init__(self, settings: TensorBoardSettings) -> None:
        self.settings = settings
        self._writer: Any = None
        self._last = 0

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise MissingExtraError("the tracker tensorboard", "track", module=error.name or "") from error
        place = Path(self.settings.folder) / run if self.settings.folder else folder / "tensorboard"
        self._writer = EventFileWriter(str(place))
        self._write(0, [_text("settings", f"```json\n{json.dumps(settings, indent=2, ensure_ascii=False)}\n```")])

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._last = max(self._last, step)
        self._write(step, [_scalar(name, value) for name, value in metrics.items()])

    def finish(self, summary: Mapping[str, float]) -> None:
        self._write(self._last, [_scalar(f"summary/{name}", value) for name, value in summary.items()])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step: int, values: list[Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._writer.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=values)))
        self._writer.flush()


def _scalar(name: str, value: float) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary.Value(tag=name, simple_value=float(value))


def _text(name: str, text: str) -> Any:
    """A text summary. TensorBoard's own helper needs tensorflow."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return Summary.Value(tag=name, metadata=metadata, tensor=TensorProto(dtype=DT_STRING, string_val=[text.encode()]))
