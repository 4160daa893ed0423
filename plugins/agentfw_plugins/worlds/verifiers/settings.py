"""Settings of the environment `verifiers`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from agentfw import Settings

__all__ = ["VerifiersSettings"]


class VerifiersSettings(Settings):
    id: str = Field(min_length=1, description="Id of the taskset: an installed package for the library verifiers.")
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="Further settings of the library's environment, as in its [env] table: `taskset`, `agent`, `id`. "
        "{split} in a text stands for train, validation or test. Without it, the splits share the tasks.",
    )
    timeout: float = Field(600.0, gt=0, description="Seconds after which an episode is ended.")
