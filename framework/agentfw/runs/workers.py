"""Does the same work on many jobs, in worker processes.

The answers are those that one process would give, in the order of the jobs, however many workers there are and
whichever of them dies: the job of a dead worker is done again. No worker outlives the process that started it, also
where that was killed.

    >>> in_processes(abs, [-1, 2, -3], 1)
    [1, 2, 3]

A job and its answer are plain values, and the work is a function of a module, because they go to another process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from ..errors import AgentfwError

__all__ = ["in_processes", "usual_processes"]

Job = TypeVar("Job")
Answer = TypeVar("Answer")

_TRIES = 3
"""So many times in a row workers may die before one more job is done."""


def usual_processes(jobs: int) -> int:
    """As many as there are cores for us, and no more than jobs."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, jobs))


def in_processes(
    work: Callable[[Job], Answer],
    jobs: Sequence[Job],
    processes: int,
    *,
    done: Callable[[int], object] = lambda count: None,
) -> list[Answer]:
    """What `work` says to each job. `done` hears how many are done; an error of a job ends them all."""
    answers: dict[int, Answer] = {}
    if processes == 1:
        for number, job in enumerate(jobs):
            answers[number] = work(job)
            done(len(answers))
    died = 0
    while len(answers) < len(jobs):
        before = len(answers)
        left = [number for number in range(len(jobs)) if number not in answers]
        try:
            _in_one_pool(work, jobs, left, min(processes, len(left)), answers, done)
        except BrokenProcessPool as error:
            died = 1 if len(answers) > before else died + 1
            if died == _TRIES:
                raise AgentfwError(
                    f"worker processes died {died} times in a row, with {len(left)} of {len(jobs)} jobs to do",
                    fix="is there memory enough? try again with one process: --jobs 1",
                ) from error
    return [answers[number] for number in range(len(jobs))]


def _in_one_pool(
    work: Callable[[Job], Answer],
    jobs: Sequence[Job],
    left: Sequence[int],
    processes: int,
    answers: dict[int, Answer],
    done: Callable[[int], object],
) -> None:
    # Spawned, not forked: threads and event loops of this process must not be in them.
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_leave_with, initargs=(theirs,))
    try:
        numbers: dict[Future[Answer | _Failure], int] = {
            pool.submit(partial(_guarded, work), jobs[number]): number for number in left
        }
        for future in as_completed(numbers):
            answer = future.result()
            if isinstance(answer, _Failure):
                raise answer.error()
            answers[numbers[future]] = answer
            done(len(answers))
    finally:
        pool.shutdown(wait=len(answers) == len(jobs), cancel_futures=True)
        ours.close()  # whoever is still at work leaves now
        theirs.close()


class _Failure:
    """An error that says what to do, on its way from a worker: pickling one of its own would lose that."""

    def __init__(self, error: AgentfwError) -> None:
        self.message, self.fix, self.exit_code = error.message, error.fix, error.exit_code

    def error(self) -> AgentfwError:
        error = AgentfwError(self.message, fix=self.fix)
        error.exit_code = self.exit_code
        return error


def _guarded(work: Callable[[Job], Answer], job: Job) -> Answer | _Failure:
    try:
        return work(job)
    except AgentfwError as error:
        return _Failure(error)


def _leave_with(owner: Connection) -> None:
    """In a worker: be gone when nobody holds the other end any more, whatever became of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us

    def watch() -> None:
        try:
            owner.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, name="agentfw-worker-lease", daemon=True).start()
