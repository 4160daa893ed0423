"""The planted faults fit the sources as they are, and the program says truly which of them are noticed."""

from __future__ import annotations

import pytest

from agentfw_benchmarks import ROOT
from agentfw_benchmarks.mutants import Fault, Sources, plant, read_areas

EVERY = [fault for area in read_areas() for fault in area.faults]


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources(ROOT)


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name)
def test_a_planted_fault_fits_once(fault: Fault, sources: Sources) -> None:
    planted = plant(fault, sources)

    assert planted.text != sources.texts[planted.path]
