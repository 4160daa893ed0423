"""The setting `engine` of a run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ..settings import Settings

__all__ = ["EngineSettings"]


class EngineSettings(Settings):
    """Where remote components live."""

    name: Literal["local", "ray"] = Field(
        "local", description="`local` starts processes on this machine, `ray` actors on a Ray cluster"
    )
    address: str = Field("", description="Address of the Ray cluster. Default: a new one on this machine")
    keys: tuple[str, ...] = Field(
        (),
        description="Names of environment variables, such as OPENAI_API_KEY, that the processes on a cluster are given",
    )
    wait: float = Field(
        0.0, ge=0, description="Seconds to wait until a cluster that grows has room for all processes of a pool"
    )

    @model_validator(mode="after")
    def _only_ray_has_a_cluster(self) -> EngineSettings:
        for key in ("address", "keys", "wait"):
            if getattr(self, key) and self.name != "ray":
                raise ValueError(f"{key} needs name = ray")
        return self
