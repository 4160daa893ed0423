"""Where the programs find what is not installed: the repository, its test data, and the laboratory's plugin."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
BENCHMARKS = ROOT / "benchmarks"
TESTS = ROOT / "tests"
SITE = TESTS / "site"
"""Where the plugin `agentfw-laboratory` is installed, as it were: a package and its dist-info."""
