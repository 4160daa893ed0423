"""A run in object storage: what is there can be resumed, viewed and loaded on another machine, whatever was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import Agentfw
from waiting import free_port, listens, until

from agentfw import Host, Run, load
from agentfw.errors import RunFolderError, SettingsError, StorageError
from agentfw.runs import Mirror, RunFolder, find_run, parse_spec, policy_of_run

pytest.importorskip("fsspec", reason="needs fsspec")

SPEC: dict[str, Any] = {"environment": "inbox", "policy": "scripted", "memories": ["strategyhub"]}
SPEC |= {"episodes": 6, "concurrency": 1, "seed": 3}


def mirrored(address: str) -> dict[str, Any]:
    return SPEC | {"trackers": [{"name": "mirror", "settings": {"address": address, "every": 0.02}}]}


def execute(run: Run) -> None:
    asyncio.run(run.execute())


def outcome(folder: RunFolder) -> list[dict[str, Any]]:
    """What a run has come to, without its times."""
    return [{key: line[key] for key in ("episode", "reward", "scores", "turns")} for line in folder.metrics()]


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.nightly)])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/store"
    server = request.getfixturevalue("s3_server")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bucket = f"runs-{time.time_ns()}"
    httpx.put(f"{server}/{bucket}").raise_for_status()
    return f"s3://{bucket}/below"


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """A server that speaks S3's protocol."""
    pytest.importorskip("s3fs", reason="needs s3fs")
    pytest.importorskip("moto.server", reason="needs moto and flask")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listens(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def test_a_run_is_read_from_its_mirror_as_from_here(store: str, host: Host, agentfw: Agentfw, tmp_path: Path) -> None:
    run = Run.create(parse_spec(mirrored(store)), host, tmp_path / "here")
    execute(run)

    result = load(f"{store}/{run.id}", runs=tmp_path / "there")

    there = tmp_path / "there" / run.id
    assert result.path == there
    assert [one.to_record() for one in result.episodes] == [one.to_record() for one in run.folder.episodes()]
    assert result.to_record() == {**load(str(run.folder.path)).to_record(), "folder": str(there)}
    assert os.stat(there / "episodes.jsonl").st_mode & 0o077 == 0, "only its owner reads what was said"
    assert policy_of_run(host, f"{store}/{run.id}", tmp_path / "there") == {"name": "scripted", "settings": {}}
    viewed = tmp_path / "site"
    assert agentfw("view", f"{store}/{run.id}", "--runs", str(there.parent), "--bundle", str(viewed)).code == 0
    assert (viewed / "index.html").exists()


KILLED = """
import os, signal, sys
from agentfw_plugins.trackers.metric_trackers import Mirror, MirrorTracker

last = int(sys.argv.pop(1))
begin = Mirror.__init__
sent = 0

class Counted(dict):
    def __setitem__(self, name, mark):
        global sent
        super().__setitem__(name, mark)
        sent += 1
        if sent == last:
            os.kill(os.getpid(), signal.SIGKILL)

def begin_counted(self, *given):
    begin(self, *given)
    self._sent = Counted()

Mirror.__init__ = begin_counted
# After each episode instead of after a while, so that the kill is at the same place whatever the machine's speed.
MirrorTracker._follow = lambda self: None
MirrorTracker.log = lambda self, step, metrics: self._mirror.send()
from agentfw_cli.main import main
main()
"""


@pytest.mark.nightly
@pytest.mark.parametrize("sent", [2, 9, 17])
def test_a_run_killed_while_it_sent_goes_on_elsewhere(sent: int, store: str, host: Host, tmp_path: Path) -> None:
    undisturbed = Run.create(parse_spec(SPEC), host, tmp_path / "undisturbed")
    execute(undisturbed)
    run = Run.create(parse_spec(mirrored(store)), host, tmp_path / "here")
    command = [sys.executable, "-c", KILLED, str(sent), "runs", "resume", str(run.folder.path), "--quiet"]
    killed = subprocess.run(command, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    address = f"{store}/{run.id}"
    try:
        folder = find_run(tmp_path / "there", address)
    except RunFolderError:
        assert sent == 2, "run.json comes last"
        return

    resumed = Run.open(folder, host)
    execute(resumed)

    assert outcome(resumed.folder) == outcome(undisturbed.folder)
    third = find_run(tmp_path / "third", address)
    assert third.state == "done", "the other machine sends to the same place"
    assert outcome(third) == outcome(undisturbed.folder)


def test_a_process_that_was_taken_over_writes_no_more(tmp_path: Path) -> None:
    folder, store = tmp_path / "run", f"file://{tmp_path}/store"
    folder.mkdir()
    (folder / "run.json").write_text("first")
    (folder / "summary.json").write_text("{}")
    old, new = Mirror(folder, store), Mirror(folder, store)
    old.send()
    (folder / "summary.json").unlink()  # as a run that goes on does
    new.send()
    (folder / "run.json").write_text("second")

    with pytest.raises(StorageError, match=f"process {os.getpid()} on .* has taken"):
        old.send()

    assert (tmp_path / "store" / "run" / "run.json").read_text() == "first"
    assert not (tmp_path / "store" / "run" / "summary.json").exists(), "what is gone here is gone there"


def test_what_is_wrong_is_told(host: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SettingsError, match="Protocol not known"):
        Run.create(parse_spec(mirrored("nowhere://bucket")), host, tmp_path / "none")
    with pytest.raises(RunFolderError, match="there is no run at"):
        find_run(tmp_path, f"file://{tmp_path}/nothing")
    (tmp_path / "file").write_text("in the way")
    run = Run.create(parse_spec(mirrored(f"file://{tmp_path}/file")), host, tmp_path / "here")
    execute(run)

    assert run.folder.state == "done", "the run itself goes on"
    assert not (tmp_path / "none").exists()
    assert any("can't reach" in note for note in host.notes)
    assert "it is tried again" in caplog.text


def test_a_database_is_sent_whole_while_it_is_written(tmp_path: Path) -> None:
    folder, store = tmp_path / "run", tmp_path / "store"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE notes (text TEXT)")
        mirror = Mirror(folder, f"file://{store}")
        mirror.send()
        connection.execute("INSERT INTO notes VALUES ('lunch')")  # this is in the log beside the file only
        (folder / "notes.txt").write_text("lunch")
        mirror.send()
        (folder / "notes.txt").unlink()
        mirror.send()

    assert [file.name for file in (store / "run").glob("*.txt")] == [], "what was deleted isn't kept elsewhere"
    with closing(sqlite3.connect(store / "run" / "memory.db")) as copy:
        assert copy.execute("SELECT text FROM notes").fetchall() == [("lunch",)]


def test_what_was_fetched_is_brought_up_to_date_unless_somebody_has_worked_in_it(tmp_path: Path) -> None:
    about = {"headline": "error", "episodes": 4, "updates": 0, "spec": {**SPEC, "interface": "event_driven"}}
    about["spec"] |= {"environment": {"name": "inbox"}, "policy": {"name": "scripted"}, "memories": []}  # type: ignore[operator]
    folder = RunFolder.create(tmp_path / "here", "inbox", about).path
    mirror, address = Mirror(folder, f"file://{tmp_path}/store"), f"file://{tmp_path}/store/{folder.name}"
    (tmp_path / "precious").write_text("of somebody else")
    (folder / "notes.txt").symlink_to(tmp_path / "precious")
    for name in ("lock", "summary.json.1.new", "failed.jsonl.torn"):
        (folder / name).write_text("of this machine")
    seen = []
    for text in ("one", "one, two", "one, two, three"):
        (folder / "turns.jsonl").write_text(text)
        mirror.send()
        there = find_run(tmp_path / "there", address).path
        seen.append((there / "turns.jsonl").read_text())
        if len(seen) == 2:
            (there / "turns.jsonl").write_text("two, and mine")

    assert seen == ["one", "one, two", "two, and mine"]
    assert {file.name for file in (tmp_path / "store" / folder.name).iterdir()} == {
        *("run.json", "turns.jsonl", "mirror.json")
    }


def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec.implementations.memory")
    storage, root = memory.MemoryFileSystem(), "/others-bucket/run"
    for name in ("run.json", "../../precious"):  # object storage takes any name
        storage.store[f"{root}/{name}"] = memory.MemoryFile(storage, f"{root}/{name}", b"{}")

    with pytest.raises(RunFolderError, match=r"outside its folder: \.\./\.\./precious"):
        find_run(tmp_path / "runs", f"memory:/{root}")

    assert not (tmp_path / "precious").exists()
