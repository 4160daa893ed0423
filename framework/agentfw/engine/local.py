"""The engine `local`: processes on this machine, each on a GPU that has room for its share.

A process ends with its parent, even if the parent is killed: the worker exits when its pipe closes.

>>> devices = Devices(["0", "1"])
>>> [devices.take(share, "a replica") for share in (0.4, 0.4, 0.4, 1.0)]
Traceback (most recent call last):
...
agentfw.errors.UsageError: no GPU has room for a share of 1 for a replica: of 2, 0.2 and 0.6 are free
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from functools import cached_property
from queue import SimpleQueue

from ..errors import AgentfwError, UsageError
from .cards import Plan, found_cards, plan
from .interface import Engine, EngineSettings, Plain, Remote, RemoteDiedError, Resources
from .wire import answer_of, encode, read_frame

_ROUNDING = 1e-9


class Devices:
    """The free share of each GPU."""

    def __init__(self, names: Iterable[str]) -> None:
        self._free = dict.fromkeys(names, 1.0)
        self._lock = threading.Lock()

    def take(self, share: float, who: str) -> list[str]:
        """The GPUs for a share of one, or for a whole number of them."""
        if not share:
            return []
        count, each = (1, share) if share <= 1 else (round(share), 1.0)
        with self._lock:
            taken = [name for name, free in self._free.items() if free >= each - _ROUNDING][:count]
            if len(taken) < count:
                free = " and ".join(f"{free:.2g}" for free in self._free.values())
                described = f"of {len(self._free)}, {free} are free" if free else "this machine has no GPU"
                raise UsageError(
                    f"no GPU has room for a share of {share:g} for {who}: {described}",
                    fix="use fewer processes or smaller shares: the shares on one GPU may add up to 1",
                )
            for name in taken:
                self._free[name] -= each
        return taken

    def give(self, share: float, taken: Sequence[str]) -> None:
        with self._lock:
            for name in taken:
                self._free[name] += min(share, 1.0)


_ENDING = 15.0  # seconds that a process may take to end; its object has a little less to close
_PRINTING = 0.5
"""Seconds that the last lines of an ended process may take. What it has started may keep its stderr open."""


class LocalEngine(Engine):
    """Starts processes on this machine, each on the GPU that has room for it."""

    def __init__(self, gpus: str = "auto", *, learns: bool = False) -> None:
        """`gpus` as in the settings of engines; `learns` says whether some of them are for a learner."""
        self._gpus, self._learns = gpus, learns
        self._started: list[_Process] = []

    def start(
        self, factory: str, arguments: Sequence[Plain] = (), *, name: str, resources: Resources | None = None
    ) -> Remote:
        resources = resources or Resources()
        devices = self._devices(resources)
        taken = devices.take(resources.gpus, name)
        environment = os.environ | resources.variables(this_machine=True)
        if taken:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(taken)
        hello = {"factory": factory, "arguments": list(arguments)}
        process = _Process(name, hello, environment, lambda: devices.give(resources.gpus, taken))
        self._started = [other for other in self._started if other.alive]
        self._started.append(process)
        return process

    def require(self, resources: Sequence[Resources], who: str) -> None:
        with ExitStack() as taken:
            for each in resources:
                devices = self._devices(each)
                taken.callback(devices.give, each.gpus, devices.take(each.gpus, who))

    @cached_property
    def plan(self) -> Plan:
        from ..host import runs_directory

        return plan(self._gpus, found_cards(), learns=self._learns, examined=runs_directory(None) / "gpu.json")

    @cached_property
    def _cards(self) -> tuple[Devices, Devices]:
        """Those that play and those of workers that learn. The first card that learns is the learner's own."""
        playing, learning = ([card.name for card in cards] for cards in (self.plan.playing, self.plan.learning[1:]))
        return Devices(playing), Devices(learning)

    def _devices(self, resources: Resources) -> Devices:
        return self._cards[resources.learns] if resources.gpus else Devices(())

    def close(self) -> None:
        for process in self._started:
            process.end()
        for process in self._started:
            process.stop()
        self._started = []


class _Process(Remote):
    """One process, and the calls that it has not answered yet."""

    def __init__(self, name: str, hello: Plain, environment: dict[str, str], ended: Callable[[], None]) -> None:
        self.name, self._ended = name, ended
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Plain]] = {}
        self._frames = SimpleQueue[bytes | None]()  # to be written; None is the end
        self._count = 0
        self._alive = True
        # Not multiprocessing: a process that it spawns imports the main module of this one before it can set the
        # number of threads.
        command, pipe = [sys.executable, "-P", "-m", "agentfw.engine.worker", name], subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        self.ready = self._send(hello)
        self._printing = threading.Thread(target=self._print, name=f"agentfw {name} prints", daemon=True)
        self._printing.start()
        for work in (self._listen, self._write):
            threading.Thread(target=work, name=f"agentfw {name}", daemon=True).start()

    @property
    def alive(self) -> bool:
        # The listener may not have noticed yet.
        return self._alive and self._process.poll() is None

    def submit(self, method: str, *arguments: Plain) -> Future[Plain]:
        return self._send({"method": method, "arguments": list(arguments)})

    def end(self) -> None:
        self._frames.put(None)

    def stop(self) -> None:
        self.end()
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()  # first, because with its input closed the process may end by itself
        self.end()
        self._process.wait()

    def _send(self, call: Plain) -> Future[Plain]:
        answer: Future[Plain] = Future()
        with self._lock:
            self._count += 1
            number = self._count
            frame = encode({"id": number, **call})
            if self._alive:
                self._waiting[number] = answer
                self._frames.put(frame)
            else:
                answer.set_exception(self._died())

        def cancel(done: Future[Plain]) -> None:
            with self._lock:
                if done.cancelled() and self._waiting.pop(number, None) is not None:
                    self._frames.put(encode({"id": number, "cancel": True}))

        answer.add_done_callback(cancel)
        return answer

    def _write(self) -> None:
        """Write to the process, so that one that hangs blocks nobody. If it is dead, the listener fails the calls."""
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as pipe:
            while (frame := self._frames.get()) is not None:
                pipe.write(frame)
                pipe.flush()

    def _print(self) -> None:
        """Print what the process prints: only what goes through this one's `sys.stderr` leaves a live picture whole."""
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                with suppress(OSError, ValueError, AttributeError):  # nobody reads it
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while (answered := read_frame(self._process.stdout)) is not None:
            with self._lock:
                answer = self._waiting.pop(answered["id"], None)
            if answer is not None:
                with suppress(InvalidStateError):  # it was cancelled meanwhile
                    try:
                        answer.set_result(answer_of(answered))
                    except AgentfwError as error:
                        answer.set_exception(error)
        self.end()
        self._process.wait()
        self._process.stdout.close()
        self._printing.join(_PRINTING)
        with self._lock:
            self._alive = False
            left, self._waiting = self._waiting, {}
        self._ended()
        for answer in left.values():
            with suppress(InvalidStateError):
                answer.set_exception(self._died())

    def _died(self) -> RemoteDiedError:
        code = self._process.returncode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return RemoteDiedError(
            f"the process of {self.name} {how}",
            fix="see its output on stderr; signal 9 often means that the machine is out of memory",
        )


def make_engine(settings: EngineSettings, *, learns: bool = False) -> Engine:
    """The engine of a run, which may be a training."""
    if settings.name == "local":
        return LocalEngine(settings.gpus, learns=learns)
    from .ray_engine import RayEngine

    return RayEngine(settings)
