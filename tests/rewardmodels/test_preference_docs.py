"""docs/preference-model.md: every python block runs as it stands, and prints what the text block after it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "preference-model.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)


def test_the_examples_run_and_print_what_the_page_says() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) >= 2
    names: dict[str, object] = {"__name__": "preference_page"}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)
        assert printed.getvalue() == expected
