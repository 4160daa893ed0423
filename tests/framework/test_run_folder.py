"""A run folder tells what it is, what took part in it, and what is wrong with it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw.errors import RunFolderError, StorageError, UnknownNameError
from agentfw.runs.records.folder import FORMAT, RunFolder, find_run, list_runs
from agentfw.runs.records.package import changed_origins, digest_of_files, lock_of, origin_of, place_of

fcntl = pytest.importorskip("fcntl", reason="Windows locks in another way")

ABOUT: dict[str, Any] = {
    "headline": "error",
    "episodes": 4,
    "updates": 0,
    "spec": {
        "environment": {"name": "guessing"},
        "policy": {"name": "hashing"},
        "memories": [],
        "interface": "event_driven",
    },
}


def make(root: Path, environment: str = "guessing") -> RunFolder:
    return RunFolder.create(root, environment, ABOUT)


def change(folder: RunFolder, **values: Any) -> None:
    file = folder.path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_folder_that_is_no_run_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for name, fix in {
        "letters.txt": "pass the folder of a run",
        "run.json.1.new": "remove it, nothing is lost",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text('{"form')

        with pytest.raises(RunFolderError, match="it has no run") as caught:
            RunFolder.open(tmp_path / name)

        assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"format": 1}, "is in format 1; this version of agentfw reads and writes format 3"),
        ({"format": "old"}, "is in format old"),
        ({"spec": {}}, "'interface' is missing"),
        ({"episodes": None}, "can't be read"),
        ({"spec": {**ABOUT["spec"], "memories": None}}, "can't be read"),
    ],
)
def test_a_run_json_of_another_kind_is_refused(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    folder = make(tmp_path)
    change(folder, **changed)

    with pytest.raises(RunFolderError, match=re.escape(words)) as caught:
        RunFolder.open(folder.path)

    assert caught.value.fix


def test_only_a_folder_of_a_newer_format_is_told_to_upgrade(tmp_path: Path) -> None:
    folder, fixes = make(tmp_path), list[str]()
    for found in (FORMAT + 1, FORMAT - 1):
        change(folder, format=found)
        with pytest.raises(RunFolderError, match=f"is in format {found}") as caught:
            RunFolder.open(folder.path)
        fixes.append(caught.value.fix)

    assert fixes == ["pip install --upgrade agentfw", "open it with the version that made it, or run its spec again"]


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder whose contents this process may read and not change: it gives up root where it is root."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        os.seteuid(user)
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_a_folder_that_nobody_may_write_to_can_be_looked_at(nobody: Path) -> None:
    folder = make(nobody)
    (folder.path / "run.json").chmod(0o644)  # its owner lets others read it
    folder.path.chmod(0o555)
    nobody.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)

    assert [each.state for each in list_runs(nobody)] == ["interrupted"]
    with pytest.raises(StorageError, match="Permission denied"):
        folder.lock()
    with pytest.raises(StorageError, match=r"can.t make a run folder .* Permission denied"):
        make(nobody)


def test_a_list_passes_over_what_is_no_run_and_has_the_newest_first(tmp_path: Path) -> None:
    first, second, third = (make(tmp_path) for _ in range(3))
    (tmp_path / "letters.txt").touch()
    (tmp_path / "foreign").mkdir()
    change(second, created="2026-11-21T10:00:00+05:00")
    change(first, created="2026-11-21T06:00:00+00:00")
    change(third, created="2026-11-21T09:00:00+02:00")

    assert [folder.id for folder in list_runs(tmp_path)] == [third.id, first.id, second.id]
    assert find_run(tmp_path, "last").id == third.id
    first.lock()
    assert [folder.state for folder in list_runs(tmp_path)] == ["interrupted", "running", "interrupted"]
    first.unlock()
    with (first.path / "lock").open() as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)  # as another process does that asks for its state at this moment
        assert first.state == "interrupted"
    assert list(list_runs(tmp_path / "missing")) == []


def test_a_run_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    folder = make(tmp_path)
    wrong = folder.id[:-1] + ("0" if folder.id[-1] != "0" else "1")

    with pytest.raises(UnknownNameError, match=f'no run is called "{wrong}"; did you mean "{folder.id}"'):
        find_run(tmp_path, wrong)
    with pytest.raises(UnknownNameError, match=f'did you mean "{folder.id[-4:]}"'):
        find_run(tmp_path, wrong[-4:])
    for name in ("", "last"):
        with pytest.raises(UnknownNameError):
            find_run(tmp_path / "empty", name)
    with pytest.raises(RunFolderError, match="it has no run"):
        find_run(tmp_path, str(tmp_path))


def test_a_heading_that_goes_on_from_the_one_before_stands_alone_whole(tmp_path: Path) -> None:
    columns = {"first": "AER@1", "later": "@25", "other": "error"}

    assert RunFolder(tmp_path, {**ABOUT, "columns": columns}).names == {**columns, "later": "AER@25"}


def test_an_end_that_fits_two_runs_is_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        make(tmp_path).path.rename(tmp_path / f"{number}-same")

    with pytest.raises(RunFolderError, match='"same" matches 2 runs'):
        find_run(tmp_path, "same")


def test_records_that_are_json_but_not_ours_are_refused_with_file_and_line(tmp_path: Path, laboratory: Any) -> None:
    folder = laboratory.play(tmp_path).folder
    for name, read in (("episodes", lambda: list(folder.episodes())), ("metrics", folder.metrics)):
        file = folder.path / f"{name}.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join([lines[0], b'{"tea": "cold"}\n', *lines[1:]]))

        with pytest.raises(RunFolderError, match=rf"{name}\.jsonl, line 2"):
            read()


# -- what exactly took part --------------------------------------------------------------------------------------------


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


def test_pip_understands_the_lock_of_an_old_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "acme_tea-1.0-py3.11.egg-info"
    metadata.mkdir()
    (metadata / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: acme-tea\nVersion: 1.0\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert lock_of({"acme-tea": {}}).requirements(tmp_path) == ["acme-tea==1.0"]


def test_dependencies_that_differ_are_told() -> None:
    one = {"acme": {"version": "1", "files": "x", "requires": {"httpx": "0.27", "numpy": "2.0"}}}
    other = {"acme": {"version": "1", "files": "x", "requires": {"httpx": "0.28", "rich": "14"}}}

    told = changed_origins(one, other, "then", "now")

    assert told == ["httpx, which acme needs, was 0.27 then and is 0.28 now"], "of the others one had imported no code"
    assert changed_origins(one, one, "then", "now") == []
    assert changed_origins(one, {}, "then", "now") == []
    assert origin_of("acme-absent", place_of("acme-absent")) == {"version": ""}, "what isn't installed is no error"
