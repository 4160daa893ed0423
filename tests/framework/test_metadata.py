"""The scan of installed entry points: right, quiet about what it skips, and never importing anything."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentfw.metadata import EntryPoint, entry_points, normalise, scan


def install(folder: Path, stem: str, content: str | bytes | None) -> Path:
    dist_info = folder / f"{stem}.dist-info"
    dist_info.mkdir(parents=True)
    if content is not None:
        (dist_info / "entry_points.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    return dist_info


def test_reads_the_wanted_group_only(tmp_path: Path) -> None:
    text = "# hello\n[console_scripts]\nnotes = notes.cli:main\n\n[agentfw]\nnotes = notes.plugin\nmore=notes.more:it\n"
    location = install(tmp_path, "Agentfw_Notes-1.2.0", text)

    found = entry_points("agentfw", [str(tmp_path)])

    assert found == [
        EntryPoint("more", "notes.more:it", "agentfw", "agentfw-notes", "1.2.0", str(location)),
        EntryPoint("notes", "notes.plugin", "agentfw", "agentfw-notes", "1.2.0", str(location)),
    ]


def test_a_group_is_not_taken_for_one_whose_name_it_begins(tmp_path: Path) -> None:
    install(tmp_path, "notes-1.0", "[agentfw.commands]\nnotes = notes.cli:main\n")

    assert entry_points("agentfw", [str(tmp_path)]) == []
    assert [found.name for found in entry_points("agentfw.commands", [str(tmp_path)])] == ["notes"]


def test_sorted_by_distribution_and_name_whatever_the_order_on_disk(tmp_path: Path) -> None:
    install(tmp_path / "one", "zebra-1.0", "[agentfw]\nb = zebra\na = zebra\n")
    install(tmp_path / "two", "ant-1.0", "[agentfw]\nz = ant\n")

    found = entry_points("agentfw", [str(tmp_path / "one"), str(tmp_path / "two")])

    assert [(entry.distribution, entry.name) for entry in found] == [("ant", "z"), ("zebra", "a"), ("zebra", "b")]


def test_the_first_of_two_equal_distributions_wins_even_without_entry_points(tmp_path: Path) -> None:
    install(tmp_path / "first", "agentfw_notes-2.0", None)
    install(tmp_path / "second", "agentfw-notes-1.0", "[agentfw]\nnotes = notes\n")

    result = scan("agentfw", [str(tmp_path / "first"), str(tmp_path / "second")])

    assert result.entry_points == []
    assert result.distributions == {"agentfw-notes": "2.0"}


def test_what_pip_was_about_to_delete_is_not_installed(tmp_path: Path) -> None:
    install(tmp_path, "~gentfw_notes-1.0", "[agentfw]\nnotes = notes\n")

    assert entry_points("agentfw", [str(tmp_path)]) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[agentfw]\nnotes\n", "line 2: 'notes' isn't of the form"),
        ("[agentfw]\nnotes =\n", "line 2"),
        ("[agentfw\nnotes = notes\n", "line 1: the bracket of '[agentfw' isn't closed"),
        ("notes = agentfw_notes\n[agentfw]\n", "line 1"),
        ("[agentfw]\nnotes = one\nnotes = two\n", "'notes' is defined twice"),
        (b"[agentfw]\nnotes = \xff\xfe\n", "isn't UTF-8"),
    ],
)
def test_a_malformed_file_is_reported_and_the_others_are_read(
    tmp_path: Path, content: str | bytes, complaint: str
) -> None:
    broken = install(tmp_path, "broken-1.0", content)
    install(tmp_path, "whole-1.0", "[agentfw]\nwhole = whole\n")

    result = scan("agentfw", [str(tmp_path)])

    assert [found.name for found in result.entry_points] == ["whole"]
    (problem,) = result.problems
    assert (problem.distribution, problem.version, problem.location) == ("broken", "1.0", str(broken))
    assert complaint in problem.text


def test_a_file_that_is_no_file_is_reported(tmp_path: Path) -> None:
    (install(tmp_path, "broken-1.0", None) / "entry_points.txt").mkdir()

    (problem,) = scan("agentfw", [str(tmp_path)]).problems

    assert problem.distribution == "broken"


def test_mistakes_in_other_groups_are_not_ours(tmp_path: Path) -> None:
    install(tmp_path, "foreign-1.0", "[console_scripts]\nnonsense\n")
    install(tmp_path, "both-1.0", "[console_scripts]\nnonsense\n[agentfw]\nboth = both\n")

    result = scan("agentfw", [str(tmp_path)])

    assert result.problems == []
    assert [found.name for found in result.entry_points] == ["both"]


def test_paths_that_are_missing_or_zip_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "library.zip").write_bytes(b"PK")

    assert entry_points("agentfw", [str(tmp_path / "gone"), str(tmp_path / "library.zip"), str(tmp_path)]) == []


def test_the_current_folder_is_scanned_where_the_path_has_an_empty_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "here-1.0", "[agentfw]\nhere = here\n")
    monkeypatch.chdir(tmp_path)

    assert [found.name for found in entry_points("agentfw", [""])] == ["here"]


def test_load_walks_to_the_object() -> None:
    def entry(value: str) -> EntryPoint:
        return EntryPoint("x", value, "agentfw", "x", "1.0", "")

    assert entry("json").load() is json
    assert entry("os:path.join").load() is os.path.join
    assert entry("json:dumps [extra]").load() is json.dumps
    with pytest.raises(ImportError):
        entry("no_such_module_at_all").load()
    with pytest.raises(AttributeError):
        entry("json:no_such_name").load()


@pytest.mark.parametrize("group", ["console_scripts", "pytest11", "agentfw"])
def test_agrees_with_importlib_metadata_about_this_environment(group: str) -> None:
    expected = {
        (normalise(found.dist.name), found.name, found.value)
        for found in importlib.metadata.entry_points(group=group)
        # egg-info folders have no METADATA; this scan leaves them out on purpose.
        if found.dist is not None and found.dist.read_text("METADATA") is not None
    }

    assert {(found.distribution, found.name, found.value) for found in entry_points(group)} == expected


def test_scanning_imports_nothing_heavy() -> None:
    code = (
        "import sys; from agentfw.metadata import entry_points; entry_points('agentfw.commands');"
        "print([m for m in ('importlib.metadata', 'email', 'zipfile', 'pydantic', 'rich', 'pluggy', 'dataclasses')"
        " if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
