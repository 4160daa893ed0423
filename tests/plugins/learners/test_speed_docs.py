"""docs/training-speed.md: its example runs as it stands, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "training-speed.md"


def test_the_example_runs_and_prints_what_the_page_says() -> None:
    ((code, expected),) = re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```\n", PAGE.read_text("utf-8"), re.S | re.M
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(PAGE), "exec"), {})

    assert printed.getvalue() == expected
