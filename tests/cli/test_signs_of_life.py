"""No command is silent for long where nobody sees a picture: each line of these would come after ten seconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw.printing import out as progress
from agentfw.runs import RunFolder

_LINE = re.compile(r"   \d+ s$", re.M)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds are over at once."""
    monkeypatch.setattr(progress, "_EVERY_ELSEWHERE", 0.0005)


def run(folder: Path) -> list[str]:
    return ["run", "calendar", "--policy", "random", "--episodes", "2"]


def train(folder: Path) -> list[str]:
    return ["train", "bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "2"]


def reward_fit(folder: Path) -> list[str]:
    rows = [f"user{user},item{item},{(user + item) % 2}" for user in range(12) for item in range(12)]
    (folder / "likes.csv").write_text("\n".join(["user,item,value", *rows]))
    return ["reward", "fit", "likes.csv", "--out", "model"]


def memory_import(folder: Path) -> list[str]:
    lines = [f'{{"text": "ana likes tea number {number}", "owner": "ana"}}' for number in range(200)]
    (folder / "mine.jsonl").write_text("\n".join(lines))
    return ["memory", "import", "mine.jsonl", "--embedder", "hash:64"]


def calendar(folder: Path) -> list[str]:
    pytest.importorskip("agentfw_calendar")
    event = (
        "BEGIN:VEVENT\r\nUID:{0}\r\nDTSTART:2099110{1}T{2:02}0000Z\r\nDURATION:PT2H\r\nSUMMARY:E{0}\r\nEND:VEVENT\r\n"
    )
    events = "".join(event.format(number, 2 + number % 5, 8 + number // 5 % 9) for number in range(300))
    (folder / "my.ics").write_bytes(f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{events}END:VCALENDAR\r\n".encode())
    return ["calendar", "list", "my.ics", "--from", "2099-11-01", "--me", "ana@lab.example", "--zone", "UTC"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [run, train, reward_fit, memory_import, calendar])
def test_a_command_gives_a_sign_of_life(
    agentfw: Agentfw, hurried: None, tmp_path: Path, words: Callable[[Path], list[str]]
) -> None:
    answer = agentfw(*words(tmp_path))

    assert answer.code == 0, answer.err
    assert _LINE.search(answer.err)
    assert not _LINE.search(answer.out)
    assert "\r" not in answer.err


@pytest.mark.slow
def test_a_resumed_run_and_a_bundle_give_one(agentfw: Agentfw, hurried: None, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    agentfw(*run(tmp_path))
    [folder] = [RunFolder.open(path) for path in (tmp_path / "runs").glob("*calendar*")]
    (folder.path / "summary.json").unlink()
    for name in ("episodes", "metrics"):
        journal = folder.path / f"{name}.jsonl"
        journal.write_text(journal.read_text().splitlines(keepends=True)[0])

    resumed = agentfw("runs", "resume", "last")
    bundle = agentfw("view", "last", "--bundle", "site")

    for answer in (resumed, bundle):
        assert answer.code == 0, answer.err
        assert _LINE.search(answer.err)


def test_quiet_is_silent(agentfw: Agentfw, hurried: None, tmp_path: Path) -> None:
    answer = agentfw(*run(tmp_path), "--quiet")

    assert (answer.code, answer.err) == (0, "")
