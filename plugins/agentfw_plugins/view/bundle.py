"""Writes the pages of some runs into a folder, to be sent to somebody or put on any web server.

The pages share a style sheet and a script, and open from disk. What is on no page of the folder has no link to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from agentfw import Host
from agentfw.errors import StorageError, UsageError
from agentfw.runs import make_folder

from .difference import turn_pairs
from .episode_view import EpisodeView
from .index import Index
from .pages import Links, Pages, before
from .search import Filter, Row, of_task, select
from .waterfall import steps_of


class _FileLinks(Links):
    """Addresses of files beside each other."""

    is_live = False

    def __init__(self) -> None:
        super().__init__()
        self.pairs: set[str] = set()  # the pages of pairs that there are

    def at(self, path: str) -> str:
        return "index.html"

    def episode(self, row: Row, turn: int | None = None) -> str:
        return quote(f"{_name(row)}.html") + ("" if turn is None else f"#turn-{turn + 1}")

    def run(self, folder: str) -> str:
        return self.home

    def record(self, row: Row) -> str:
        return quote(f"{_name(row)}.jsonl")

    def pair(self, left: Row, right: Row) -> str:
        name = _pair_name(left, right)
        return quote(name) if name in self.pairs else ""

    def list(self, **values: str) -> str:
        return self.home


def write_bundle(
    index: Index, names: Sequence[str], folder: Path, host: Host, tell: Callable[[int, int], object]
) -> int:
    """Write the pages of these runs. `tell` is given how many episodes of how many are done. Returns their number."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} isn't empty", fix="choose another directory, or remove it")
    links = _FileLinks()
    pages = Pages(links, host)
    with index.reading() as rows:
        found = [row for name in names for row in select(rows, Filter(run=name))]
        found.sort(key=lambda row: -row["failures"])
        there = {row["id"] for row in found}
        make_folder(folder)
        _write(folder / "view.css", pages.style)
        _write(folder / "view.js", pages.script)
        tasks: dict[object, list[Row]] = {}
        for done, row in enumerate(found):
            tell(done, len(found))
            task = (row["environment"], row["task"] or row["id"])
            if task not in tasks:
                tasks[task] = [one for one in of_task(rows, row) if one["id"] in there]
            view = EpisodeView.read(index, row, rows)
            # What a training samples to learn from is hundreds of episodes of the same few tasks.
            earlier = before(row, tasks[task]) if row["stage"] != "rollout" else None
            if earlier is not None:
                links.pairs.add(_pair_name(earlier, row))
                left, name = EpisodeView.read(index, earlier, rows), _pair_name(earlier, row)
                _write(folder / name, pages.filled("pair.html", left=left, right=view, pairs=turn_pairs(left, view)))
            steps = steps_of(index, view, rows, links.episode, there)
            _write(folder / f"{_name(row)}.html", pages.episode(view, tasks[task], steps))
            _write(folder / f"{_name(row)}.jsonl", view.raw)
        _write(folder / "index.html", pages.filled("contents.html", rows=found))
    return len(found)


def _pair_name(left: Row, right: Row) -> str:
    return f"{_name(left)}--{_name(right)}.html"


def _name(row: Row) -> str:
    """A file name for an episode: its folder below the runs, and its id."""
    return "~".join(filter(None, (*str(row["folder"]).split("/"), str(row["episode"]).replace("/", "~"))))


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}", fix="choose another directory") from None
