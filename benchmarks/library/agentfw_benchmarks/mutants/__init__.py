"""Small faults, planted one at a time, as a measure of how much the tests notice."""

from __future__ import annotations

from .faults import AREAS, Area, Fault, Planted, Sources, UnfitFaultError, plant, read_areas
from .measuring import Copy, Outcome, measure_fault

__all__ = [
    "AREAS",
    "Area",
    "Copy",
    "Fault",
    "Outcome",
    "Planted",
    "Sources",
    "UnfitFaultError",
    "measure_fault",
    "plant",
    "read_areas",
]
