"""Does all cells of a loop, and keeps what they are in a folder, so that an interrupted loop can be resumed.

loop = Loop.at(folder, spec, seeds=3)
rows = loop.do(host)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ..errors import UsageError
from ..host import Host
from ..runs.journal import make_folder, write_whole
from .cell import Cell
from .spec import LoopSpec
from .table import Row, table

__all__ = ["Loop"]


class Loop:
    """A loop and its folder."""

    def __init__(self, path: Path, spec: LoopSpec, seeds: int) -> None:
        self.path, self.spec, self.seeds = path, spec, seeds
        self.cells = [
            Cell(path / "cells" / f"{variant}-{seed}", spec, variant, seed, path / "shared")
            for seed in range(1, seeds + 1)
            for variant in spec.variants
        ]

    @classmethod
    def at(cls, path: Path, spec: LoopSpec, seeds: int) -> Loop:
        """A new loop, or the one in this folder. More variants and seeds may be added to it later."""
        file = path / "loop.json"
        record = json.loads(spec.model_dump_json())
        if file.exists():
            before = json.loads(file.read_text("utf-8"))
            for name, own in before["variants"].items():
                if name in record["variants"] and own != record["variants"][name]:
                    raise UsageError(f"{path} has another variant {name}", fix="choose another --folder")
            if {**before, "variants": {}} != {**record, "variants": {}}:
                raise UsageError(f"{path} belongs to another loop", fix="choose another --folder")
            record["variants"] = {**before["variants"], **record["variants"]}
        make_folder(path)
        write_whole(file, json.dumps(record, indent=2) + "\n")
        return cls(path, spec, seeds)

    def do(self, host: Host, tell: Callable[[str, int, int], object] = lambda text, done, of: None) -> list[Row]:
        """Do what is missing. `tell` is given what is being done, and how many cells of how many are done."""
        for done, cell in enumerate(self.cells):
            if cell.exam() is None:
                cell.do(host, lambda text, done=done: tell(text, done, len(self.cells)))  # type: ignore[misc]
        rows = self.rows()
        write_whole(self.path / "table.json", json.dumps([row.to_record() for row in rows], indent=2) + "\n")
        return rows

    def rows(self) -> list[Row]:
        """The table of the cells that are complete."""
        exams: dict[str, list[dict[str, object]]] = {}
        for cell in self.cells:
            folder = cell.exam()
            if folder is not None:
                exams.setdefault(cell.variant, []).extend(folder.metrics())
        about = {name: variant.about for name, variant in self.spec.variants.items()}
        return table(exams, about, self.spec.figures)
