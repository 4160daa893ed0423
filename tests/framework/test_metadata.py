"""The scan of installed entry points: sorted, and of the wanted group only."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.boundary.metadata import EntryPoint, entry_points, version_of

GROUP = "agentfw.samples"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """install("Notes-1.0", "[group]...", folder="one"): a distribution below a folder on the path."""

    def put(stem: str, content: str | None, *, folder: str = "site") -> None:
        place = tmp_path / folder
        dist_info = place / f"{stem}.dist-info"
        dist_info.mkdir(parents=True)
        name, _, version = stem.rpartition("-")
        (dist_info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        if content is not None:
            (dist_info / "entry_points.txt").write_text(content)
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
    install("agentfw_notes-1.0", f"[{GROUP}]\nnotes = notes\n", folder="second")
    install("agentfw_notes-2.0", None, folder="first")

    assert entry_points(GROUP) == []
    assert version_of("agentfw-notes") == "2.0"
