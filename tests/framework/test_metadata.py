"""The scan of installed entry points: sorted, quiet about what isn't ours, and not stopped by a broken file."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.boundary.metadata import EntryPoint, entry_points, scan, version_of

GROUP = "agentfw.samples"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """install("Notes-1.0", "[group]...", folder="one"): a distribution below a folder on the path."""

    def put(stem: str, content: str | bytes | None, *, folder: str = "site") -> None:
        place = tmp_path / folder
        dist_info = place / f"{stem}.dist-info"
        dist_info.mkdir(parents=True)
        name, _, version = stem.rpartition("-")
        (dist_info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        if content is not None:
            (dist_info / "entry_points.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
        monkeypatch.syspath_prepend(str(place))
        importlib.invalidate_caches()

    return put


def test_reads_the_wanted_group_only(install: Install) -> None:
    text = f"# hello\n[console_scripts]\nnotes = notes.cli:main\n\n[{GROUP}]\nnotes = notes.plugin\nmore=notes.it:it\n"
    install("Agentfw_Notes-1.2.0", text)

    assert entry_points(GROUP) == [
        EntryPoint("more", "notes.it:it", "agentfw-notes", "1.2.0", group=GROUP),
        EntryPoint("notes", "notes.plugin", "agentfw-notes", "1.2.0", group=GROUP),
    ]


def test_sorted_by_distribution_and_name_whatever_the_order_on_disk(install: Install) -> None:
    install("zebra-1.0", f"[{GROUP}]\nb = zebra\na = zebra\n", folder="one")
    install("ant-1.0", f"[{GROUP}]\nz = ant\n", folder="two")

    found = [(entry.distribution, entry.name) for entry in entry_points(GROUP)]

    assert found == [("ant", "z"), ("zebra", "a"), ("zebra", "b")]


def test_the_first_of_two_equal_distributions_wins_even_without_entry_points(install: Install) -> None:
    install("agentfw-notes-1.0", f"[{GROUP}]\nnotes = notes\n", folder="second")
    install("agentfw_notes-2.0", None, folder="first")

    assert entry_points(GROUP) == []
    assert version_of("agentfw-notes") == "2.0"


def test_an_unrelated_distribution_that_is_broken_is_not_ours(install: Install) -> None:
    install("foreign-1.0", b"[console_scripts]\ncaf\xe9 = nonsense\n", folder="one")
    install("nonsense-1.0", "[console_scripts]\nnonsense\n", folder="two")
    install("whole-1.0", f"[{GROUP}]\nwhole = whole\n", folder="three")

    result = scan(GROUP)

    assert [found.name for found in result.entry_points] == ["whole"]
    assert result.problems == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(f"[{GROUP}]\nnotes\n", "is malformed"), (f"[{GROUP}]\nnotes = ".encode() + b"\xff\xfe\n", "is not UTF-8 text")],
)
def test_a_plugin_whose_file_is_broken_is_reported_and_the_others_are_read(
    install: Install, content: str | bytes, complaint: str
) -> None:
    install("Broken-1.0", content, folder="one")
    install("whole-1.0", f"[{GROUP}]\nwhole = whole\n", folder="two")

    result = scan(GROUP)

    assert [found.name for found in result.entry_points] == ["whole"]
    (problem,) = result.problems
    assert (problem.distribution, problem.version) == ("broken", "1.0")
    assert complaint in problem.text
