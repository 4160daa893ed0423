"""Every code block of the READMEs and of each docs/ runs as it stands, page by page, each in a folder of its own.

Blocks of one page share the folder and, if they are Python, their names. A block with a title is written to the file of
that name, and a pyproject.toml also becomes the metadata that `pip install -e .` would leave. tests/docs/files/PAGE/
holds files that a reader brings along. A block that can't run here says why in a comment above it, see snippets.py. The
report lists those.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from .snippets import BESIDE, PAGES, ROOT, Snippet, snippets

FILES = Path(__file__).parent / "files"
ALL = [snippet for page in PAGES for snippet in snippets(page)]
LANGUAGES = {"python", "sh", "console", "toml", "yaml", "json"}
COMMAND = re.compile(r"^\$ (.*(?:\\\n.*)*)$", re.M)


def name(page: Path) -> str:
    """Such as guides/timeline, or plugins/papers/docs/guides/merchant."""
    return page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


def runs_commands(page: Path) -> bool:
    return any(one.language in ("sh", "console") and not one.not_run for one in snippets(page))


FIRST = {"README"}
"""The commands of the other pages are run at night: what they call is tested without its page, too."""


def marks(page: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.nightly] if runs_commands(page) and name(page) not in FIRST else []


CASES = [pytest.param(page, id=name(page), marks=marks(page)) for page in PAGES if snippets(page)]


@pytest.mark.parametrize("page", CASES)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, folder in BESIDE.items():
        if folder in page.parents:
            pytest.importorskip(package)
    if (FILES / name(page)).is_dir():
        shutil.copytree(FILES / name(page), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, object] = {"__name__": name(page)}

    for snippet in snippets(page):
        for module in snippet.needs:
            pytest.importorskip(module)
        if not snippet.not_run:
            run(snippet, names)


@pytest.mark.parametrize("snippet", [one for one in ALL if one.not_run], ids=lambda one: one.where)
def test_a_block_that_is_not_run_says_why(snippet: Snippet) -> None:
    assert len(snippet.not_run.split()) >= 2

    pytest.skip(f"{snippet.where}: {snippet.not_run}")


def test_every_block_says_its_language() -> None:
    assert [one.where for one in ALL if one.language not in LANGUAGES] == []


def test_code_is_never_just_indented() -> None:
    """Such a block would not be run."""
    indented = re.compile(r"(?:\A|[^-*\d\s][^\n]*\n)\n {4}(?:agentfw|pip|python|\$) ", re.M)

    assert [str(page) for page in PAGES if indented.search(page.read_text("utf-8"))] == []


def run(snippet: Snippet, names: dict[str, object]) -> None:
    """Raises, or fails, where the block doesn't do what the page says."""
    if snippet.title:
        Path(snippet.title).parent.mkdir(parents=True, exist_ok=True)
        Path(snippet.title).write_text(snippet.code, encoding="utf-8")
        compile(snippet.code, snippet.title, "exec") if snippet.language == "python" else None
        if snippet.title == "pyproject.toml":
            install(tomllib.loads(snippet.code)["project"])
    elif snippet.language == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * snippet.line + snippet.code, str(ROOT / snippet.page), "exec"), names)
        assert snippet.output in (None, printed.getvalue()), snippet.where
    elif snippet.language == "sh":
        printed_by(snippet.code, snippet)
    elif snippet.language == "console":
        _, *parts = COMMAND.split(snippet.code)
        for command, expected in zip(parts[::2], parts[1::2], strict=True):
            shows(printed_by(command, snippet), expected.splitlines(), snippet)
    elif snippet.language == "toml":
        check_toml(snippet.code)
    elif snippet.language == "yaml":
        yaml.safe_load(snippet.code)
    else:
        json.loads(snippet.code)


def install(project: dict[str, Any]) -> None:
    """Write the metadata of an installed package, beside which its modules are found by PYTHONPATH."""
    folder = Path(f"{project['name'].replace('-', '_')}-{project['version']}.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    with (folder / "entry_points.txt").open("w") as file:
        for group, entries in project["entry-points"].items():
            file.writelines([f"[{group}]\n", *(f"{name} = {value}\n" for name, value in entries.items())])


def printed_by(command: str, snippet: Snippet) -> str:
    """What a command prints to stdout and stderr; it must end with 0."""
    home = {name: str(Path.cwd() / "home") for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env={**os.environ, **home, "PATH": path, "PYTHONPATH": str(Path.cwd()), "COLUMNS": "100", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{snippet.where}: {command}\n{done.stdout}"
    return done.stdout


def shows(printed: str, expected: list[str], snippet: Snippet) -> None:
    """Each line of the page stands in the output, in that order; a line of dots stands for anything."""
    lines = iter(line.rstrip() for line in printed.splitlines())
    for line in filter(None, (line.rstrip() for line in expected)):
        assert line.strip() == "..." or line in lines, f"{snippet.where}: {line!r} is not in\n{printed}"


def check_toml(text: str) -> None:
    """A whole spec is parsed as one; a part of one must be TOML."""
    from agentfw.runs.spec.run_spec import parse_spec

    table = tomllib.loads(text)
    if "environment" in table and "policy" in table:
        parse_spec(table)
