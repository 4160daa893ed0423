"""Writes the pages of some runs into a folder, to be sent to somebody or put on any web server.

Each file is whole in itself and opens from disk. What is on no page of the folder has no link to it.

    write_bundle(index, ["2026-11-21-inbox-7f3a19c4"], Path("site"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from agentfw import Host
from agentfw.errors import StorageError, UsageError
from agentfw.runs import make_folder, write_whole

from .episode_view import EpisodeView
from .index import Index
from .pages import Links, Pages, before
from .search import Filter, Row, of_task, select


class _FileLinks(Links):
    """Addresses of files beside each other."""

    is_live = False

    def __init__(self) -> None:
        super().__init__()
        self.pairs: set[str] = set()
        """The pages of pairs that there are."""

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
    index: Index,
    names: Sequence[str],
    folder: Path,
    host: Host,
    tell: Callable[[int, int], object] = lambda done, of: None,
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
        tasks = {row["id"]: [one for one in of_task(rows, row) if one["id"] in there] for row in found}
        for done, row in enumerate(found):
            tell(done, len(found))
            view = EpisodeView.read(index, row, rows)
            if (earlier := before(row, tasks[row["id"]])) is not None:
                links.pairs.add(_pair_name(earlier, row))
                [other] = [one for one in found if one["id"] == earlier["id"]]
                pair = pages.pair(EpisodeView.read(index, other, rows), view)
                _write(folder / _pair_name(earlier, row), pair)
            _write(folder / f"{_name(row)}.html", pages.episode(view, tasks[row["id"]]))
            _write(folder / f"{_name(row)}.jsonl", view.raw)
        _write(folder / "index.html", pages.contents(found))
    return len(found)


def _pair_name(left: Row, right: Row) -> str:
    return f"{_name(left)}--{_name(right)}.html"


def _name(row: Row) -> str:
    """A file name for an episode: its folder below the runs, and its id."""
    return "~".join(filter(None, (*str(row["folder"]).split("/"), str(row["episode"]).replace("/", "~"))))


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}", fix="choose another directory") from None
