"""Small faults, planted one at a time, as a measure of how much the tests notice."""

from __future__ import annotations

from .faults import AREAS, Area, Fault, Planted, Sources, UnfitFaultError, plant, read_areas
from .measuring import PACKAGES, Copy, Outcome, measure_fault
from .traces import Traces, record_traces

__all__ = [
    "AREAS",
    "PACKAGES",
    "Area",
    "Copy",
    "Fault",
    "Outcome",
    "Planted",
    "Sources",
    "Traces",
    "UnfitFaultError",
    "measure_fault",
    "plant",
    "read_areas",
    "record_traces",
]
