"""A domain of one file, for all tests of the proactive world."""

from __future__ import annotations

from pathlib import Path

import pytest

BAKERY = """
name: bakery
version: "1"
slots:
  cake: {values: [apple, plum]}
  day: {pattern: "(Sun|Mon)day"}
actions:
  look-up-customer: {}
  order-cake: {parameters: [cake, day], required: [cake, day]}
  cancel-order: {}
workflows:
  birthday: [look-up-customer, order-cake]
  cancelling: [look-up-customer, cancel-order]
phrases:
  openings:
    birthday: [I want a cake for a birthday, a birthday needs a cake now, b b b b, c c c c, d d d d, e e e e]
    cancelling: [please cancel what I ordered, f f f f, g g g g, h h h h, i i i i, j j j j]
  entries: {look-up-customer: "The customer was looked up"}
"""


@pytest.fixture
def bakery(tmp_path: Path) -> Path:
    """The folder of the domain."""
    folder = tmp_path / "bakery"
    folder.mkdir()
    (folder / "domain.yaml").write_text(BAKERY, "utf-8")
    return folder
