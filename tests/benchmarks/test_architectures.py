"""The table of architectures in the documentation is what the program finds."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.nightly

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

PAGE = Path(__file__).parents[2] / "docs" / "results" / "architectures.md"
QUICK = ["Gemma 2", "gpt-oss"]
architectures: Any = importlib.import_module("architectures")


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each row. Differences are only told from errors, because processors round differently."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {name: ["small" if small(cell) else cell for cell in cells] for name, *cells in lines[2:]}


def small(cell: str) -> bool:
    return re.fullmatch(r"\de[-+]\d\d", cell) is not None and float(cell) <= 1e-4


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in architectures.ARCHITECTURES],
)
def test_a_row_is_as_documented(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = architectures.main(["--only", name, "--json"])
    printed = capsys.readouterr().out
    assert json.loads(printed[printed.index("{") :]) == result
    architectures.show(result)

    found, documented = rows(capsys.readouterr().out), rows(PAGE.read_text("utf-8"))

    assert found[name] == documented[name]
    assert "small" in found[name]


def test_every_architecture_is_in_the_documentation() -> None:
    assert list(rows(PAGE.read_text("utf-8"))) == list(architectures.ARCHITECTURES)
