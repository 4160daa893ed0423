"""The engine that the settings of a run name."""

from __future__ import annotations

from .engine_settings import EngineSettings
from .interface import Engine
from .local import LocalEngine

__all__ = ["make_engine"]


def make_engine(settings: EngineSettings) -> Engine:
    """The engine of a run."""
    if settings.name == "local":
        return LocalEngine()
    from .ray_engine import RayEngine

    return RayEngine(settings)
