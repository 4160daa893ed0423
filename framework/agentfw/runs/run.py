"""A run: episodes of one spec, played, scored, learned from and written down, many at once.

The one rule: an episode that was reported is on disk. A run that was killed at any moment goes on with the episodes
that are missing, and ends with the same ones as a run that was never disturbed.

    run = Run.create(spec, host, Path("runs"))
    summary = asyncio.run(run.execute())

Episodes are played side by side. Where a memory learns, they are played in batches of `concurrency`: all of a batch see
the memory as it was before the batch, and it learns from them in the order of the tasks. So the order in which they
happen to end changes nothing. A run that goes on hands the memory everything once more, in the same order: one that
keeps its notes on disk has them, one that keeps them in the process gets them back.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ..episode import Episode, Turn
from ..host import Host
from ..seeds import Seeds
from .assembly import Assembly, about_run, assemble, blamed, resolve, resolve_again
from .folder import RunFolder
from .journal import write_whole
from .play import Audience, Plan, Play, in_groups
from .spec import RunSpec, parse_spec
from .summary import Summary, summarize

__all__ = ["Run", "Watcher"]


class Watcher:
    """Whoever wants to see a run while it goes on. Every method may be left as it is."""

    def started(self, run: Run, total: int, done: int) -> None: ...

    def turned(self, episode: Episode, turn: Turn) -> None: ...

    def ended(self, episode: Episode, reward: float, done: int) -> None: ...

    def finished(self, summary: Summary) -> None: ...


class Run:
    """One run and its folder."""

    def __init__(self, folder: RunFolder, spec: RunSpec, host: Host, assembly: Assembly | None = None) -> None:
        self.folder, self.spec, self.host = folder, spec, host
        self._assembly = assembly

    @property
    def id(self) -> str:
        return self.folder.id

    @classmethod
    def create(cls, spec: RunSpec, host: Host, root: Path) -> Run:
        """A new run. Everything that can be wrong with the spec is told before the folder is made."""
        resolved, sources = resolve(spec, host)
        assembly = assemble(resolved, host)
        tasks = assembly.tasks(spec.episodes, spec.split)
        with blamed(f'environment "{resolved.environment.name}"'):
            scene = assembly.environment().scene(tasks)
        total = len(tasks) * spec.samples
        about = {"total": total, "scene": scene, **about_run(resolved, sources, assembly, host)}
        # What was made is what will run: a model isn't loaded twice.
        return cls(RunFolder.create(root, spec.environment.name, about), resolved, host, assembly)

    @classmethod
    def open(cls, folder: RunFolder, host: Host) -> Run:
        """A run that is there already; a plugin that is missing or has changed since is told."""
        spec = parse_spec(folder.about["spec"], f"{folder.path}/run.json")
        return cls(folder, resolve_again(spec, folder, host), host)

    async def execute(self, watcher: Watcher | None = None) -> Summary:
        """Play what is missing, and sum up. A run that is done already is not begun again."""
        self.folder.lock()
        try:
            done = self.folder.summary()
            return Summary.from_record(done) if done else await self._execute(watcher or Watcher())
        finally:
            self.folder.unlock()

    async def _execute(self, watcher: Watcher) -> Summary:
        assembly, self._assembly = self._assembly or assemble(self.spec, self.host), None
        began = time.monotonic()
        try:
            await assembly.open(self.folder.path)
            with self.folder.journal("episodes") as episodes, self.folder.journal("metrics") as metrics:
                play = Play(self, assembly, self._plan(assembly), episodes, metrics, _Audience(self, assembly, watcher))
                await play.recover(self.folder)
                assembly.track("begin", self.id, self.folder.path, self.spec.model_dump(mode="json"))
                self.host.call("agentfw_run_started", run=self)
                watcher.started(self, len(play.plan.tasks), len(play.concluded))
                await play.all()
            references = assembly.references(assembly.tasks(self.spec.episodes, self.spec.split))
            summary = summarize(self.folder, time.monotonic() - began, references)
            write_whole(self.folder.path / "summary.json", json.dumps(summary.to_record(), indent=2) + "\n")
            assembly.track("finish", summary.means())
            self.host.call("agentfw_run_finished", run=self, summary=summary)
            watcher.finished(summary)
            return summary
        finally:
            await assembly.close()

    def _plan(self, assembly: Assembly) -> Plan:
        seeds = Seeds(self.spec.seed).child("policy")
        tasks = in_groups(assembly.tasks(self.spec.episodes, self.spec.split), self.spec.samples)
        return Plan(tasks, assembly.policy, self.spec.policy, self.spec.sampling, seeds)


class _Audience(Audience):
    """Tells the trackers and whoever watches."""

    def __init__(self, run: Run, assembly: Assembly, watcher: Watcher) -> None:
        self.run, self.assembly, self.watcher = run, assembly, watcher

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.watcher.turned(episode, turn)

    def concluded(self, episode: Episode, record: dict[str, Any], done: int) -> None:
        step = episode.task.index * self.run.spec.samples + episode.task.sample
        figures = {"reward": record["reward"], "utility": episode.utility, **record["outcome"]}
        self.assembly.track("log", step, figures)
        self.watcher.ended(episode, record["reward"], done)
