"""The policy `pool`: several copies of a model policy, each in a process of its own, behind one policy.

    policy = { name = "pool", settings = { policy = "transformers", replicas = 2 } }

A replica that dies or hangs is taken out and restarted with the newest version, and its requests go to the others. A
version counts as published when every replica in rotation has it. With a policy whose answer depends only on its
request, such as tiny and transformers, a run has the same result with any number of replicas, and after any crash.

A request is never given up because the pool is busy: leaving long ones out would bias what is learned from. It goes to
the replica with the fewest in progress, and all requests of a task or session to one, which has cached their beginning.
The run's engine decides where the replicas live.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from agentfw import Generation, Host, Policy, Request, Settings
from agentfw.engine import Engine, LocalEngine, Plan, RemoteDiedError, Resources
from agentfw.errors import AgentfwError, EndpointError, RequestRefusedError, UsageError
from agentfw.printing.out import counted
from agentfw.runs import Choice
from agentfw.settings import OPERATIONAL

from ..models.checkpoint import marks_of, read_files
from .pool_replica import Replica
from .vllm.vllm_backend import beside

logger = logging.getLogger(__name__)

_REMEMBERED = 10_000  # maximum number of tasks whose replica is remembered


class PoolSettings(Settings):
    policy: Choice = Field(Choice(name="tiny"), description="Model policy to run copies of, with its settings.")
    replicas: Annotated[int | None, OPERATIONAL] = Field(
        None, ge=1, description="Number of copies. Default: one on each GPU that plays, or 2 where there are no GPUs."
    )
    least_replicas: Annotated[int, OPERATIONAL] = Field(
        1, ge=1, description="Minimum number of copies to start and to go on with."
    )
    cpus: Annotated[int, OPERATIONAL] = Field(1, ge=1, description="Threads of numerical libraries in each copy.")
    gpus: Annotated[float | None, OPERATIONAL] = Field(
        None,
        ge=0,
        description="Share of a GPU for each copy, or a whole number of GPUs. Default: one, if there are GPUs.",
    )
    in_flight: Annotated[int, OPERATIONAL] = Field(
        64, ge=1, description="Maximum number of requests in progress at a copy. Others wait."
    )
    restarts: Annotated[int, OPERATIONAL] = Field(3, ge=0, description="Maximum number of restarts of each copy.")
    check_every: Annotated[float, OPERATIONAL] = Field(10.0, gt=0, description="Seconds between health checks.")
    patience: Annotated[float, OPERATIONAL] = Field(
        300.0, gt=0, description="Seconds without an answer after which a copy counts as hung and is restarted."
    )
    start_deadline: Annotated[float, OPERATIONAL] = Field(
        900.0, gt=0, description="Timeout for starting a copy, in seconds."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> PoolSettings:
        if self.replicas is not None and self.least_replicas > self.replicas:
            raise ValueError(f"least_replicas is {self.least_replicas}, more than replicas, {self.replicas}")
        if self.gpus is not None and self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError(f"gpus is {self.gpus:g}: use a share up to 1, or a whole number")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A request's place at a replica."""

    replica: int


class Balancer:
    """The replicas in rotation, and the requests that wait for one of them."""

    def __init__(self, in_flight: int) -> None:
        self.in_flight = in_flight
        self._taken: dict[int, set[Place]] = {}  # the places in use, by replica
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._homes: OrderedDict[str, int] = OrderedDict()  # the replica of each task
        self._failure: Exception | None = None
        self.answered = 0
        """Number of requests that gave their places back."""

    @property
    def rotation(self) -> list[int]:
        return sorted(self._taken)

    def join(self, replica: int) -> None:
        self._taken[replica] = set()
        self._wake(self.in_flight)

    def leave(self, replica: int) -> None:
        self._taken.pop(replica, None)

    def fail(self, error: Exception) -> None:
        """Fail all requests that wait, and all later ones: no replica will come back."""
        self._failure = error
        self._wake(len(self._waiting))

    def forget(self) -> None:
        """The replicas have a new version, so nothing of what they computed is of use."""
        self._homes.clear()

    async def take(self, task: str) -> Place:
        """A place for a request of a task, as soon as a replica has one."""
        waits = False
        while (replica := self._choose(task)) is None:
            if self._failure is not None:
                raise self._failure
            turn = asyncio.get_running_loop().create_future()
            # A request that was woken, and whose place another one took, keeps its turn.
            (self._waiting.appendleft if waits else self._waiting.append)(turn)
            waits = True
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake(1)  # it was this request's turn, which goes to the next one
                raise
        place = Place(replica)
        self._taken[replica].add(place)
        return place

    def give_back(self, place: Place) -> None:
        self._taken.get(place.replica, set()).discard(place)
        self.answered += 1
        self._wake(1)

    def _choose(self, task: str) -> int | None:
        free = [number for number in self.rotation if len(self._taken[number]) < self.in_flight]
        if not free:
            return None
        home = self._homes.get(task)
        chosen = home if home in free else min(free, key=lambda number: (len(self._taken[number]), number))
        if home not in self._taken:
            self._homes[task] = chosen
        self._homes.move_to_end(task)
        if len(self._homes) > _REMEMBERED:
            self._homes.popitem(last=False)
        return chosen

    def _wake(self, count: int) -> None:
        while count and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1


class PoolPolicy(Policy):
    """Sends each request to one of its replicas."""

    def __init__(self, settings: PoolSettings, host: Host, engine: Engine | None = None) -> None:
        self.settings = settings
        self._engine, self._ends_engine = engine or LocalEngine(), engine is None
        inner = settings.policy
        host.check_settings("policy", inner.name, inner.settings, where="policy.policy")
        plan = self._engine.plan if settings.gpus != 0 else Plan()
        playing = len(plan.playing)
        gpus = settings.gpus if settings.gpus is not None else float(bool(playing))
        fitting = playing // int(gpus) if gpus >= 1 else playing * int(1 / gpus) if gpus else 2
        self._sleeps = not playing or plan.shared  # while the learner works
        self._resources = Resources(settings.cpus, gpus)
        own = beside(inner.settings, plan, gpus) if inner.name == "vllm" else inner.settings
        self._arguments = [inner.name, own, host.options.plain()]
        count = settings.replicas or max(1, fitting)
        self._replicas = [Replica(number, settings.patience) for number in range(count)]
        self._balancer = Balancer(settings.in_flight)
        self._lifecycle = asyncio.Lock()
        """Held while versions are published and replicas join or rest: a replica joins with the newest version."""
        self._starting = asyncio.Lock()
        self._served: tuple[Path, str] | None = None  # the newest adapter and its version
        self._files: asyncio.Task[Any] | None = None  # reads its files, if a replica doesn't find them on its disk
        self._restarts = 0
        self._watching: asyncio.Task[None] | None = None
        self._recovering: set[asyncio.Task[None]] = set()

    # -- requests ------------------------------------------------------------------------------------------------------

    async def generate(self, request: Request) -> Generation:
        await self._opened()
        task = f"{request.task.user}/{request.task.split}/{request.task.index}"
        while True:
            place = await self._balancer.take(task)
            replica = self._replicas[place.replica]
            try:
                with self._loses(replica):
                    return await replica.generate(request)
            finally:
                self._balancer.give_back(place)

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        """The answer of one replica. `replicas` asks each."""
        await self._opened()
        while True:
            await self._enough()
            replica = self._replicas[self._balancer.rotation[0]]
            with self._loses(replica):
                return await replica.logprobs(prompt_ids, token_ids)

    def replicas(self) -> Sequence[Policy]:
        return [_OneReplica(self, self._replicas[number]) for number in self._balancer.rotation] or (self,)

    def metrics(self) -> Mapping[str, float]:
        restarts, self._restarts = self._restarts, 0
        requests, self._balancer.answered = self._balancer.answered, 0
        replicas = len(self._balancer.rotation)
        return {"pool_requests": requests, "pool_replicas": replicas, "pool_restarts": restarts}

    # -- versions, and memory of the device ----------------------------------------------------------------------------

    async def publish(self, adapter: Path, version: str) -> None:
        await self._opened()
        async with self._lifecycle:
            self._served, self._files = (adapter, version), None
            self._balancer.forget()
            await self._each(self._publish_to)
        await self._enough()

    async def _publish_to(self, replica: Replica) -> None:
        """Publish by the path if the replica finds the same files there, and else send them."""
        assert self._served is not None
        adapter, version = self._served
        marks = await asyncio.to_thread(marks_of, adapter)
        if not await replica.ask("publish", str(adapter.absolute()), marks, version):
            if self._files is None:  # read once, whoever needs them
                self._files = asyncio.create_task(asyncio.to_thread(lambda: self._engine.share(read_files(adapter))))
            await replica.ask("publish_files", await self._files, version)

    async def rest(self) -> None:
        await self._opened()
        if self._sleeps:
            async with self._lifecycle:
                await self._each(lambda replica: replica.ask("rest"))

    async def wake(self) -> None:
        if self._sleeps:
            async with self._lifecycle:
                await self._each(lambda replica: replica.ask("wake"))

    async def close(self) -> None:
        tasks = [*self._recovering, *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(replica.end() for replica in self._replicas))
        if self._ends_engine:
            await asyncio.to_thread(self._engine.close)

    # -- the life of a replica -----------------------------------------------------------------------------------------

    async def _opened(self) -> None:
        """Start the replicas, unless they are. Raises unless enough of them are in rotation then."""
        if self._watching is not None:
            return
        async with self._starting:
            if self._watching is not None:
                return
            await self._require_room(len(self._replicas))
            ends = await asyncio.gather(*map(self._begin, self._replicas), return_exceptions=True)
            errors = [end for end in ends if isinstance(end, BaseException)]
            for error in errors:
                # A wrong setting must not be taken for the death of a replica.
                if isinstance(error, UsageError) or not isinstance(error, AgentfwError):
                    raise error
            if len(self._balancer.rotation) < self.settings.least_replicas:
                raise self._too_few(errors)
            for error in errors:
                logger.warning("the pool goes on without a replica: %s", error)
            self._watching = asyncio.create_task(self._watch())

    async def _begin(self, replica: Replica) -> None:
        await replica.start(self._engine, self._arguments, self._resources, self.settings.start_deadline)
        async with self._lifecycle:
            if self._served is not None:
                await self._publish_to(replica)
            self._balancer.join(replica.number)

    async def _require_room(self, replicas: int) -> None:
        """Wait until the engine has room for some more replicas, as long as it is meant to."""
        await asyncio.to_thread(self._engine.require, [self._resources] * replicas, counted(replicas, "replica"))

    @contextmanager
    def _loses(self, replica: Replica) -> Iterator[None]:
        """Take a replica out of rotation if it fails in this block. Where only the request fails, the error is raised.

        All its requests fail then, and the first of them restarts it.
        """
        process = replica.process
        try:
            yield
            return
        except (RemoteDiedError, EndpointError) as failure:
            if isinstance(failure, RequestRefusedError):
                raise
            error = failure
        if replica.process is not process or replica.number not in self._balancer.rotation:
            return
        self._balancer.leave(replica.number)
        replica.reason = error
        task = asyncio.create_task(self._restart(replica))
        self._recovering.add(task)
        task.add_done_callback(self._recovering.discard)

    async def _restart(self, replica: Replica) -> None:
        await replica.end(kill=True)
        while replica.restarts < self.settings.restarts:
            replica.restarts += 1
            self._restarts += 1
            try:
                await self._require_room(1)
                await self._begin(replica)
                break
            except AgentfwError as error:
                replica.reason = error
                await replica.end(kill=True)
        # Another one that comes back may be enough.
        is_last = all(task.done() for task in self._recovering - {asyncio.current_task()})
        if is_last and len(self._balancer.rotation) < self.settings.least_replicas:
            self._balancer.fail(self._too_few([one.reason for one in self._replicas]))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.settings.check_every)
            await self._each(lambda replica: replica.ask("alive"))

    async def _each(self, work: Callable[[Replica], Awaitable[object]]) -> None:
        """Do something with every replica in rotation. Those that are lost are taken out."""

        async def ask(replica: Replica) -> None:
            with self._loses(replica):
                await work(replica)

        await asyncio.gather(*(ask(self._replicas[number]) for number in self._balancer.rotation))

    async def _enough(self) -> None:
        while len(self._balancer.rotation) < self.settings.least_replicas and self._recovering:
            await asyncio.wait(self._recovering, return_when=asyncio.FIRST_COMPLETED)
        if len(self._balancer.rotation) < self.settings.least_replicas:
            raise self._too_few([replica.reason for replica in self._replicas])

    def _too_few(self, errors: Sequence[BaseException | None]) -> AgentfwError:
        said = list(dict.fromkeys(str(error) for error in errors if error is not None))
        fixes = [error.fix for error in errors if isinstance(error, AgentfwError) and error.fix]
        there, least = len(self._balancer.rotation), self.settings.least_replicas
        return EndpointError(
            f'{there} of {len(self._replicas)} replicas of the policy "{self.settings.policy.name}" work, '
            f"and policy.least_replicas is {least}: {'; '.join(said) or 'no reason is known'}",
            fix=fixes[0] if fixes else "see the output of the replicas on stderr",
        )


class _OneReplica(Policy):
    """One replica, when it is asked alone. If it is lost, another one answers."""

    def __init__(self, pool: PoolPolicy, replica: Replica) -> None:
        self.pool, self.replica = pool, replica

    async def generate(self, request: Request) -> Generation:
        return await self.replica.generate(request)

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        with self.pool._loses(self.replica):
            return await self.replica.logprobs(prompt_ids, token_ids)
        return await self.pool.logprobs(prompt_ids, token_ids)
