"""The guide to proactive metrics: its files and examples work in a Python without torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "proactive-metrics.md").read_text("utf-8")
FILE = re.compile(r'^```\w+ title="(\S+)"\n(.*?)^```\n', re.S | re.M)
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```\n", re.S | re.M)
WITHOUT_TORCH = """
import sys
for name in ("torch", "transformers"):
    sys.modules[name] = None  # importing it is an error
"""


@pytest.mark.slow
def test_the_examples_run_without_torch_and_print_what_the_page_says(tmp_path: Path) -> None:
    files, examples = FILE.findall(PAGE), EXAMPLE.findall(PAGE)
    for name, content in files:
        (tmp_path / name).write_text(content, "utf-8")
    program = WITHOUT_TORCH + "print('---')\n".join(code for code, _ in examples)

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert [name for name, _ in files] == ["predictions.jsonl", "annotations.jsonl", "domain.yaml"]
    assert len(examples) == PAGE.count("```python") == 4
    assert done.stdout.split("---\n") == [printed for _, printed in examples]
