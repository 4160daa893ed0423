"""One cell of a loop: one variant with one seed. Each phase is an ordinary run in a folder of its own.

    cells/A1-1/store/            what the memories have learned so far
    cells/A1-1/1-live/RUN        the first round: a run in which they learn, then a training
    cells/A1-1/1-train/RUN
    cells/A1-1/exam-store/       the copy that the exam works on
    cells/A1-1/exam/RUN

A cell that was interrupted is continued: complete runs are not started again, and the incomplete one is resumed.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from ..host import Host
from ..runs.records.folder import RunFolder
from ..runs.records.journal import make_folder
from ..runs.records.summary import Summary
from ..runs.run import Run
from ..runs.spec.run_spec import RunSpec
from .spec import LoopSpec

__all__ = ["Cell"]


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
