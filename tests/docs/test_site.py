"""The site builds with broken links as errors, and whatever speaks of a page names one that is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import ROOT

LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
MENTION = re.compile(r"\bdocs/[a-z/-]+\.md\b")
SOURCES = ["framework", "plugins", "memory", "rewardmodels", "cli", "model_making", "docs_making", "tests"]

FOR_PLUGINS = [
    "Environment.begin",
    "Environment.columns",
    "Environment.demonstrate",
    "Environment.headline",
    "Environment.lower_is_better",
    "Generation.logprobs",
    "Generation.version",
    "Policy.logprobs",
    "Policy.publish",
    "errors.InterventionRefused",
    "errors.MissingExtraError",
]
"""What the author of a plugin has to find in the reference."""


@pytest.mark.slow
def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]

    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "reference" / "python" / "index.html").read_text("utf-8")
    missing = [name for name in FOR_PLUGINS if f'id="agentfw.{name}"' not in reference]
    assert missing == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_the_links_of_a_page_beside_the_code_lead_somewhere(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text("utf-8")) if not (ROOT / link).exists()]

    assert broken == []


def test_the_code_names_pages_that_are_there() -> None:
    files = [
        path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".toml")
    ]

    missing = {
        f"{path.relative_to(ROOT)}: {page}"
        for path in files
        for page in MENTION.findall(path.read_text("utf-8"))
        if not (ROOT / page).exists()
    }

    assert missing == set()
