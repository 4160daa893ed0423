"""Lets the tests of these packages run here without being installed, as in their authors' own checkouts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(package.parent) for package in Path(__file__).parent.glob("*/pyproject.toml")]
