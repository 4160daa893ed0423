"""Settings of components: pydantic models, and what their fields say about themselves.

    class NotebookSettings(Settings):
        limit: int = 10      # how many notes are kept; ten fit the prompt

`agentfw.boundary.settings_input` validates what a person has written against such a model, and reads these marks.

A setting that can't change results, such as the address of a server, is marked `OPERATIONAL`. It may have another value
when a run is resumed:

    base_url: Annotated[str, OPERATIONAL] = Field("", description="Address of the server.")
    workers: Annotated[int, Operational(unless=lambda settings: settings.approximate)] = Field(1)

A policy and the learner that trains it mark what they have in common, such as the model, as `SHARED`: given to one of
them, it holds for both. The setting with which a policy answers with what a learner made is marked as `VERSION`.

    model: Annotated[str, SHARED] = Field("tiny", description="Folder of the model.")

A setting of type `SecretStr` may be given as `{ env = "NAME" }`: its value is read from that environment variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["OPERATIONAL", "SHARED", "VERSION", "Operational", "Settings"]


@dataclass(frozen=True, slots=True)
class Operational:
    """Marks a setting that can't change what a run has done or will do, so a resumed run may have another value."""

    unless: Callable[[Any], bool] | None = None
    """Says of validated settings that this one does change results beside the others."""
    grows: bool = False
    """Whether the value may only become larger, because the run has done so much already."""


OPERATIONAL = Operational()
"""Marks a setting that can't change results: `Annotated[float, OPERATIONAL]`."""


class _Mark:
    """Tells something about a setting that is the same for all settings marked with it."""


SHARED = _Mark()
"""Marks a setting that a policy and its learner have in common, by one name: it need be given to one of them only."""
VERSION = _Mark()
"""Marks the setting of a policy that takes the path of a version, as `publish` does."""


class Settings(BaseModel):
    """The base of every settings model: unknown keys are errors, and nobody changes settings while a run uses them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
