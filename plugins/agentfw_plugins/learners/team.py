"""Computes the pieces of a step on several processes: this one, and workers with the same base and adapter.

A piece is the tokens of a minibatch that are computed at once, with what their loss is made of. It is independent of
all others, so it can be computed anywhere, and again after a crash, with the same gradient. The gradients are added in
the order of the pieces, as one process adds them. So the result doesn't depend on the number of workers, on which of
them computed what, or on whether one died: its piece is computed again by another.

    team = Team(engine, settings)
    team.begin(network)
    team.put_weights()
    team.gradients(pieces, loss, figures)      # leaves their sum in `grad` of the network's parameters

Everything crosses as bytes of safetensors. Nothing depends on what a worker computed before: it can be replaced at any
time.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from safetensors.torch import load, save

from agentfw.engine import Engine, Plain, Remote, RemoteDiedError, Resources
from agentfw.errors import UsageError
from agentfw.optimizer import Loss
from agentfw.printing.out import counted
from agentfw.seeds import Seeds

from ..models.checkpoint import read_files, write_files
from .losses import Figures, Terms, loss_of
from .network import Network, Which
from .settings import TrainableSettings
from .token_tree import Block, Packed


@dataclass(slots=True)
class Piece:
    """The tokens, and what is known of them besides the current logprobs."""

    packed: Packed
    temperature: float
    advantages: torch.Tensor
    weights: torch.Tensor
    turns: torch.Tensor
    sampled: torch.Tensor | None
    before: torch.Tensor | None = None
    base: torch.Tensor | None = None
    baseline: torch.Tensor | None = None


def logprobs_of(network: Network, piece: Piece, of: Which = "trained") -> torch.Tensor:
    """The logprobs of its sampled tokens, without a gradient."""
    with torch.no_grad():
        return network.logprobs(piece.packed, of=of, temperature=piece.temperature)[0]


def backward(network: Network, piece: Piece, loss: Loss, figures: Figures) -> None:
    """Add the gradient of a piece to that of the network's parameters, and its figures to the others."""
    logprobs, entropy = network.logprobs(piece.packed, temperature=piece.temperature)
    figures.add("entropy", entropy)
    before = logprobs.detach() if piece.before is None else piece.before
    known = piece.advantages, piece.weights, piece.turns, piece.sampled, piece.base, piece.baseline
    loss_of(loss, Terms(logprobs, before, *known), figures).backward()


_PACKED = ("ids", "positions", "subtree_ends", "nodes", "targets", "pair", "turn")
_TENSORS = ("advantages", "weights", "turns", "sampled", "before", "base", "baseline")


def piece_to(piece: Piece) -> dict[str, Any]:
    """A piece as plain values."""
    packed = {name: torch.from_numpy(getattr(piece.packed, name).copy()) for name in _PACKED}
    known = {name: getattr(piece, name) for name in _TENSORS}
    tensors = {name: tensor.cpu().contiguous() for name, tensor in known.items() if tensor is not None}
    blocks = [list(block) for block in piece.packed.blocks]
    return {
        "tensors": save(packed | tensors),
        "blocks": blocks,
        "computed": piece.packed.computed,
        "temperature": piece.temperature,
    }


def _piece_from(plain: dict[str, Any], device: str) -> Piece:
    found = load(plain["tensors"])
    packed = Packed(
        blocks=tuple(Block(*block) for block in plain["blocks"]),
        computed=plain["computed"],
        **{name: found[name].numpy() for name in _PACKED},
    )
    tensors = {name: found[name].to(device) if name in found else None for name in _TENSORS}
    return Piece(packed, plain["temperature"], **tensors)


def _gradient_to(network: Network) -> bytes:
    """The gradient of a network's parameters, which is then forgotten."""
    found = {}
    for number, parameter in enumerate(network.parameters()):
        if parameter.grad is not None:
            found[str(number)] = parameter.grad.cpu().contiguous()
        parameter.grad = None
    data: bytes = save(found)
    return data


def gradient_from(data: bytes) -> dict[int, torch.Tensor]:
    """The gradient by the number of the parameter."""
    return {int(number): tensor for number, tensor in load(data).items()}


class TeamWorker:
    """Computes pieces with the weights that it was given last."""

    def __init__(self, settings: dict[str, Any], adapter: dict[str, bytes] | None = None) -> None:
        """`adapter` are the files of the adapter that training starts from."""
        checked = TrainableSettings.model_validate(settings)
        self._network = Network(checked, Seeds(checked.seed).child("learner"))
        if adapter is not None:
            with tempfile.TemporaryDirectory(prefix="agentfw-") as folder:
                write_files(adapter, Path(folder))
                self._network.start_from(Path(folder))

    async def put(self, weights: bytes) -> None:
        """Take over the weights that are trained."""
        self._network.put(weights)

    async def move(self, device: str) -> None:
        self._network.move(device)

    async def logprobs(self, piece: dict[str, Any], of: Which) -> bytes:
        found = logprobs_of(self._network, _piece_from(piece, self._network.device), of)
        data: bytes = save({"logprobs": found.cpu().contiguous()})
        return data

    async def gradient(self, piece: dict[str, Any], loss: dict[str, Any]) -> dict[str, Any]:
        figures = Figures()
        backward(self._network, _piece_from(piece, self._network.device), Loss(**loss), figures)
        return {"gradient": _gradient_to(self._network), "figures": asdict(figures)}


logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Gradient = dict[int, torch.Tensor]
"""By the number of the parameter."""


class Team:
    """This process and its workers."""

    def __init__(self, engine: Engine, settings: TrainableSettings) -> None:
        self.engine, self.settings = engine, settings
        self.network: Network
        self.workers: list[Remote] = []
        self.used = 1
        """Number of processes that computed pieces of the last update."""
        self.lost = 0
        """Number of workers that died or hung in the last update."""
        self._begun = False
        self._threads = max(1, torch.get_num_threads() // settings.workers)

    def start(self, network: Network) -> None:
        """Start the workers that are missing, without waiting for them."""
        self.network = network
        self.workers = [worker for worker in self.workers if worker.alive]
        gpus = self.settings.worker_gpus if network.device == "cuda" else 0.0
        resources = Resources(self._threads, gpus)
        if not self._begun:
            who = counted(self.settings.workers - 1, "learner worker")
            self.engine.require([resources] * (self.settings.workers - 1), who)
            self._begun = True
        for number in range(len(self.workers) + 1, self.settings.workers):
            try:
                self.workers.append(self._worker(number, resources))
            except UsageError as error:  # its node is gone, and nothing has come in its place
                logger.warning("learner worker %d has no room; others do its work: %s", number, error)

    def _worker(self, number: int, resources: Resources) -> Remote:
        fields = self.settings.model_dump(mode="json", include=set(TrainableSettings.model_fields))
        adapter = read_files(Path(self.settings.adapter)) if self.settings.adapter else None
        factory = f"{TeamWorker.__module__}:{TeamWorker.__name__}"
        return self.engine.start(factory, [fields, adapter], name=f"learner worker {number}", resources=resources)

    def begin(self, network: Network) -> None:
        """Wait until all workers are there. Called before each update."""
        self.used, self.lost = 1, 0
        self.start(network)
        self._each([(worker, worker.ready) for worker in self.workers], "its start")

    def put_weights(self) -> None:
        """Give the current weights to the workers. Called before each step."""
        weights = self.network.dump()
        self._each([(worker, worker.submit("put", weights)) for worker in self.workers], "the weights")

    def move(self, device: str) -> None:
        """Move the workers' weights to a device."""
        self._each([(worker, worker.submit("move", device)) for worker in self.workers], "a move")

    def logprobs(self, pieces: Sequence[Piece], of: Which) -> list[torch.Tensor]:
        """The logprobs of each piece's sampled tokens, without gradients."""

        def there(plain: Plain, worker: Remote) -> Future[Plain]:
            return worker.submit("logprobs", plain, of)

        def read(answer: Plain) -> torch.Tensor:
            return load(answer)["logprobs"].to(self.network.device)

        return list(self._spread(pieces, lambda piece: logprobs_of(self.network, piece, of), there, read))

    def gradients(self, pieces: Sequence[Piece], loss: Loss, figures: Figures) -> None:
        """Leave the gradient of all pieces in the parameters, and add their figures."""
        parameters = self.network.parameters()
        plain_loss = asdict(loss)

        def here(piece: Piece) -> tuple[Gradient, Figures]:
            found = Figures()
            backward(self.network, piece, loss, found)
            gradient = {number: each.grad for number, each in enumerate(parameters) if each.grad is not None}
            for each in parameters:
                each.grad = None
            return gradient, found

        def there(plain: Plain, worker: Remote) -> Future[Plain]:
            return worker.submit("gradient", plain, plain_loss)

        def read(answer: Plain) -> tuple[Gradient, Figures]:
            return gradient_from(answer["gradient"]), Figures(**answer["figures"])

        total: Gradient = {}
        for gradient, found in self._spread(pieces, here, there, read):
            figures.include(found)
            for number, part in gradient.items():
                part = part.to(self.network.device)
                total[number] = total[number].add_(part) if number in total else part
        for number, parameter in enumerate(parameters):
            parameter.grad = total.get(number)

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            worker.stop()
        self.workers = []

    def _spread(
        self,
        pieces: Sequence[Piece],
        here: Callable[[Piece], Result],
        there: Callable[[Plain, Remote], Future[Plain]],
        read: Callable[[Plain], Result],
    ) -> Iterator[Result]:
        """The results in the order of the pieces. The longest piece comes first, to whoever is free."""
        work: _PieceQueue[Result] = _PieceQueue(
            sorted(range(len(pieces)), key=lambda number: (-pieces[number].packed.computed, number))
        )

        def serve(worker: Remote) -> None:
            """Thread of one worker."""
            while (number := work.claim()) is not None:
                try:
                    answer = there(piece_to(pieces[number]), worker).result(self.settings.worker_patience)
                    work.done(number, read(answer))
                except (RemoteDiedError, TimeoutError) as error:
                    self._lose(worker, error, f"piece {number + 1} of {len(pieces)}")
                    return work.give_back(number)
                except BaseException as error:
                    return work.fail(error)
            return None

        threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in self.workers]
        with self._fewer_threads(), work:
            for thread in threads[: len(pieces) - 1]:
                thread.start()
            self.used = max(self.used, min(len(pieces), len(threads) + 1))
            for number in range(len(pieces)):
                while not work.has(number):
                    mine = work.claim()
                    if mine is None:
                        work.wait(number)
                    else:
                        work.done(mine, here(pieces[mine]))
                yield work.take(number)

    def _each(self, answers: Sequence[tuple[Remote, Future[Plain]]], doing: str) -> None:
        for worker, answer in answers:
            try:
                answer.result(self.settings.worker_patience)
            except (RemoteDiedError, TimeoutError) as error:
                self._lose(worker, error, doing)

    def _lose(self, worker: Remote, error: Exception, doing: str) -> None:
        """Go on without a worker. The next update starts another."""
        self.lost += 1
        why = f"did not answer within {self.settings.worker_patience:g} s" if isinstance(error, TimeoutError) else error
        logger.warning("%s was lost with %s; others do its work: %s", worker.name, doing, why)
        self.workers = [other for other in self.workers if other is not worker]
        worker.kill()

    @contextmanager
    def _fewer_threads(self) -> Iterator[None]:
        """Leave cores to the workers."""
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


class _PieceQueue(Generic[Result]):
    """The pieces to do, and the results that nobody has taken yet; used by several threads."""

    def __init__(self, order: Sequence[int]) -> None:
        self._todo = list(order)
        self._results: dict[int, Result] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._todo = []  # after an error, workers don't go on

    def claim(self) -> int | None:
        """A piece to compute, or None if there is none now."""
        with self._changed:
            return self._todo.pop(0) if self._todo and self._error is None else None

    def give_back(self, number: int) -> None:
        with self._changed:
            self._todo.insert(0, number)
            self._changed.notify_all()

    def done(self, number: int, result: Result) -> None:
        with self._changed:
            self._results[number] = result
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def has(self, number: int) -> bool:
        with self._changed:
            if self._error is not None:
                raise self._error
            return number in self._results

    def wait(self, number: int) -> None:
        """Wait until a piece is done, is given back, or has failed."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._results or self._todo or self._error is not None)

    def take(self, number: int) -> Result:
        with self._changed:
            return self._results.pop(number)
