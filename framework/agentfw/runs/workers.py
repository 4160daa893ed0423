"""Runs many jobs in parallel worker processes.

The answers are the same as from a single process, in the order of the jobs, regardless of the number of workers. No
worker outlives its parent process, even if the parent is killed.

    >>> in_processes(abs, [-1, 2, -3], 1)
    [1, 2, 3]

Jobs and answers must be picklable values, and the work must be a module-level function, because they are sent to
another process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from ..errors import AgentfwError

Job = TypeVar("Job")
Answer = TypeVar("Answer")


def in_processes(
    work: Callable[[Job], Answer],
    jobs: Sequence[Job],
    processes: int,
    *,
    done: Callable[[int], object] = lambda count: None,
) -> list[Answer]:
    """Call `work` for each job. `done` is called with the number of finished jobs. An error in a job stops all jobs."""
    answers: dict[int, Answer] = {}
    if processes == 1:
        for number, job in enumerate(jobs):
            answers[number] = work(job)
            done(len(answers))
        return list(answers.values())
    # Spawned, not forked: threads and event loops of this process must not be copied.
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_leave_with, initargs=(theirs,))
    try:
        numbers = {pool.submit(work, job): number for number, job in enumerate(jobs)}
        for future in as_completed(numbers):
            answers[numbers[future]] = future.result()
            done(len(answers))
    except BrokenProcessPool as error:
        raise AgentfwError(
            f"a worker process died, with {len(jobs) - len(answers)} of {len(jobs)} jobs to do",
            fix="the machine may be out of memory; try again with fewer processes",
        ) from error
    finally:
        pool.shutdown(wait=len(answers) == len(jobs), cancel_futures=True)
        ours.close()  # workers that are still busy exit now
        theirs.close()
    return [answers[number] for number in range(len(jobs))]


def _leave_with(owner: Connection) -> None:
    """Thread of a worker: exit when the other end of the pipe is closed, whatever happened to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent

    def watch() -> None:
        try:
            owner.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, name="agentfw-worker-lease", daemon=True).start()
