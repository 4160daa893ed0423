"""All sites build with broken links as errors, and whatever speaks of a page names one that is there.

The workflow builds the sites with each change; here they are built at night.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from .snippets import BESIDE, PAGES, ROOT

LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#([^)\s]+))?\)")
ON_GITHUB = re.compile(r"https://github\.com/agentfw/agentfw/(?:blob|tree)/main/([\w./-]*[\w/-])(?:#([\w-]+))?")
MENTION = re.compile(r"(?<![\w/])(?:plugins/\w+/)?docs/[a-z/-]+\.md\b")
PROGRAM = re.compile(r"(?<![\w/])(?:plugins/\w+/)?(?:benchmarks|model_making|docs_making)/[a-z]\w+\.py\b")
HEADING = re.compile(r"^#{1,6} (.+)$", re.M)
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)
FOLDERS = [
    *["framework", "plugins", "memory", "rewardmodels", "cli"],
    *["benchmarks", "model_making", "docs", "docs_making", "news", "tests"],
]
PACKAGES = [
    *["framework/agentfw", "plugins/agentfw_plugins", "plugins/papers/agentfw_papers"],
    *["plugins/calendar/agentfw_calendar", "memory", "rewardmodels", "cli"],
]

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


@pytest.mark.nightly
@pytest.mark.parametrize("folder", [ROOT, *BESIDE.values()], ids=["agentfw", *BESIDE])
def test_a_site_builds_without_a_broken_link(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]

    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    home = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert 'data-md-component="source"' not in home, "with it, a browser asks api.github.com"
    if folder == ROOT:
        reference = (tmp_path / "site" / "reference" / "python" / "index.html").read_text("utf-8")
        missing = [name for name in FOR_PLUGINS if f'id="agentfw.{name}"' not in reference]
        assert missing == []


def test_all_sites_have_one_stylesheet() -> None:
    """mkdocs can't take it from outside of the pages' folder."""
    sheets = {(folder / "docs" / "site.css").read_text("utf-8") for folder in (ROOT, *BESIDE.values())}

    assert len(sheets) == 1


def test_the_links_between_pages_lead_somewhere() -> None:
    """The reference and the table of the papers are written when the site is built."""
    beside = [folder / "benchmarks" / "README.md" for folder in (ROOT, *BESIDE.values())]
    broken = {
        f"{page.relative_to(ROOT)}: {link}#{anchor}"
        for page in {*PAGES, *ROOT.glob("*.md"), *beside}
        for link, anchor in LINK.findall(FENCED.sub("", page.read_text("utf-8")))
        if not leads_somewhere(page.parent / link, anchor)
        and not ("docs" in page.parts and is_written_later(page.parent / link))
    }

    assert broken == set()


def is_written_later(page: Path) -> bool:
    return not page.exists() and ("reference" in page.parts or page.name == "papers.md")


def test_the_code_names_pages_that_are_there_and_links_to_the_repository_lead_somewhere() -> None:
    """From the root of the repository, from that of the distribution of a file, or from one site to the other."""
    wrong = set()
    for path in texts():
        text = path.read_text("utf-8")
        roots = [ROOT, *(folder for folder in BESIDE.values() if folder in path.parents)]
        named = [page for page in MENTION.findall(text) if not any((root / page).exists() for root in roots)]
        broken = [
            f"{link}#{anchor}" for link, anchor in ON_GITHUB.findall(text) if not leads_somewhere(ROOT / link, anchor)
        ]
        wrong |= {f"{path.relative_to(ROOT)}: {each}" for each in named + broken}

    assert wrong == set()


def test_what_an_installed_user_reads_names_a_page_by_its_address() -> None:
    told = {
        f"{path.relative_to(ROOT)}: {page}"
        for folder in PACKAGES
        for path in (ROOT / folder).rglob("*.py")
        if MENTION.search(text := path.read_text("utf-8"))
        for page in MENTION.findall(_told(ast.parse(text)))
    }

    assert told == set()


def _told(module: ast.Module) -> str:
    """The texts of a module, without docstrings and what becomes an address."""
    left_out = set[ast.AST]()
    for node in ast.walk(module):
        if isinstance(node, ast.Expr):
            left_out.add(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "docs_page":
            left_out.update(node.args)
    texts = (node for node in ast.walk(module) if isinstance(node, ast.Constant) and node not in left_out)
    return "\n".join(text.value for text in texts if isinstance(text.value, str))


def test_the_pages_name_programs_that_are_there() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {program}"
        for path in PAGES
        for program in PROGRAM.findall(path.read_text("utf-8"))
        if not (ROOT / program).exists()
    }

    assert missing == set()


def test_an_anchor_is_that_of_github() -> None:
    assert anchor_of("How long `to` think?") == "how-long-to-think"
    assert anchor_of("[Data](data.md) of a turn - and more") == "data-of-a-turn---and-more"


def texts() -> Iterator[Path]:
    """Every file that might speak of a page as it is today."""
    yield from (path for path in ROOT.iterdir() if path.suffix in (".md", ".toml", ".yml"))
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".toml", ".yml", ".yaml", ".html") and path != Path(__file__):
                yield path


def leads_somewhere(path: Path, anchor: str) -> bool:
    return path.exists() and (not anchor or anchor in anchors(path))


@cache
def anchors(page: Path) -> set[str]:
    return {anchor_of(heading) for heading in HEADING.findall(FENCED.sub("", page.read_text("utf-8")))}


def anchor_of(heading: str) -> str:
    """As GitHub makes it."""
    words = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
