"""The data set on disk, the .ics of a year, and the commands that make and check them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentfw.errors import MissingExtraError, SettingsError, UsageError
from agentfw_cli.data import data
from agentfw_plugins.worlds.calendar.data_export import ics_of, make_data, organisations_for
from agentfw_plugins.worlds.calendar.dataset import Calendar, Dataset
from agentfw_plugins.worlds.calendar.event_attributes import parse_line


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("data")
    return folder, make_data(folder, users=4, seed=7, ics=["7-test-0-0"], parquet=False)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_the_manifest_says_what_is_there(made: tuple[Path, dict[str, Any]]) -> None:
    folder, manifest = made
    assert json.loads((folder / "MANIFEST.json").read_text("utf-8")) == manifest
    assert manifest["users"] == {"train": 1, "validation": 1, "test": 2}
    assert set(manifest["rejected"]) == {"role_realism", "organisation", "coherence", "alignment", "metadata"}
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == {*manifest["files"], "MANIFEST.json"}
    for name, entry in manifest["files"].items():
        written = (folder / name).read_bytes()
        assert sha256(written).hexdigest() == entry["sha256"]
        if name.endswith(".jsonl"):
            assert len(written.splitlines()) == entry["rows"]
    assert manifest["rounds"] == 4 * 104


@pytest.mark.slow
def test_rows_are_those_of_the_data_set(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    (user, other) = rows(folder / "test" / "users.jsonl")
    dataset = Dataset(7)
    assert json.loads(user["weights"]) == dict(dataset.user(user["user"]).weights)
    assert user["organisation"] != other["organisation"]
    rounds = [row for row in rows(folder / "test" / "rounds.jsonl") if row["user"] == user["user"]]
    calendar = dataset.calendar(dataset.user(user["user"]))
    assert [row["answer"] for row in rounds] == [shown.answer for shown in calendar.rounds]
    for row, shown in zip(rounds, calendar.rounds, strict=True):
        assert [parse_line(line)[2] for line in row["lines"]] == list(shown.tags)
        assert len(row["events"]) == 5
    events = [row for row in rows(folder / "test" / "events.jsonl") if row["user"] == user["user"]]
    assert len(events) == len(calendar.events)


@pytest.mark.slow
def test_one_seed_gives_the_same_bytes_whatever_the_number_of_processes(tmp_path: Path) -> None:
    manifests = [
        make_data(tmp_path / str(jobs), users=3, seed=5, ics=["all"], parquet=False, jobs=jobs) for jobs in (1, 2)
    ]
    assert manifests[0] == manifests[1]
    assert manifests[0] != make_data(tmp_path / "other", users=3, seed=6, ics=["all"], parquet=False)


def test_the_held_out_users_of_forty_are_those_of_the_benchmark() -> None:
    each, counts = organisations_for(40)
    assert (each, counts) == (5, {"train": 5, "validation": 1, "test": 2})
    assert Dataset(7, users_each=each, organisations=counts).users("test") == Dataset(7).users("test")


@pytest.mark.parametrize("users", [3, 4, 5, 19, 20, 33, 40, 200])
def test_every_split_has_an_organisation(users: int) -> None:
    each, counts = organisations_for(users)
    assert min(counts.values()) >= 1
    assert sum(counts.values()) * each >= users
    assert counts["train"] >= 1


@pytest.mark.slow
def test_parquet_holds_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    make_data(tmp_path, users=3, seed=7)
    for kind in ("users", "events", "rounds"):
        table = parquet.read_table(tmp_path / "train" / f"{kind}.parquet")
        assert table.to_pylist() == rows(tmp_path / "train" / f"{kind}.jsonl")


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError) as caught:
        make_data(tmp_path / "none", users=3)
    assert caught.value.fix.endswith('[parquet]"')
    assert not (tmp_path / "none").exists()


def test_what_can_not_be_made_is_refused_before_any_work(tmp_path: Path) -> None:
    for arguments in ({"users": 2}, {"ics": ["7-test-9-9"]}):
        with pytest.raises(UsageError):
            make_data(tmp_path / "none", parquet=False, **arguments)
    with pytest.raises(SettingsError):
        make_data(tmp_path / "none", parquet=False, organisations=str(tmp_path / "no folder"))
    assert not (tmp_path / "none").exists()


# -- .ics --------------------------------------------------------------------------------------------------------------


def unfolded(text: bytes) -> list[str]:
    assert text.endswith(b"\r\n")
    assert all(len(line) <= 75 for line in text.split(b"\r\n"))
    return text.decode().replace("\r\n ", "").split("\r\n")[:-1]


@pytest.mark.slow
def test_an_ics_file_is_well_formed_and_says_no_secret(calendar: Calendar) -> None:
    lines = unfolded(ics_of(calendar))
    assert (lines[0], lines[-1]) == ("BEGIN:VCALENDAR", "END:VCALENDAR")
    assert lines.count("BEGIN:VEVENT") == lines.count("END:VEVENT")
    assert sum(line == "STATUS:TENTATIVE" for line in lines) == 4 * 104
    assert sum(line.startswith("RRULE:") for line in lines) == len(calendar.series)
    assert all(re.fullmatch(r"[A-Z-]+[;:].*", line) for line in lines)
    ids = Counter(line for line in lines if line.startswith("UID:"))
    moved = sum(line.startswith("RECURRENCE-ID:") for line in lines)
    assert sum(count - 1 for count in ids.values()) == moved > 0
    assert "accepted" not in "".join(lines).lower()


@pytest.mark.slow
def test_an_ics_file_reads_back(calendar: Calendar) -> None:
    icalendar = pytest.importorskip("icalendar")
    parsed = icalendar.Calendar.from_ical(ics_of(calendar))
    events = [event for event in parsed.walk("VEVENT") if event["STATUS"] == "TENTATIVE"]
    shown = [event for one in calendar.rounds for event in one.events if event is not one.events[one.anchor]]
    assert [str(event["SUMMARY"]) for event in events] == [event.shown for event in shown]
    assert [event["DTEND"].dt - event["DTSTART"].dt for event in events] == [
        timedelta(minutes=event.minutes) for event in shown
    ]


# -- commands ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_make_prints_a_table_or_json(tmp_path: Path) -> None:
    runner = CliRunner()
    line = ["make", "calendar", "--out", str(tmp_path / "a"), "--users", "3", "--no-parquet"]
    said = runner.invoke(data, line, catch_exceptions=False)
    assert said.exit_code == 0
    assert "rejected by verification" in said.stdout
    told = runner.invoke(data, [*line, "--json"], catch_exceptions=False)
    assert json.loads(told.stdout)["users"] == {"train": 1, "validation": 1, "test": 1}


@pytest.mark.slow
def test_check_reads_a_file_or_a_folder(bakery: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    said = runner.invoke(data, ["check", "calendar", str(bakery)], catch_exceptions=False)
    assert "bakery.yaml: bakery, 2 roles; 208 rounds made and verified" in said.stdout
    (tmp_path / "b.yaml").write_text(bakery.read_text("utf-8").replace("[mornings]", "[dawn]"), "utf-8")
    with pytest.raises(SettingsError, match=r"b\.yaml, line \d+"):
        runner.invoke(data, ["check", "calendar", str(tmp_path)], catch_exceptions=False)


def test_the_help_of_the_command_imports_nothing_heavy() -> None:
    code = (
        "import sys; from agentfw_cli.data import data; "
        "data(['make', 'calendar', '--help'], standalone_mode=False); "
        "print(sorted({'numpy', 'yaml', 'pydantic', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
