"""Runs all cells of a loop in a folder. A cell is one variant with one seed.

    result = Loop.at(folder, spec, seeds=3).do(host, jobs=2)

Each phase of a cell is an ordinary run in a folder of its own:

    cells/A1-1/store/            what the memories have learned so far
    cells/A1-1/1-live/RUN        the first round: a run in which they learn, then a training
    cells/A1-1/1-train/RUN
    cells/A1-1/exam-store/       the copy that the exam works on
    cells/A1-1/exam/RUN

An interrupted loop is resumed: complete runs are not started again, and incomplete ones are resumed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentfw import Run, RunSpec
from agentfw.errors import UsageError
from agentfw.host import Host, HostOptions
from agentfw.runs import RunFolder, Summary, in_processes, make_folder, write_whole

from .spec import LoopSpec
from .table import Exams, Group, Row, by_group, contrasts, table, write_report


class Cell:
    """One variant with one seed."""

    def __init__(self, home: Path, spec: LoopSpec, variant: str, seed: int, shared: Path) -> None:
        self.home, self.spec, self.variant, self.seed = home, spec, variant, seed
        self.shared = shared
        """A folder for what all cells use."""

    @property
    def name(self) -> str:
        return f"{self.variant}-{self.seed}"

    def exam(self) -> RunFolder | None:
        """The exam, if it is complete."""
        folder = _existing(self.home / "exam")
        return folder if folder is not None and folder.summary() else None

    def do(self, host: Host, tell: Callable[[str], object] = lambda phase: None) -> RunFolder:
        """Do what is missing, and return the exam."""
        like = self.spec.variants[self.variant].like
        learner = (
            self
            if not like
            else Cell(self.home.with_name(f"{like}-{self.seed}"), self.spec, like, self.seed, self.shared)
        )
        newest, learned = learner.learn(host, tell)
        tell(f"{self.name} exam")
        make_folder(self.home)
        if _existing(self.home / "exam") is None:
            # Copied under another name first, so that a copy that was interrupted is not taken for a whole one.
            shutil.rmtree(self.home / "exam-store", ignore_errors=True)
            shutil.copytree(learner.home / "store", self.home / "exam-store")
        places = self._places("exam-store") | newest
        exam = self.spec.phase(self.variant, "exam", places, seed=self.seed, learned=learned)
        return self._play(self.home / "exam", exam, host)[0]

    def learn(
        self, host: Host, tell: Callable[[str], object] = lambda phase: None
    ) -> tuple[dict[str, str], dict[str, Path]]:
        """Do what is missing before the exam. Return where the newest adapter is, and what reward models learned."""
        newest, learned = dict[str, str](), dict[str, Path]()
        make_folder(self.home / "store")
        make_folder(self.shared)
        for number in range(1, self.spec.rounds + 1):
            tell(f"{self.name} round {number} live")
            before = (number - 1) * int(self.spec.live.get("episodes", 0))
            places = self._places("store") | newest | {"before": str(before)}
            live = self.spec.phase(self.variant, "live", places, seed=self.seed, learned=learned, later=number > 1)
            folder, _ = self._play(self.home / f"{number}-live", live, host)
            learned |= {path.name: path for path in (folder.path / "rewards").glob("[!.]*")}
            if self.spec.variants[self.variant].trains:
                tell(f"{self.name} round {number} train")
                train = self.spec.phase(self.variant, "train", places, seed=self.seed + 1000 * number, learned=learned)
                folder, summary = self._play(self.home / f"{number}-train", train, host)
                if summary.adapter:
                    newest = {"adapter": str(folder.path / summary.adapter), "training": str(folder.path)}
        return newest, learned

    def _places(self, store: str) -> dict[str, str]:
        return {"store": str(self.home / store), "shared": str(self.shared), "seed": str(self.seed)}

    def _play(self, root: Path, spec: RunSpec, host: Host) -> tuple[RunFolder, Summary]:
        folder = _existing(root)
        run = Run.create(spec, host, root) if folder is None else Run.open(folder, host)
        summary = asyncio.run(run.execute())
        return run.folder, summary


def _existing(root: Path) -> RunFolder | None:
    """The run below a folder. One that was killed before it had its description is removed."""
    found = None
    for path in sorted(root.glob("*")):
        if (path / "run.json").exists():
            found = RunFolder.open(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
    return found


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a loop."""

    rows: list[Row]
    contrasts: list[Row]
    groups: list[Group]

    def to_record(self) -> dict[str, Any]:
        return {name: [one.to_record() for one in getattr(self, name)] for name in ("rows", "contrasts", "groups")}


class Loop:
    """A loop and its folder."""

    def __init__(self, path: Path, spec: LoopSpec, seeds: range) -> None:
        self.path, self.spec, self.seeds = path, spec, seeds
        # All seeds of a variant first: where a loop is stopped early, some variants are complete.
        self.cells = [_cell(path, spec, variant, seed) for variant in spec.variants for seed in seeds]

    @classmethod
    def at(cls, path: Path, spec: LoopSpec, seeds: int, first_seed: int = 1) -> Loop:
        """A new loop, or the one in this folder. More variants and seeds may be added to it later."""
        file = path / "loop.json"
        record = json.loads(spec.model_dump_json())
        if file.exists():
            before = json.loads(file.read_text("utf-8"))
            for name, own in before["variants"].items():
                if name in record["variants"] and own != record["variants"][name]:
                    raise UsageError(f"{path} has another variant {name}", fix="choose another --folder")
            if _of_cells(before) != _of_cells(record):
                raise UsageError(f"{path} belongs to another loop", fix="choose another --folder")
            for some in ("variants", "contrasts"):
                record[some] = {**before[some], **record[some]}
        make_folder(path)
        write_whole(file, json.dumps(record, indent=2) + "\n")
        return cls(path, spec, range(first_seed, first_seed + seeds))

    def do(
        self, host: Host, tell: Callable[[str, int, int], object] = lambda text, done, of: None, *, jobs: int = 1
    ) -> Result:
        """Do what is missing, `jobs` cells at a time, each in a process of its own where there are several.

        `tell` is given what is being done, and how many cells of how many are done.
        """
        missing = [cell for cell in self.cells if cell.exam() is None]
        done, of = len(self.cells) - len(missing), len(self.cells)
        if jobs == 1:
            for number, cell in enumerate(missing, start=done):
                cell.do(host, lambda text, number=number: tell(text, number, of))  # type: ignore[misc]
        else:
            tell(f"{jobs} cells at a time", done, of)
            # Those that are examined in another way need a cell that is complete.
            for like in (False, True):
                cells = [cell for cell in missing if bool(self.spec.variants[cell.variant].like) == like]
                self._do_side_by_side(cells, host, jobs, partial(_count, tell, f"{jobs} cells at a time", done, of))
                done += len(cells)
        return self.write()

    def _do_side_by_side(self, cells: Sequence[Cell], host: Host, jobs: int, done: Callable[[int], object]) -> None:
        if not cells:
            return
        spec, options = self.spec.model_dump_json(), host.options.plain()
        in_processes(_do, [(str(self.path), spec, cell.variant, cell.seed, options) for cell in cells], jobs, done=done)

    def write(self) -> Result:
        """Write table.json and report.html, and return what they say."""
        result = self.result()
        write_whole(self.path / "table.json", json.dumps(result.to_record(), indent=2) + "\n")
        write_report(self.path / "report.html", self.spec, result.rows, result.contrasts, result.groups)
        return result

    def result(self) -> Result:
        """The tables of the cells that are complete."""
        found: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
        for cell in self.cells:
            folder = cell.exam()
            if folder is not None:
                found.setdefault(cell.variant, []).extend((cell.seed, record) for record in folder.metrics())
        exams: Exams = found
        spec, own = self.spec, self.spec.own_users
        about = {name: variant.about for name, variant in spec.variants.items()}
        figures = (*spec.figures, *spec.details)
        return Result(
            table(exams, about, figures, own_users=own),
            contrasts(exams, spec.contrasts, figures, own_users=own),
            by_group(exams, spec.groups, spec.figures[0], own_users=own),
        )


def _of_cells(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the cells depend on. What is only compared and shown may change."""
    shown = ("variants", "contrasts", "figures", "details", "groups", "own_users", "quick")
    return {name: value for name, value in record.items() if name not in shown}


def _cell(path: Path, spec: LoopSpec, variant: str, seed: int) -> Cell:
    return Cell(path / "cells" / f"{variant}-{seed}", spec, variant, seed, path / "shared")


def _count(tell: Callable[[str, int, int], object], text: str, before: int, of: int, done: int) -> None:
    tell(text, before + done, of)


def _do(job: tuple[str, str, str, int, dict[str, Any]]) -> str:
    """Do one cell in a worker process."""
    path, spec, variant, seed, options = job
    cell = _cell(Path(path), LoopSpec.model_validate_json(spec), variant, seed)
    cell.do(Host.load(HostOptions.from_plain(options)))
    return cell.name
