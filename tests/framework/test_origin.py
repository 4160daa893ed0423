"""A record says what exactly took part: versions, commits, the content of files, and versions of dependencies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw.runs.records.package import changed_origins, digest_of_files, origin_of, place_of


def origin(*, anew: bool = False) -> Any:
    """What is recorded of the plugin acme-notes, in this process or in the next one."""
    if anew:
        origin_of.cache_clear()
        digest_of_files.cache_clear()
    return origin_of("acme-notes", place_of("acme-notes"))


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The sources of an editable plugin, in a repository."""
    tree, site = tmp_path / "notes", tmp_path / "site"
    (tree / "acme_notes").mkdir(parents=True)
    (tree / "acme_notes" / "__init__.py").write_text("ONE = 1\n", "utf-8")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "-C", str(tree), *who, *words], check=True)
    metadata = site / "acme_notes-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    requires = 'Requires-Dist: httpx>=0.20\nRequires-Dist: acme-absent; extra == "more"\n'
    (metadata / "METADATA").write_text(f"Name: acme-notes\nVersion: 0.1.0\n{requires}", "utf-8")
    (metadata / "entry_points.txt").write_text("[agentfw]\nnotes = acme_notes\n", "utf-8")
    (metadata / "direct_url.json").write_text(
        json.dumps({"url": tree.as_uri(), "dir_info": {"editable": True}}), "utf-8"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.syspath_prepend(str(tree))
    yield tree
    origin(anew=True)
    sys.modules.pop("acme_notes", None)


def test_an_editable_plugin_has_its_commit_and_the_content_of_its_files(notes: Path) -> None:
    head = subprocess.run(["git", "-C", str(notes), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)

    before = origin(anew=True)
    (notes / "acme_notes" / "__init__.py").write_text("ONE = 2\n", "utf-8")
    still, after = origin(), origin(anew=True)

    assert (before["version"], before["source"]) == ("0.1.0", str(notes))
    assert (before["commit"], before["changed"]) == (head.stdout.strip(), False)
    assert before["requires"] == {"httpx": httpx.__version__}
    assert still == before, "what was imported stays as it was"
    assert (after["version"], after["changed"]) == ("0.1.0", True)
    (line,) = changed_origins({"acme-notes": before}, {"acme-notes": after}, "in a", "in b")
    commit = before["commit"][:10]
    assert line == f"acme-notes has other files in a ({commit}) than in b ({commit}, changed), in one version"


def test_dependencies_that_differ_are_told() -> None:
    one = {"acme": {"version": "1", "files": "x", "requires": {"httpx": "0.27", "numpy": "2.0"}}}
    other = {"acme": {"version": "1", "files": "x", "requires": {"httpx": "0.28", "rich": "14"}}}

    told = changed_origins(one, other, "then", "now")

    assert told == ["httpx, which acme needs, was 0.27 then and is 0.28 now"], "of the others one had imported no code"
    assert changed_origins(one, one, "then", "now") == []
    assert changed_origins(one, {}, "then", "now") == []
    assert origin_of("acme-absent", place_of("acme-absent")) == {"version": ""}, "what isn't installed is no error"
