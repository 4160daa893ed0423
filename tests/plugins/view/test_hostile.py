"""Records that nobody wrote with good intentions, or that were being written: nothing runs, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

from serving_gateways import CLIENT

from agentfw import Message
from agentfw.episode import Call, Event
from agentfw.runs import RunFolder
from agentfw_plugins.view.index import Index
from agentfw_plugins.view.search import Filter, find

from .test_view import read, runs_of

View = Callable[[Path], str]
MARKUP = "</pre></template><script>window.taken=1</script><img src=x onerror='window.taken=1'><a href='javascript:0'>"
CONTROL = "bell \x07 escape \x1b[31m nul \x00 surrogate \ud800 override \u202e end"


def hostile(folder: RunFolder) -> None:
    """Put what is hostile into every text of the first episode."""
    file = folder.path / "episodes.jsonl"
    first, *others = folder.episodes()
    for name in (MARKUP, CONTROL):
        first.messages.append(Message("user", name))
        first.events.append(Event(1, "observation", name, {"text": name}))
        first.events.append(Event(1, "memory", "recalled", {"text": name, "score": 0.5, "why": {name: name}}))
        first.profile[name] = name
    first.messages += [Message(role, "x" * 1_000_000) for role in ("user", "assistant")]
    turn = first.turns[0]
    turn.shown = tuple(range(len(first.messages)))
    turn.text = turn.said = MARKUP + CONTROL
    turn.calls = (Call(MARKUP, {MARKUP: CONTROL, "deep": json.loads("[" * 400 + "]" * 400)}, "id"),)
    turn.failures = (MARKUP,)
    turn.version = first.task.user.join([MARKUP, CONTROL])
    file.write_text("".join(json.dumps(one.to_record()) + "\n" for one in [first, *others]))


def rows_of(runs: Path, **wanted: str) -> list[dict[str, Any]]:
    index = Index(runs)
    index.refresh()
    with index.reading() as rows:
        return find(rows, Filter(**wanted)).rows


def test_nothing_of_a_record_becomes_markup(runs: Path, view: View) -> None:
    folder = RunFolder.open(next(runs.glob("*inbox*")))
    hostile(folder)
    name = f"{folder.id}/00000-0"
    other = next(one.name for one in runs.glob("*inbox*") if one.name != folder.id)
    url = view(runs)

    pages = [f"/episode/{name}", "/", "/?text=taken", f"/pair?left={name}&right={other}/00000-0", "/runs"]
    texts = [CLIENT.get(f"{url}{page}").raise_for_status().text for page in pages]

    assert not any("<script>window.taken" in text or "<img src=x" in text for text in texts)
    assert MARKUP in unescape(texts[0]), "it is shown as the text that it is"
    assert "980,000 more characters" in texts[0]
    assert len(texts[0]) < 300_000
    record = CLIENT.get(f"{url}/record/{name}")
    assert len(json.loads(record.text)["messages"][-1][1]) == 1_000_000
    assert record.headers["content-type"].startswith("text/plain")
    assert record.headers["x-content-type-options"] == "nosniff"


def test_a_broken_line_hides_no_other_and_is_shown_as_it_is(runs: Path, view: View) -> None:
    folder = RunFolder.open(next(runs.glob("*inbox*")))
    file = folder.path / "episodes.jsonl"
    first, second = file.read_bytes().splitlines(keepends=True)
    strange = json.loads(first)
    strange["task"]["index"], strange["turns"] = 7, [{"text": "no turn"}]
    bad = [b'{"half of\n', b"[1]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", json.dumps(strange).encode() + b"\n"]
    file.write_bytes(first + b"".join(bad) + second)
    (folder.path / "turns.jsonl").mkdir()  # as a file of somebody else, it can't be read
    (runs / "private").mkdir(mode=0)

    rows = [row for row in rows_of(runs) if row["run_name"] == folder.id]
    damaged = [row for row in rows if row["state"] == "damaged"]
    url = view(runs)

    assert len(rows) == 7
    assert len(damaged) == 5
    for row in damaged:
        page = CLIENT.get(f"{url}/episode/{folder.id}/{row['episode']}")
        assert page.status_code == 200
        assert "can't be read" in page.text.replace("&#39;", "'")
    shown = [CLIENT.get(f"{url}/record/{folder.id}/{row['episode']}").text for row in damaged]
    assert '{"half of\n' in shown


def test_a_run_with_results_of_another_version_opens_and_says_what_cant_be_read(runs: Path, view: View) -> None:
    folder = runs_of(runs)[0]
    file = folder.path / "summary.json"
    summary, url = json.loads(file.read_text()), view(runs)
    assert "can't be read" not in read(f"{url}/run/{folder.id}")
    del summary["usage"], summary["sha256"]
    file.write_text(json.dumps(summary))

    page = read(f"{url}/run/{folder.id}")

    assert "What came of this run can't be read (KeyError: 'usage'): agentfw 0." in page
    assert f"?run={folder.id}" in page


def test_a_run_that_is_being_written_is_read_as_far_as_it_is_there(runs: Path) -> None:
    folder = RunFolder.open(next(runs.glob("*inbox*")))
    file = folder.path / "episodes.jsonl"
    whole = file.read_bytes()
    half = whole.index(b"\n") + 100
    file.write_bytes(whole[:half])
    index = Index(runs)
    counts = []

    for part in (b"", whole[half:-1], whole[-1:]):
        with file.open("ab") as handle:
            handle.write(part)
        index.refresh()
        with index.reading() as rows:
            counts.append([row["at"] is not None for row in find(rows, Filter(run=folder.id)).rows].count(True))

    assert counts == [1, 1, 2]


def test_a_journal_in_the_place_of_another_is_read_anew(recorded: Path, tmp_path: Path) -> None:
    (careful, careless), runs = runs_of(recorded), tmp_path / "runs"
    folder = shutil.copytree(careless.path, runs / careless.id)
    before = rows_of(runs, text="open_message 99")

    shutil.copytree(careful.path, folder, dirs_exist_ok=True, copy_function=replaced)
    after, stale = rows_of(runs), rows_of(runs, text="open_message 99")
    shutil.rmtree(folder)

    assert sum(row["refused"] for row in before) > 0
    assert ([row["refused"] for row in after], stale) == ([0, 0], [])
    assert {row["run_name"] for row in after} == {careless.id}
    assert after[0]["began"] == careful.about["created"], "what run.json says is read anew"
    assert rows_of(runs) == []


def replaced(source: str, target: str) -> str:
    Path(target).unlink(missing_ok=True)
    return shutil.copy2(source, target)


def test_a_damaged_index_is_made_again_and_is_as_private_as_the_runs(runs: Path) -> None:
    whole = rows_of(runs)
    assert {file.stat().st_mode & 0o777 for file in runs.glob(".index.sqlite*")} == {0o600}
    for content in (b"no database", b"SQLite format 3\0" + b"\xff" * 5000, b""):
        for file in runs.glob(".index.sqlite*"):
            file.unlink()
        (runs / ".index.sqlite").write_bytes(content)

        assert len(rows_of(runs)) == len(whole) == 4
    index = Index(runs)
    index.refresh()
    for file in runs.glob(".index.sqlite*"):  # as when somebody is forgotten, while the pages are served
        file.unlink()
    index.refresh()
    assert index.count() == 4
