"""A run whose episodes come from outside: each is a session of somebody who talks with the policy.

It has no plan and no end. What is asked is written before the policy is, and what was answered is on disk before the
answer is given away: `turns.jsonl` gets a line for each question and each turn, and the whole episode goes to
`episodes.jsonl` when its session ends. It is then scored, and the memories learn from it if its user is known and gave
feedback or asked to remember something. On a full disk nothing more is answered, until there is room again. Then the
sessions go on from what is on disk: an answer that couldn't be recorded was refused, so it isn't kept either.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar
from weakref import WeakSet

from ..boundary.crossing import MemoryThread
from ..boundary.settings_input import operational_keys
from ..episode import Episode, Task
from ..errors import AgentfwError, EndpointError, RunFolderError, StorageError, UnknownNameError, UsageError
from ..host import Host
from ..memory import Memory, Remembered
from ..seeds import Seeds
from ..tool import Tool
from ..tracker import PlayedEpisode
from ..turns.session import Session, Unfinished, extended, lengths
from ..turns.turn_builder import first_part
from .assembly import Assembly, assemble
from .hearing import Hearing
from .observers import HookCalls, RunInfo, Tracking, combined_observer
from .play import Plan, Play
from .records.folder import RunFolder, list_runs
from .records.journal import Journal, NoJournal, make_folder, make_private, read_journal, sealed, write_whole
from .records.play_records import Records, naming_line
from .records.summary import Summary, summarize, total_usage
from .run import describe_run
from .spec.resolution import resolve, resolve_again, segment_of
from .spec.run_spec import RunSpec

logger = logging.getLogger(__name__)

_PAUSE = 0.25  # seconds between two looks: about what a kill loses of a streamed answer
_AGAIN = 2.0  # seconds between two attempts to record something on a disk that was full


class Streams:
    """A file for each answer in progress: after a kill the next process knows what was streamed. None is flushed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "streams"
        self._written: dict[Path, int] = {}  # number of pieces in each file

    def left(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What an earlier process left: the id of the episode, and what its record says of the answer."""
        for file in sorted(self.path.glob("*")):
            head, _, text = file.read_bytes().partition(b"\n")
            try:
                about = json.loads(head)
                episode, shown, started = str(about["episode"]), tuple(about["shown"]), float(about["started"])
            except (ValueError, KeyError, TypeError):  # killed in its first line
                continue
            told = [text.decode("utf-8", "ignore")]  # the last character may be half written
            yield episode, Unfinished(0, started, shown, told).cut_off("killed")

    def clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._written.clear()

    async def follow(self, sessions: Callable[[], Iterable[Session]]) -> None:
        """Write what is streamed in these sessions, until this is cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)
            answers = {
                self.path / f"{session.episode.id}-{answer.number}": (session.episode.id, answer, len(answer.told))
                for session in sessions()
                for answer in session.unfinished
                if answer.told
            }
            if answers or self._written:
                with suppress(OSError, StorageError):  # on a full disk the journal refuses the answer, and says why
                    await asyncio.to_thread(self._write, answers)

    def _write(self, answers: dict[Path, tuple[str, Unfinished, int]]) -> None:
        for file in self._written.keys() - answers.keys():
            file.unlink(missing_ok=True)
            del self._written[file]
        for file, (episode, answer, count) in answers.items():
            before = self._written.get(file)
            head = json.dumps({"episode": episode, "shown": answer.shown, "started": answer.started}) + "\n"
            text = ("" if before is not None else head) + "".join(answer.told[before or 0 : count])
            make_folder(self.path)
            make_private(file)
            with file.open("ab") as handle:
                handle.write(text.encode("utf-8", "replace"))
            self._written[file] = count


Answer = TypeVar("Answer")
Again = Literal["", "newest", "free"]

_TURNS, _HEARD = "turns", "heard"
_WHOLE = "whole"  # marks a line with all of a session, which replaces what the lines before it have
_TOLD = ("feedback", "remember")  # events that let the memories learn from a session
_HEARS = 5.0  # seconds at the end for what was said and not heard yet


class EndedSession(NamedTuple):
    """What is kept in memory of a session that has ended."""

    finish: str
    user: str


class LiveRun:
    """An open run, for the duration of `async with`."""

    keeps = True
    """Whether its folder is the record. Set before it is opened."""

    def __init__(self, folder: RunFolder, assembly: Assembly, about: Mapping[str, Any] | None = None) -> None:
        """`about` is what run.json says from now on, if a run of other options is continued."""
        self.folder, self.assembly, self._about = folder, assembly, about
        self.sessions: dict[str, Session] = {}  # the sessions in progress, by name
        self.ended: dict[str, EndedSession] = {}  # sessions that have ended, by name
        self._seeds = Seeds(assembly.spec.seed).child("sessions")
        self._learning = asyncio.Lock()
        self._failure: StorageError | None = None
        self._on_disk: dict[str, tuple[int, int, int, int]] = {}  # how much of each session was acknowledged
        self._replaced = WeakSet[Session]()  # of which something couldn't be recorded: others go on in their place
        self._waiting: list[Episode] = []  # episodes that have ended and couldn't be scored yet
        self._last = -1  # the highest number of a session

    @classmethod
    def create(cls, spec: RunSpec, host: Host, root: Path, *, again: Again = "") -> Self:
        """Create a run. Everything that can be wrong with the spec is an error before the folder is made.

        With `again`, continue the newest run of the same environment and policy instead, if there is one, with what
        the spec says now: other memories and rewards, or another address of the same server. `free`: of those that no
        process works on.
        """
        resolved = resolve(spec, host)
        assembly = assemble(resolved, host)
        about = {**describe_run(resolved, assembly), "episodes": 0}
        if again:
            wanted = _who_answers(json.loads(json.dumps(about["spec"])), resolved)
            for folder in list_runs(root):
                if again == "free" and folder.state == "running":
                    continue
                if _who_answers(folder.about["spec"], resolved) == wanted:
                    return cls(folder, assembly, about)
        return cls(RunFolder.create(root, spec.environment.name, about), assembly)

    @classmethod
    def open(cls, folder: RunFolder, host: Host) -> Self:
        """Open a run of an earlier process. Its sessions in progress go on."""
        spec = resolve_again(folder.about, host, f"{folder.path}/run.json", {})
        return cls(folder, assemble(spec, host))

    async def __aenter__(self) -> Self:
        self.folder.lock()
        self._memories = MemoryThread()
        try:
            before = self.folder.about
            if self._about is not None and json.loads(json.dumps(self._about["spec"])) != before["spec"]:
                self.folder.rewrite({**before, **self._about, "began_with": before.get("began_with", before["spec"])})
            self.folder.note_segment(segment_of(self.assembly.spec, self.assembly.host))
            for guarded in self.assembly.memories:
                guarded.inside = self._memories.beside(guarded.inside)
            await self.assembly.open(self.folder.path, beside=True)
            records, spec = Records(self.folder.path), self.assembly.spec
            self._began = time.monotonic()
            (self.folder.path / "summary.json").unlink(missing_ok=True)  # it is not done
            notes, decisions = self.assembly.host.notes, self.assembly.decisions
            decisions.run = self.info
            self._tracking = Tracking(self.info, self.assembly.trackers, notes)
            self._observer = combined_observer(HookCalls(self.info, decisions.hooks), self._tracking)
            # Trackers are told of whole episodes.
            self._watch = self._observer.turned if decisions.hooks.implementations("agentfw_turn") else None
            self._streams = Streams(self.folder.path)
            open_journal: Callable[[Path], Journal] = Journal.open if self.keeps else NoJournal
            paths = [self.folder.path / f"{name}.jsonl" for name in (_TURNS, "episodes", "metrics", _HEARD)]
            # Opening one reads it to its end, which may take long.
            opened = (asyncio.to_thread(open_journal, path) for path in paths)
            self._journals = self._turns, episodes, metrics, heard = await asyncio.gather(*opened)
            memories = self.assembly.memories if spec.memories_learn else ()
            lines = await asyncio.to_thread(lambda: list(read_journal(heard.path))) if self.keeps else []
            self.hearing = Hearing(memories, heard, self.folder.path.name, lines)
            plan = Plan([], self.assembly.policy, spec.sampling, self._seeds, learns=False, retains=True)
            self._play = Play(self.assembly, plan, records, episodes, metrics, self._observer)
            self._observer.started(self.info, 0)
            self.assembly.trace = self._tracking.trace if self._tracking.traces else None
            self.assembly.spending.tell = self._observer.spent
            if self.keeps:
                await self._recover(records)
            followed = self.sessions if self.keeps and not decisions.records else {}
            self._retrying = asyncio.create_task(self._retry())
            self._following = asyncio.create_task(self._streams.follow(lambda: list(followed.values())))
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            for task in (self._following, self._retrying):
                task.cancel()
            await asyncio.wait([self._following, self._retrying])
            await self.hearing.finish(seconds=_HEARS)
            self.hearing.close()
            self._streams.clear()
            for journal in self._journals:
                journal.close()
            if not self.sessions and Records(self.folder.path).count():
                self._observer.finished(self.summarize())
        finally:
            self._tracking.close()
            await self._close()

    async def _close(self) -> None:
        await self.assembly.close()
        await asyncio.to_thread(self._memories.close)
        self.folder.unlock()

    @property
    def info(self) -> RunInfo:
        """What observers are given about the run."""
        return RunInfo(self.folder, self.assembly.spec)

    def begin(self, name: str, user: str = "", number: int | None = None, *, tools: Sequence[Tool] = ()) -> Session:
        """Begin a session, which may call these tools. Its name, and a number that is given, must be new in the run."""
        index = self._last + 1 if number is None else number
        task = Task(index, self._seeds.integer(index), user=user, query=name)
        session = self.sessions[name] = self._session(task, tools)
        session.note("session", name, {"run": self.folder.path.name, "at": round(time.time(), 3)})
        self._on_disk[name] = lengths(session.episode)
        return session

    def adopt(self, episode: Episode) -> Session:
        """Go on with a session that other processes have led so far. They let the memories hear what was said."""
        session = self._restored(episode)
        if any((event.kind, event.name) == ("session", "forgotten") for event in episode.events):
            # Of what another process was told, this session alone may know.
            self.hearing.forget_until(episode.task.user, episode.task.index)
        self.let_hear(episode, len(episode.events))
        return session

    def _restored(self, episode: Episode) -> Session:
        session = self.sessions[episode.task.query] = self._session(episode.task)
        session.restore(episode)
        self._on_disk[session.name] = lengths(episode)
        return session

    def leave(self, session: Session) -> None:
        """Drop what this process has of a session that goes on elsewhere, or has ended there."""
        self.hearing.leave(session.episode)
        self.sessions.pop(session.name, None)
        self.ended.pop(session.name, None)
        self._on_disk.pop(session.name, None)

    def write(self, session: Session) -> None:
        """Write what is new in a session without waiting for the disk. It survives a kill of this process."""
        with self._journalled(session):
            self._turns.write(session.news().to_record())

    async def keep(self, session: Session) -> None:
        """Write what is new in a session to disk."""
        with self._journalled(session):
            news, until = session.news(), session.in_news
            await self._turns.commit(news.to_record())
        with self._journalled(session):  # what was written before it, too
            self._on_disk[session.name] = until
            self.let_hear(session.episode)

    def let_hear(self, episode: Episode, first: int | None = None) -> None:
        """Let the memories hear what is new in a session, or all from the event `first` on, if any of them hears."""
        if self.hearing.hears:
            self.hearing.take(episode, first)

    @property
    def failure(self) -> StorageError | None:
        """Why nothing more can be recorded, if so."""
        return self._failure or self._turns.failure

    @contextmanager
    def _journalled(self, session: Session) -> Iterator[None]:
        """Refuse further records once one couldn't be written, until there is room again."""
        if self.failure is not None:
            self._failed(self.failure)
            raise self.failure
        if session in self._replaced:
            raise StorageError("what was said meanwhile couldn't be recorded", fix="ask again")
        try:
            yield
        except StorageError as error:
            self._failed(error)
            raise

    def _failed(self, error: StorageError) -> None:
        """Record nothing more until `_retry` finds that there is room again."""
        if self._failure is None:
            self._failure, cause = error, error.__cause__
            number = cause.errno if isinstance(cause, OSError) and cause.errno else 0
            name = f" ({errno.errorcode.get(number, number)})" if number else ""
            logger.error("%s%s; nothing is answered until it can be; trying every %g s", error.message, name, _AGAIN)

    async def _retry(self) -> None:
        """Go on recording as soon as there is room again, for ever."""
        while True:
            await asyncio.sleep(_AGAIN)
            if self.failure is None:
                continue
            self._failed(self.failure)
            try:
                for journal in self._journals:
                    await journal.retry()
                for session in list(self.sessions.values()):
                    await self._go_back(session)
                while self._waiting:
                    await self._take(self._waiting[0])
                    del self._waiting[0]
            except StorageError:
                continue
            self._failure = None
            logger.warning("%s/ can be written again", self.folder.path)

    async def _go_back(self, session: Session) -> None:
        """Replace a session by what was acknowledged of it, unless that is all."""
        before = self._on_disk[session.name]
        if lengths(session.episode) == before and not session.over:
            return
        self._replaced.add(session)
        episode = first_part(session.episode, before)
        # Some of what comes after it may be on disk, so it is written as a whole.
        await self._turns.commit({**episode.to_record(), _WHOLE: True})
        self._restored(episode)

    async def conclude(self, session: Session, finish: str = "ended") -> float | None:
        """End a session: store it, score it and learn from it. Returns its reward. None if nothing was said of it."""
        session.end(finish)
        await self.keep(session)
        self.leave(session)
        self.ended[session.name] = EndedSession(session.episode.finish, session.episode.task.user)
        episode, ended = session.episode, time.time()
        episode.environment = self.assembly.spec.environment.name
        if self.assembly.trace is not None:
            began = ended - (episode.ended - episode.started)
            whole = PlayedEpisode(task=episode.task, name=episode.environment, began=began, ended=ended, finish=finish)
            self.assembly.trace(whole)
        try:
            return await self._take(episode)
        except StorageError as error:
            if self.keeps:  # otherwise, whoever leads its sessions tries again
                self._waiting.append(episode)
                self._failed(error)
            raise

    async def remembered(self, user: str) -> list[Remembered]:
        """What the memories keep of a user, the newest of each memory first."""
        return [one for memory in self._shown_memories() for one in await memory.remembered(user)]

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        """Replace an item of a user in the memory that has it."""
        return await self._changed(user, item, lambda memory: memory.correct(user, item, text))

    async def forget_one(self, user: str, item: str) -> None:
        """Delete an item of a user from the memory that has it."""
        await self._changed(user, item, lambda memory: memory.forget_one(user, item))

    async def _changed(self, user: str, item: str, change: Callable[[Memory], Awaitable[Answer]]) -> Answer:
        for memory in self._shown_memories():
            try:
                found = await change(memory)
            except UnknownNameError:
                continue
            await self._forget_recalled(user)
            return found
        raise UnknownNameError("remembered item", item, [], fix="ask for the list of them again")

    async def forget(self, user: str) -> dict[str, int]:
        """Delete what the memories know of a user, and learn nothing again that was said so far. Returns how much."""
        deleted = Counter[str]()
        async with self._learning:
            await self.hearing.forget(user, self._last, time.time())
            for memory in self.assembly.memories:
                deleted.update(await memory.forget(user))
            await self._forget_recalled(user, note=True)
        return dict(deleted)

    def _shown_memories(self) -> Sequence[Memory]:
        """The memories whose users can see what they keep. Raises UsageError if there is none."""
        if not self.assembly.memories:
            raise UsageError("there is no memory", fix="serve with one, such as --memory skillgraph")
        # One that can't be asked says so itself.
        shown = [memory for memory in self.assembly.memories if memory.overrides("remembered")]
        return shown or self.assembly.memories[:1]

    async def _forget_recalled(self, user: str, *, note: bool = False) -> None:
        for session in [each for each in self.sessions.values() if each.episode.task.user == user]:
            if note:
                session.note("session", "forgotten")
            session.forget_recalled()
            await self.keep(session)

    def summarize(self) -> Summary:
        """Write the summary of what is concluded."""
        summary = summarize(self.folder, time.monotonic() - self._began)
        write_whole(self.folder.path / "summary.json", sealed(summary.to_record()))
        return summary

    def _session(self, task: Task, tools: Sequence[Tool] = ()) -> Session:
        self._last = max(self._last, task.index)
        policy = self.assembly.surrounded(self.assembly.policy)
        sampling = self.assembly.spec.sampling.sampling(task.seed)
        write = self.write if self.keeps else None
        return self.assembly.session(task, policy, sampling, self._watch, write=write, tools=tools)

    async def _take(self, episode: Episode) -> float | None:
        # One after the other: memories learn in the order of the metrics, also when the run is opened again.
        async with self._learning:
            if not episode.turns and episode.failed_requests:  # nobody could answer
                if episode.id not in self._play.played:
                    await self._play.store(episode)
                self._play.leave_out([episode.id], "answer", EndpointError(episode.failed_requests[-1]))
                return None
            problem: AgentfwError | None = None
            try:
                if episode.id not in self._play.concluded:  # otherwise, there was no room for what a memory learned
                    await self._play.take(episode)
            except StorageError:
                raise
            except AgentfwError as error:  # of one reward model, which is no reason to serve nobody
                problem = error
            if (scored := self._play.scored.get(episode.id)) is None:
                why = problem or self._play.failures[episode.id]["reason"]
                logger.warning("the session %s was not scored: %s", episode.task.query, why)
                return None
            await self._learn(episode, scored.reward)
            del self._play.scored[episode.id]
        return None if scored.unrated else scored.reward

    async def _learn(self, episode: Episode, reward: float) -> None:
        """Learn from a session whose user is known, and said what they think of it or what to remember."""
        task = episode.task
        # Feedback with a name is about one metric, which says nothing of whether the answer was liked.
        told = {each.name for each in episode.events if each.kind == "observation" and not each.data.get("metric")}
        forgotten = task.index <= self.hearing.forgotten.get(task.user, -1)
        if forgotten or not (self.assembly.spec.memories_learn and task.user and told.intersection(_TOLD)):
            return
        await self.hearing.finish(task.user)
        for memory in self.assembly.memories:
            try:
                await memory.learn(episode, reward)
            except StorageError:
                raise
            except AgentfwError as error:
                logger.warning("the session %s was not learned: %s", task.query, error)

    async def _recover(self, records: Records) -> None:
        left = await asyncio.to_thread(_Left, records, self.hearing, learns=bool(self.assembly.memories))
        self._play.concluded, self.ended = set(left.rewards), left.ended
        self._last = max(left.last, *self.hearing.forgotten.values(), -1)
        self.assembly.spending.count(*left.usage)
        for episode in sorted((*left.going_on.values(), *left.unheard), key=lambda one: one.task.index):
            self.let_hear(episode)
        self.hearing.recovered(left.ended_episodes)
        for episode, reward in left.learned:
            await self._learn(episode, reward)
        self._play.played = {episode.id: episode for episode in left.waiting}
        for episode in left.waiting:
            await self._take(episode)
        for episode in left.going_on.values():
            self.assembly.spending.count(episode.usage)
            self._restored(episode)
        # How far the answers had come that an earlier process was giving when it was killed.
        sessions = {session.episode.id: session for session in self.sessions.values() if not session.over}
        for name, cut in self._streams.left():
            if (going_on := sessions.get(name)) is None:
                continue
            known = {(turn.started, turn.shown) for turn in going_on.episode.turns}
            known |= {_place(event.data) for event in going_on.episode.events if event.name == "cut_off"}
            if _place(cut) not in known:
                going_on.note("session", "cut_off", cut)
                await self.keep(going_on)
        self._streams.clear()
        for session in [session for session in self.sessions.values() if session.over]:
            await self.conclude(session, session.episode.finish)


class _Left:
    """What an earlier process left. Of sessions that have ended, only what is still needed is kept."""

    def __init__(self, records: Records, hearing: Hearing, *, learns: bool) -> None:
        lines = {str(line["episode"]): line for line in records.concluded()}
        self.rewards = {name: float(line["reward"]) for name, line in lines.items()}
        usage, judged = total_usage(lines.values())
        self.waiting: list[Episode] = []  # what was stored and not scored
        told: dict[str, Episode] = {}
        failed = {line["episode"] for line in records.failed()}
        self.ended_episodes = set[str]()
        for record in read_journal(records.path / "episodes.jsonl"):
            name = Task(**record["task"]).id
            self.ended_episodes.add(name)
            if name not in lines and name not in failed:
                self.waiting.append(Episode.from_record(record))
                usage += self.waiting[-1].usage
            elif learns and name in lines and any(event[2] in _TOLD for event in record["events"]):
                told[name] = Episode.from_record(record)
        if missing := lines.keys() - self.ended_episodes:
            text = f"{records.path}/episodes.jsonl lacks episode {min(missing)}, which metrics.jsonl contains"
            raise RunFolderError(text, fix="restore both from a backup, or start a new run")
        self.usage = usage, judged
        # What the memories learned from, in their order. Those that keep nothing on disk get it back.
        self.learned = [(told[name], reward) for name, reward in self.rewards.items() if name in told]
        self.going_on: dict[str, Episode] = {}
        self.ended: dict[str, EndedSession] = {}
        self.last, unheard = -1, set[str]()
        turns = records.path / f"{_TURNS}.jsonl"
        for number, line in enumerate(read_journal(turns), start=1):
            with naming_line(turns, number):
                task = line["task"]
                name = Task(**task).id
                self.last = max(self.last, task["index"])
                if any(event[1:3] == ["session", "forgotten"] for event in line["events"]):
                    hearing.forget_until(task["user"], task["index"])
                if name not in self.ended_episodes:
                    _add_line(self.going_on, line)
                    continue
                self.ended[task["query"]] = EndedSession(line["finish"], task["user"])
                if name not in unheard and hearing.lacks(name, line):
                    unheard.add(name)
        self.unheard = [one for one in read_sessions(records.path) if one.id in unheard] if unheard else []


def _add_line(found: dict[str, Episode], line: dict[str, Any]) -> None:
    replaces = line.pop(_WHOLE, False)
    news = Episode.from_record(line)
    found[news.id] = news if replaces or news.id not in found else extended(found[news.id], news)


def read_sessions(folder: Path, name: str | None = None) -> list[Episode]:
    """All sessions of a live run, or the one of a name, as far as they are on disk. Names are the queries of tasks."""
    found: dict[str, Episode] = {}
    path = folder / f"{_TURNS}.jsonl"
    for number, line in enumerate(read_journal(path), start=1):
        with naming_line(path, number):
            if name is None or line["task"]["query"] == name:
                _add_line(found, line)
    return list(found.values())


def _who_answers(spec: Mapping[str, Any], now: RunSpec) -> tuple[Any, ...]:
    """What a run has to have in common with the one that continues it."""
    policy = spec["policy"]
    free = operational_keys(now.policy.checked) if now.policy.checked is not None else {}
    settings = {key: value for key, value in policy["settings"].items() if key not in free}
    return spec["environment"], policy["name"], settings, spec["seed"]


def _place(cut: Mapping[str, Any]) -> tuple[float, tuple[int, ...]]:
    return cut["started"], tuple(cut["shown"])
