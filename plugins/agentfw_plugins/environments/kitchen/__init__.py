"""Tutoring with cooking: signals from the stove while a pupil is being taught, on one clock."""

from .settings import KitchenSettings
from .world import Kitchen

__all__ = ["Kitchen", "KitchenSettings"]
