"""Each news fragment is one line that towncrier finds, and the changelog has the place for them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from .snippets import ROOT

FRAGMENTS = [path for path in sorted((ROOT / "news").iterdir()) if path.name != "README.md"]
CONFIGURED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
def test_a_fragment_is_one_line_of_a_known_type(path: Path) -> None:
    types = "|".join(each["directory"] for each in CONFIGURED["type"])

    assert re.fullmatch(rf"\+[a-z-]+\.({types})\.md", path.name)
    assert re.fullmatch(r"\S[^\n]{10,250}\.\n", path.read_text("utf-8"))


def test_towncrier_finds_its_place_in_the_changelog() -> None:
    assert "<!-- towncrier release notes start -->\n" in (ROOT / CONFIGURED["filename"]).read_text("utf-8")
