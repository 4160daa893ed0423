"""The setting `engine` of a run, and the engine that it names."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ..settings import Settings
from .interface import Engine
from .local import LocalEngine

__all__ = ["EngineSettings", "make_engine"]


class EngineSettings(Settings):
    """Where remote components live."""

    name: Literal["local", "ray"] = Field(
        "local", description="`local` starts processes on this machine, `ray` actors on a Ray cluster"
    )
    address: str = Field("", description="Address of the Ray cluster. Default: a new one on this machine")

    @model_validator(mode="after")
    def _only_ray_has_an_address(self) -> EngineSettings:
        if self.address and self.name != "ray":
            raise ValueError("address needs name = ray")
        return self


def make_engine(settings: EngineSettings) -> Engine:
    """The engine of a run."""
    if settings.name == "local":
        return LocalEngine()
    from .ray_engine import RayEngine

    return RayEngine(settings.address)
