"""A run whose episodes come from outside: each is a session of somebody who talks with the policy.

It has no plan and no end. What was answered is on disk before the answer is given away: `turns.jsonl` gets a line for
each turn, and the whole episode goes to `episodes.jsonl` when its session ends. It is then scored, and the memories
learn from it if its user is known and gave feedback or asked to remember something.

    async with LiveRun.create(spec, host, Path("runs")) as live:
        session = live.begin("tea", user="ada")
        reply = await session.answer(messages)
        await live.keep(session)
        await live.conclude(session)
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Self

from ..episode import Episode, Task
from ..errors import StorageError
from ..host import Host
from ..operation import PlayedEpisode
from ..seeds import Seeds
from ..session import Session, extended
from .assembly import Assembly, assemble
from .observers.hook_calls import HookCalls
from .observers.observer import RunInfo, told_together
from .observers.tracking import Tracking
from .play import Plan, Play
from .records.folder import RunFolder, list_runs
from .records.journal import read_journal, write_whole
from .records.play_records import Records
from .records.summary import Summary, summarize, total_usage
from .run import describe_run
from .spec.resolution import resolve, resolve_again
from .spec.run_spec import RunSpec

__all__ = ["LiveRun", "read_sessions"]

_TURNS = "turns"


class LiveRun:
    """An open run, for the duration of `async with`."""

    def __init__(self, folder: RunFolder, assembly: Assembly) -> None:
        self.folder, self.assembly = folder, assembly
        self.sessions: dict[str, Session] = {}
        """The sessions in progress, by name."""
        self.ended: set[str] = set()
        """The names of those that have ended."""
        self._seeds = Seeds(assembly.spec.seed).child("sessions")
        self._learning = asyncio.Lock()
        self._failure: StorageError | None = None
        self._forgotten: dict[str, int] = {}
        """The last session of each user that nothing is learned from, because they were forgotten in it."""

    @classmethod
    def create(cls, spec: RunSpec, host: Host, root: Path, *, again: bool = False) -> Self:
        """Create a run. Everything that can be wrong with the spec is an error before the folder is made.

        With `again`, continue the newest run of the same spec instead, if there is one.
        """
        resolved, sources = resolve(spec, host)
        assembly = assemble(resolved, host)
        about = {**describe_run(resolved, sources, assembly), "episodes": 0}
        if again:
            wanted = json.loads(json.dumps(about["spec"]))
            for folder in list_runs(root):
                if folder.about["spec"] == wanted:
                    return cls(folder, assembly)
        return cls(RunFolder.create(root, spec.environment.name, about), assembly)

    @classmethod
    def open(cls, folder: RunFolder, host: Host) -> Self:
        """Open a run of an earlier process. Its sessions in progress go on."""
        spec = resolve_again(folder.about, host, f"{folder.path}/run.json", {})
        return cls(folder, assemble(spec, host))

    async def __aenter__(self) -> Self:
        self.folder.lock()
        try:
            await self.assembly.open(self.folder.path)
            records, spec = Records(self.folder.path), self.assembly.spec
            self._began = time.monotonic()
            notes = self.assembly.host.notes
            self._tracking = Tracking(self.info, self.assembly.trackers, notes)
            self._observer = told_together(HookCalls(self.info, self.assembly.host), self._tracking)
            self._turns = self.folder.journal(_TURNS)
            self._journals = (self._turns, records.journal("episodes"), records.journal("metrics"))
            plan = Plan([], self.assembly.policy, spec.sampling, self._seeds, learns=False, retains=True)
            self._play = Play(self.assembly, plan, records, *self._journals[1:], self._observer)
            self._observer.started(self.info, 0)
            self.assembly.trace = self._tracking.trace if self._tracking.traces else None
            self.assembly.spending.tell = self._observer.spent
            self.assembly.spending.count(*total_usage(self.folder.played()))
            await self._recover(records)
        except BaseException:
            await self.assembly.close()
            self.folder.unlock()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            for journal in self._journals:
                journal.close()
            if any(True for _ in Records(self.folder.path).concluded()):
                self._observer.finished(self.summarize())
        finally:
            self._tracking.close()
            await self.assembly.close()
            self.folder.unlock()

    @property
    def info(self) -> RunInfo:
        """What observers are given about the run."""
        return RunInfo(self.folder, self.assembly.spec)

    def begin(self, name: str, user: str = "") -> Session:
        """Begin a session. No other session of the run may have its name."""
        self._last += 1
        task = Task(self._last, self._seeds.integer(self._last), user=user, query=name)
        session = self.sessions[name] = self._session(task)
        session.note("session", name)
        return session

    async def keep(self, session: Session) -> None:
        """Write what is new in a session to disk."""
        if self._failure is not None:  # what is missing on disk can't be followed by more
            raise self._failure
        try:
            await self._turns.commit(session.news().to_record())
        except StorageError as error:
            self._failure = error
            raise

    async def conclude(self, session: Session, finish: str = "ended") -> float:
        """End a session: store it, score it and learn from it. Returns its reward."""
        session.end(finish)
        await self.keep(session)
        self.ended.add(session.name)
        self.sessions.pop(session.name, None)
        episode, ended = session.episode, time.time()
        episode.environment = self.assembly.spec.environment.name
        if self.assembly.trace is not None:
            began = ended - (episode.ended - episode.started)
            whole = PlayedEpisode(task=episode.task, name=episode.environment, began=began, ended=ended, finish=finish)
            self.assembly.trace(whole)
        return await self._take(session.episode)

    async def forget(self, session: Session) -> dict[str, int]:
        """Delete what the memories know of a session's user. Returns how much of what.

        Nothing that was said so far is learned again, neither from this session nor from earlier ones.
        """
        deleted: dict[str, int] = {}
        async with self._learning:
            user = session.episode.task.user
            for memory in self.assembly.memories:
                for name, count in (await memory.forget(user)).items():
                    deleted[name] = deleted.get(name, 0) + count
            session.note("session", "forgotten")
            await self.keep(session)
            self._forget(session.episode)
            session.forget_recalled()
        return deleted

    def summarize(self) -> Summary:
        """Write the summary of what is concluded."""
        summary = summarize(self.folder, time.monotonic() - self._began)
        write_whole(self.folder.path / "summary.json", json.dumps(summary.to_record(), indent=2) + "\n")
        return summary

    def _session(self, task: Task) -> Session:
        spec = self.assembly.spec
        sampling = spec.sampling.sampling(task.seed)
        return self.assembly.session(task, self.assembly.policy, sampling, self._observer.turned)

    async def _take(self, episode: Episode) -> float:
        # One after the other: memories learn in the order of the metrics, also when the run is opened again.
        async with self._learning:
            await self._play.take(episode)
            reward = self._play.scored.pop(episode.id).reward
            await self._learn(episode, reward)
        return reward

    async def _learn(self, episode: Episode, reward: float) -> None:
        """Learn from a session whose user is known, and said what they think of it or what to remember."""
        task = episode.task
        if not (self.assembly.spec.memories_learn and task.user and _teaches(episode)):
            return
        if task.index <= self._forgotten.get(task.user, -1):
            return
        for memory in self.assembly.memories:
            await memory.learn(episode, reward)

    def _forget(self, episode: Episode) -> None:
        task = episode.task
        self._forgotten[task.user] = max(task.index, self._forgotten.get(task.user, -1))

    async def _recover(self, records: Records) -> None:
        """Restore the state of an earlier process."""
        await self._play.recover()
        self._play.scored.clear()
        kept = read_sessions(self.folder.path)
        for episode in kept:
            if any(event.kind == "session" and event.name == "forgotten" for event in episode.events):
                self._forget(episode)
        done = set[str]()
        for episode, line in records.replay():
            done.add(episode.id)
            if line is not None:
                await self._learn(episode, float(line["reward"]))
        self._last = max((episode.task.index for episode in kept), default=-1)
        waiting = [episode for name, episode in self._play.played.items() if name not in self._play.concluded]
        self._play.played = {episode.id: episode for episode in waiting}
        for episode in waiting:
            await self._take(episode)
        for episode in kept:
            if episode.id in done:
                self.ended.add(episode.task.query)
                continue
            session = self._session(episode.task)
            session.restore(episode)
            self.assembly.spending.count(episode.usage)
            self.sessions[session.name] = session
            if session.over:
                await self.conclude(session, episode.finish)


def read_sessions(folder: Path, name: str | None = None) -> list[Episode]:
    """All sessions of a live run, or the one of a name, as far as they are on disk. Names are the queries of tasks."""
    found: dict[str, Episode] = {}
    for line in read_journal(folder / f"{_TURNS}.jsonl"):
        if name is not None and line["task"]["query"] != name:
            continue
        news = Episode.from_record(line)
        found[news.id] = extended(found[news.id], news) if news.id in found else news
    return list(found.values())


def _teaches(episode: Episode) -> bool:
    return any(event.kind == "observation" and event.name in ("feedback", "remember") for event in episode.events)
