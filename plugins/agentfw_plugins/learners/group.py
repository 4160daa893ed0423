"""The processes that learn together: this one, and workers that take the same steps beside it (torch.distributed).

Each process has the network and an optimizer. Of a step's pieces each computes some. The gradients are added up over
all processes, and then each takes the same step. With `learner.sharded` a process holds only a part of the base's
weights (models/sharding.py), so a model can be trained that fits no single card.

This process leads. If a worker ends or fails, so does the group: whoever waits for it learns it from the closed
connection. The learner then starts a new group from the last complete version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

from agentfw.engine import Engine, Plain, Remote, RemoteDiedError, Resources
from agentfw.errors import AgentfwError
from agentfw.printing.out import counted

from .settings import TrainableSettings

Item = TypeVar("Item")

_WORKER = f"{__package__}.descent:LearnerWorker"
_JOINING = 120.0  # seconds within which all processes must have found one another, once each has loaded its libraries
_TELLING = 10.0  # seconds that workers have to say why they failed, once one of them has


class GroupLostError(AgentfwError):
    """A process of the group has ended. A new group can compute the same again."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The place of this process among those that learn together. By default it is alone."""

    rank: int = 0
    size: int = 1
    sharded: bool = False
    """Whether each holds a part of the weights, so that all must go through the model equally often."""

    def share(self, items: Sequence[Item], cost: Callable[[Item], int]) -> list[tuple[int, Item]]:
        """The items that are this process's to compute, with their numbers. All processes must give the same items.

        The dearest come first, each to whoever has least to do. Where all must go through the model equally often, a
        process with fewer items gets the cheapest one again, with the number -1.
        """
        loads = [0] * self.size
        mine: list[list[tuple[int, Item]]] = [[] for _ in range(self.size)]
        for number, item in sorted(enumerate(items), key=lambda each: -cost(each[1])):
            who = loads.index(min(loads))
            loads[who] += cost(item)
            mine[who].append((number, item))
        if self.sharded and items:
            idle = -1, min(items, key=cost)
            return mine[self.rank] + [idle] * (max(map(len, mine)) - len(mine[self.rank]))
        return mine[self.rank]

    def gather(self, data: bytes) -> list[bytes]:
        """What each process gives, in the order of their ranks."""
        if self.size == 1:
            return [data]
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        distributed.all_gather(lengths, torch.tensor([len(data)]))
        rows = [torch.zeros(int(max(lengths)), dtype=torch.uint8) for _ in range(self.size)]
        row = torch.zeros_like(rows[0])
        row[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        distributed.all_gather(rows, row)
        return [row[: int(length)].numpy().tobytes() for row, length in zip(rows, lengths, strict=True)]

    def add_up(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replace each gradient by the sum over all processes. Divided weights have been added up by the way back."""
        if self.size == 1 or self.sharded:
            return
        for each in parameters:
            each.grad = torch.zeros_like(each) if each.grad is None else each.grad
        gradients = [each.grad for each in parameters if each.grad is not None]
        joined = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(joined)
        for gradient, summed in zip(gradients, joined.split([each.numel() for each in gradients]), strict=True):
            gradient.copy_(summed.view_as(gradient))


def meeting(settings: TrainableSettings, host: str, port: int = 0) -> distributed.TCPStore:
    """Where the processes find one another: opened by the first of them, which gives no port."""
    seconds = timedelta(seconds=_JOINING)
    return distributed.TCPStore(host, port, settings.workers, not port, seconds, wait_for_workers=False)


def join(ranks: Ranks, store: distributed.Store, patience: float) -> None:
    """Meet the other processes. Numbers in a GPU's memory go by NCCL, all others by gloo."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(
        backend, store=store, rank=ranks.rank, world_size=ranks.size, timeout=timedelta(seconds=patience)
    )


def leave() -> None:
    """Close the connections, so that nobody waits for this process."""
    if distributed.is_initialized():
        with suppress(RuntimeError):
            distributed.destroy_process_group()


class Group:
    def __init__(self, engine: Engine, settings: TrainableSettings, learning_rate: float) -> None:
        self.engine, self.settings, self._learning_rate = engine, settings, learning_rate
        self.ranks = Ranks(0, settings.workers, settings.sharded)
        self._workers: list[Remote] = []
        self._threads = max(1, torch.get_num_threads() // settings.workers)

    def start(self) -> None:
        self.close()
        on_gpus = self.settings.device != "cpu" and torch.cuda.is_available()
        resources = Resources(self._threads, 1.0 if on_gpus else 0.0, learns=True)
        count = self.settings.workers - 1
        self.engine.require([resources] * count, counted(count, "learner worker"))
        fields = self.settings.model_dump(mode="json", include=set(TrainableSettings.model_fields))
        if on_gpus:
            fields["device"] = "cuda"  # each sees its own alone
        for rank in range(1, self.settings.workers):
            name, given = f"learner worker {rank}", [fields, self._learning_rate, rank]
            self._workers.append(self.engine.start(_WORKER, given, name=name, resources=resources))
        try:
            for worker in self._workers:
                worker.ready.result(self.settings.worker_patience)
        except BaseException:
            self.close()
            raise
        store = meeting(self.settings, self.engine.host)
        with self.together("join", self.engine.host, store.port):
            join(self.ranks, store, self.settings.worker_patience)

    @contextmanager
    def together(self, method: str, *arguments: Plain) -> Iterator[None]:
        """Let all workers do what the body does here. If one of them can't, none goes on."""
        threads = torch.get_num_threads()
        shared = [self.engine.share(each) for each in arguments]
        answers = [worker.submit(method, *shared) for worker in self._workers]
        torch.set_num_threads(self._threads)
        try:
            yield
            for answer in answers:
                answer.result(self.settings.worker_patience)
        except BaseException as error:
            # A closed connection says nothing of why. Who closed it does, a little later.
            wait(answers, _TELLING if isinstance(error, RuntimeError) else 0)
            told = [each.exception() for each in answers if each.done()]
            self.close(kill=True)
            for why in told:
                if isinstance(why, RemoteDiedError):
                    raise GroupLostError(str(why), fix=why.fix) from error
            # Whoever waits for one that hangs gives up, too, and torch says so in words alone.
            if any(isinstance(each, TimeoutError) or "Timed out" in str(each) for each in (error, *told)):
                late = f"a learner worker hasn't answered within {self.settings.worker_patience:g} s"
                raise GroupLostError(late, fix="raise learner.worker_patience if a step may take that long") from error
            if isinstance(error, RuntimeError) and (why := next(filter(None, told), None)):
                raise why from error
            raise
        finally:
            torch.set_num_threads(threads)

    def close(self, *, kill: bool = False) -> None:
        leave()
        for worker in self._workers:
            worker.kill() if kill else worker.stop()
        self._workers = []
