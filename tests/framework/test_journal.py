"""What was acknowledged is kept, whatever was cut short after it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from offering import offering

from agentfw.environment import Environment, World
from agentfw.episode import Intervention, Task
from agentfw.errors import RunFolderError, StorageError
from agentfw.policy import Policy
from agentfw.request import Generation, Request
from agentfw.runs.records import journal as journal_module
from agentfw.runs.records.journal import Journal, LongTexts, read_journal, sealed, unsealed, write_whole
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.testing import fresh_host
from agentfw.tool import tool

RECORDS: list[dict[str, Any]] = [
    {"id": 1, "text": "tea, and half \ud83d of a pair"},
    {"id": 2, "text": "\n\u2028\x00 手紙 🍵"},
    {"id": 3, "list": [1.5, None]},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


def write(path: Path, records: list[dict[str, Any]]) -> None:
    with Journal.open(path) as journal:
        for record in records:
            journal.append(record)


def test_appending_answers_what_a_reader_will_find_and_what_is_no_json_leaves_nothing_behind(path: Path) -> None:
    with Journal.open(path) as journal:
        answer = journal.append({"pair": (1, 2), 3: "number"})  # type: ignore[dict-item]  # JSON has no such key
        with pytest.raises(TypeError):
            journal.append({"set": {1, 2}})
        journal.append(RECORDS[1])

    assert answer == {"pair": [1, 2], "3": "number"}
    assert list(read_journal(path)) == [answer, RECORDS[1]]


def test_nothing_is_written_through_a_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("half a line")
    path.symlink_to(tmp_path / "precious")

    with pytest.raises(StorageError, match="is a link"):
        Journal.open(path)

    assert (tmp_path / "precious").read_text() == "half a line"


def test_a_last_line_that_is_cut_at_any_byte_is_taken_out(path: Path) -> None:
    write(path, RECORDS)
    whole = path.read_bytes()
    start = len(whole) - len(whole.splitlines(keepends=True)[-1])
    torn = path.with_name("records.jsonl.torn")

    for cut in range(start, len(whole)):
        path.write_bytes(whole[:cut])
        torn.unlink(missing_ok=True)

        assert list(read_journal(path)) == RECORDS[:2]
        assert path.read_bytes() == whole[:cut], "reading changes nothing"
        write(path, [RECORDS[2]])

        assert path.read_bytes() == whole
        assert (torn.read_bytes() if torn.exists() else b"") == whole[start:cut]


@pytest.mark.parametrize(
    "rest", [b"\x00\x00\x00\x00", b"[1, 2]\n", b"\xff\xfe\n", b"[" * 100_000], ids=lambda rest: rest[:4]
)
def test_a_broken_end_of_any_kind_is_taken_out(path: Path, rest: bytes) -> None:
    write(path, RECORDS[:2])
    with path.open("ab") as file:
        file.write(rest)

    write(path, [RECORDS[2]])

    assert list(read_journal(path)) == RECORDS
    assert path.with_name("records.jsonl.torn").read_bytes() == rest


@pytest.mark.parametrize("garbage", [b"nonsense\n", b"\n", b"[]\n", b'{"id": 2\n'])
def test_damage_in_the_middle_is_refused_with_its_line_and_left_alone(path: Path, garbage: bytes) -> None:
    write(path, RECORDS)
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = lines[0] + garbage + lines[2]
    path.write_bytes(damaged)

    for use in (lambda: list(read_journal(path)), lambda: Journal.open(path)):
        with pytest.raises(RunFolderError, match=r"records\.jsonl, line 2, is damaged"):
            use()
    assert path.read_bytes() == damaged
    assert not path.with_name("records.jsonl.torn").exists()


class FullDisk:
    """The os module on a disk that is full: it takes some bytes, and then refuses."""

    def __init__(self, *, also_taking_back: bool = False) -> None:
        self.also_taking_back, self.full = also_taking_back, True

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, handle: int) -> None:
        if self.full and stat.S_ISREG(os.fstat(handle).st_mode):
            os.ftruncate(handle, os.fstat(handle).st_size - 4)
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(handle)

    def ftruncate(self, handle: int, size: int) -> None:
        if self.full and self.also_taking_back:
            raise OSError(errno.EIO, "Input/output error")
        os.ftruncate(handle, size)


@pytest.fixture(params=[False, True], ids=["full", "full and broken"])
def disk(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    """A disk that is full after the first record."""
    write(path, RECORDS[:1])
    disk = FullDisk(also_taking_back=request.param)
    monkeypatch.setattr(journal_module, "os", disk)
    return disk


def test_a_full_disk_leaves_the_journal_as_it_was(path: Path, disk: FullDisk) -> None:
    with Journal.open(path) as journal:
        for _ in range(2):  # other episodes come to their end while the run is being stopped
            with pytest.raises(StorageError, match=r"No space left|Input/output") as caught:
                journal.append(RECORDS[1])
        assert "free disk space" in caught.value.fix
        disk.full = False
        journal.append(RECORDS[1])

    assert list(read_journal(path)) == RECORDS[:2]


def test_a_flush_that_fails_fails_all_that_share_it_and_leaves_the_rest(path: Path, disk: FullDisk) -> None:
    async def commit() -> list[Any]:
        with Journal.open(path) as journal:
            found = await asyncio.gather(*map(journal.commit, [RECORDS[1]] * 5), return_exceptions=True)
            disk.full = False
            return [*found, await journal.commit(RECORDS[2])]

    *failed, kept = asyncio.run(commit())

    assert all(isinstance(error, StorageError) and "No space left" in error.message for error in failed)
    assert list(read_journal(path)) == [RECORDS[0], kept]


class SlowDisk:
    """The os module on a disk that flushes when it is told to."""

    def __init__(self) -> None:
        self.flushes, self.free = 0, threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, handle: int) -> None:
        assert self.free.wait(300)
        self.flushes += 1
        os.fsync(handle)


def test_records_that_arrive_while_the_disk_is_busy_share_a_flush(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk()

    async def commit() -> list[Any]:
        with Journal.open(path) as journal:
            monkeypatch.setattr(journal_module, "os", disk)
            tasks = [asyncio.create_task(journal.commit({"number": number})) for number in range(100)]
            await asyncio.sleep(0.05)
            late = asyncio.create_task(journal.commit({"number": 100}))
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in (*tasks, late)), "nothing is acknowledged before it is on disk"
            disk.free.set()
            return [*await asyncio.gather(*tasks), await late]

    answers = asyncio.run(commit())

    assert answers == list(read_journal(path)) == [{"number": number} for number in range(101)]
    assert disk.flushes == 2


def test_a_record_that_nobody_waits_for_is_written_at_once_flushed_soon_and_known_where_it_can_not_be(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    disk.free.set()

    async def write() -> None:
        with Journal.open(path) as journal:
            monkeypatch.setattr(journal_module, "os", disk)
            journal.write(RECORDS[0])
            assert list(read_journal(path)) == [RECORDS[0]]
            while not disk.flushes:
                await asyncio.sleep(0.01)
            assert journal.failure is None
            monkeypatch.setattr(journal_module, "os", FullDisk())
            journal.write(RECORDS[1])
            while journal.failure is None:
                await asyncio.sleep(0.01)
            assert "No space left" in journal.failure.message
            with pytest.raises(StorageError, match="No space left"):
                await journal.retry()
            monkeypatch.setattr(journal_module, "os", os)
            await journal.retry()
            assert journal.failure is None, "there is room again"
            journal.write(RECORDS[2])
        last = Journal.open(path.with_name("last.jsonl"))
        last.write(RECORDS[0])
        monkeypatch.setattr(journal_module, "os", FullDisk())
        with pytest.raises(StorageError, match="No space left"):
            last.close()

    asyncio.run(write())

    assert list(read_journal(path)) == [RECORDS[0], RECORDS[2]]


def test_a_file_is_replaced_whole_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(path, "first")
    monkeypatch.setattr(journal_module, "os", FullDisk())

    with pytest.raises(StorageError, match="No space left"):
        write_whole(path, "second")

    assert path.read_text() == "first"
    assert list(path.parent.iterdir()) == [path]


def test_a_sealed_file_that_was_changed_is_noticed() -> None:
    assert unsealed(sealed({"update": 3})) == {"update": 3}
    with pytest.raises(ValueError, match="it was changed after it was written"):
        unsealed(sealed({"update": 3}).replace('"update": 3', '"update": 2'))


def test_a_journal_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="a directory"):
        Journal.open(tmp_path)
    assert list(read_journal(tmp_path / "missing.jsonl")) == []


# -- long texts --------------------------------------------------------------------------------------------------------


LONG = "0123456789" * 100_000


class Library(Environment):
    """Look something up, three times."""

    def begin(self, world: World, task: Task) -> None:
        for time in range(3):
            world.after(time, lambda: world.observe("question"))
        world.after(10, world.finish)


class Reading(Policy):
    longest = 0

    async def generate(self, request: Request) -> Generation:
        Reading.longest = max(Reading.longest, *(len(message.content) for message in request.messages))
        asked = any(each.name == "question" for each in request.moment.observations) if request.moment else False
        return Generation("", calls=(Intervention("look_up", {"title": "atlas"}),) if asked else ())


def make_tool() -> object:
    @tool
    def look_up(title: str) -> str:
        """The whole text of a book."""
        return LONG

    return look_up


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.parent.name != "package")


def test_a_long_answer_is_kept_once_and_shown_in_part(tmp_path: Path) -> None:
    plugin = offering(environment={"library": Library}, policy={"reading": Reading}, tool={"look-up": make_tool})
    host = fresh_host(plugin)
    spec = parse_spec({"environment": "library", "policy": "reading", "tools": ["look-up"], "episodes": 4})
    run = Run.create(spec, host, tmp_path)

    asyncio.run(run.execute())

    (kept,) = run.folder.path.glob("long_texts/*.txt")
    assert kept.read_text("utf-8") == LONG
    assert Reading.longest < 101_000
    assert size(run.folder.path) < len(LONG) + 24 * 110_000
    (note,) = [note for note in host.notes if "gave a text" in note]
    assert 'tool "look-up"' in note
    assert "of 1,000,000 characters; the agent is shown the first 100,000" in note
    assert f"the whole is in long_texts/{kept.name}" in note
    record = json.loads((run.folder.path / "episodes.jsonl").read_text("utf-8").splitlines()[0])
    answers = [event[3]["text"] for event in record["events"] if event[1:3] == ["observation", "answer"]]
    assert answers[0].endswith(f"[shortened: 1,000,000 characters; the whole is in long_texts/{kept.name}]")


def test_there_is_an_end_to_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_ROOM", 2500)
    texts, again = LongTexts(100), LongTexts(100)
    texts.open(tmp_path)

    shown = [texts.shortened(letter * 1000, "it") for letter in "abca"]

    again.open(tmp_path)
    shown.append(again.shortened("d" * 1000, "it"))
    for text, letter in zip(shown, "abcad", strict=True):
        assert text.startswith(letter * 100 + "\n[shortened: 1,000")
    assert ["the rest is not kept" in text for text in shown] == [False, False, True, False, True]
    assert shown[3] == shown[0]
    assert size(tmp_path) == 2000
