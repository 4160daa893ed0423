"""What a training logs of the machine that it runs on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentfw.runs.execution import system_use

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of this name, first in PATH."""
    program = tmp_path / "nvidia-smi"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def test_memory_is_that_of_this_process(nvidia_smi: Path) -> None:
    nvidia_smi.unlink()
    before = system_use()

    held = b"x" * (64 * 2**20)

    after = system_use()
    assert set(after) == {"memory_mb"}
    assert after["memory_mb"] - before["memory_mb"] == pytest.approx(len(held) / 2**20, abs=8)


def test_each_gpu_has_its_figures(nvidia_smi: Path) -> None:
    nvidia_smi.write_text("#!/bin/sh\necho '0, 1024, 87'\necho '1, 2048, [N/A]'\n")

    figures = system_use()

    del figures["memory_mb"]
    assert figures == {"gpu0_memory_mb": 1024, "gpu0_use_percent": 87, "gpu1_memory_mb": 2048}


def test_a_driver_that_does_not_answer_stops_nothing(nvidia_smi: Path) -> None:
    nvidia_smi.write_text("#!/bin/sh\necho 'Failed to initialize NVML'\nexit 9\n")

    assert set(system_use()) == {"memory_mb"}
