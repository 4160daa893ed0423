"""The engine `ray`: actors on a Ray cluster, or on a new one of this machine.

Ray places each actor on a node with enough free CPUs and GPUs. Every node needs the same versions of agentfw and its
plugins, which each actor compares when it starts, and the models. It needs no disk that it shares with others.

On a cluster, actors reserve their CPUs, so that Ray spreads them and an autoscaler sees what is missing. A new Ray of
this machine reserves none: there, as with the engine `local`, processes may be more than CPUs.

>>> two = [Node(cpus=4, gpus=1), Node(cpus=4, gpus=1)]
>>> fit([Share(1, 1.0)] * 2, two), fit([Share(1, 1.0)] * 3, two), fit([Share(1, 0.4)] * 4, two)
(True, False, True)
>>> nodes_in_words(two)
'2 nodes with 4 CPUs and 1 GPU each'
"""

from __future__ import annotations

import os
import platform
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, NamedTuple

from ..boundary.metadata import entry_points, version_of
from ..errors import EndpointError, MissingExtraError, SettingsError, UsageError
from ..printing.out import counted
from .interface import Engine, EngineSettings, Plain, Remote, RemoteDiedError, Resources
from .wire import Served, answer_of

_ROUNDING = 1e-9


class Share(NamedTuple):
    """What one process needs."""

    cpus: float
    gpus: float


class Node(NamedTuple):
    """What one node has."""

    cpus: float
    gpus: float


def fit(shares: Sequence[Share], nodes: Sequence[Node]) -> bool:
    """Whether there is a node for each of them: the largest go first, each to the first node with room."""
    free = [[float(node.cpus), float(node.gpus)] for node in nodes]
    for share in sorted(shares, key=lambda share: (-share.gpus, -share.cpus)):
        room = next((one for one in free if one[0] >= share.cpus and one[1] >= share.gpus - _ROUNDING), None)
        if room is None:
            return False
        room[0] -= share.cpus
        room[1] -= share.gpus
    return True


def nodes_in_words(nodes: Sequence[Node]) -> str:
    """The nodes of a cluster."""
    if not nodes:
        return "no nodes"
    kinds = Counter(nodes).items()
    return " and ".join(
        f"{counted(count, 'node')} with {node.cpus:g} CPUs and {node.gpus:g} GPU{'' if node.gpus == 1 else 's'}"
        + (" each" if count > 1 else "")
        for node, count in kinds
    )


def versions_here() -> dict[str, str]:
    """What must be equal on all nodes: Python's version, and those of agentfw and its plugins."""
    plugins = {entry.distribution: entry.version for entry in entry_points("agentfw")}
    return {"Python": ".".join(platform.python_version_tuple()[:2]), "agentfw": version_of("agentfw"), **plugins}


class ServedOnNode(Served):
    """Makes the object if the node has the right versions."""

    async def make_on_node(
        self, factory: str, arguments: Sequence[Plain], versions: Mapping[str, str], keys: Mapping[str, str]
    ) -> Plain:
        """Make the object, with the values of some keys in the environment. They aren't in the actor's description."""
        from ray.util import get_node_ip_address

        self.name += f" on the node {get_node_ip_address()}"  # type: ignore[no-untyped-call]
        os.environ.update(keys)

        async def check() -> None:
            found = versions_here()
            other = [
                f"{name} {found.get(name) or 'not at all'}" for name in versions if found.get(name) != versions[name]
            ]
            if other:
                wanted = ", ".join(f"{name} {versions[name]}" for name in versions if found.get(name) != versions[name])
                raise UsageError(
                    f"{self.name} has {', '.join(other)}, and this machine has {wanted}",
                    fix="install the same versions of Python, agentfw and its plugins on every node of the cluster",
                )

        answered = await self._answered(check, "could not be checked")
        if "error" not in answered:
            return await self.make(factory, arguments)
        self._beginning = answered
        self._made.set()
        return answered


_REACHING = 10.0
"""Seconds to wait for an answer of the cluster's address."""
_LOOKING = 1.0
"""Seconds between two looks at the nodes of a cluster that should grow."""
_AT_ONCE = 10_000
"""Maximum number of calls of an actor in progress. Callers have tighter limits of their own."""


class RayEngine(Engine):
    """Starts actors. Connects to the cluster when the first one is started."""

    def __init__(self, settings: EngineSettings) -> None:
        # Ray reports its use to its authors unless it is told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray hides all GPUs from actors that ask for none, and will do so no more; this silences the announcement.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("the engine ray", "ray", module=error.name or "") from error
        self._ray: Any = ray
        self.address, self.wait = settings.address, settings.wait
        self.one_machine = not settings.address
        missing = [name for name in settings.keys if name not in os.environ]
        if missing:
            raise SettingsError(
                f"engine.keys: {', '.join(missing)} is not set in this environment", fix=f"export {missing[0]}=..."
            )
        self._keys = {name: os.environ[name] for name in settings.keys}
        self._versions = versions_here()
        self._connected = False
        self._ours = False
        self._lock = threading.Lock()
        self._started: list[_Actor] = []

    def start(
        self, factory: str, arguments: Sequence[Plain] = (), *, name: str, resources: Resources | None = None
    ) -> Remote:
        resources = resources or Resources()
        self._check_room([resources], name, wait=0.0)
        actor = (
            self._ray.remote(ServedOnNode)
            .options(
                num_cpus=self._share(resources).cpus,
                num_gpus=resources.gpus,
                scheduling_strategy=self._strategy(resources),
                max_concurrency=_AT_ONCE,
                runtime_env={"env_vars": resources.variables(this_machine=not self.address)},
            )
            .remote(name)
        )
        made = actor.make_on_node.remote(factory, list(arguments), self._versions, self._keys)
        started = _Actor(self._ray, actor, name, made, self._share(resources))
        self._started = [other for other in self._started if other.alive]
        self._started.append(started)
        return started

    @property
    def host(self) -> str:
        if self.one_machine:
            return "127.0.0.1"
        from ray.util import get_node_ip_address

        return str(get_node_ip_address())  # type: ignore[no-untyped-call]

    def require(self, resources: Sequence[Resources], who: str) -> None:
        self._check_room(resources, who, self.wait)

    def _check_room(self, resources: Sequence[Resources], who: str, wait: float) -> None:
        self._connect()
        shares = [self._share(each) for each in resources]
        running = [actor.share for actor in self._started if actor.alive]
        until = time.monotonic() + wait
        # Ray itself waits for ever for what the cluster doesn't have.
        while not fit([*running, *shares], nodes := self._nodes()):
            if time.monotonic() >= until:
                cpus, gpus = (sum(each) for each in zip(*shares, strict=True))
                beside = f" beside the {len(running)} that run already" if running else ""
                raise UsageError(
                    f"there is no room for {who}{beside}: needed are {cpus:g} CPUs and {gpus:g} GPUs, and the Ray "
                    f"cluster has {nodes_in_words(nodes)}",
                    fix="use fewer processes or smaller shares, or add nodes; if the cluster grows by itself, set "
                    "engine.wait=600",
                )
            from ray.autoscaler.sdk import request_resources

            # An autoscaler, if there is one, is told what is needed.
            request_resources(bundles=[{"CPU": max(1, one.cpus), "GPU": one.gpus} for one in [*running, *shares]])
            time.sleep(_LOOKING)

    def _share(self, resources: Resources) -> Share:
        return Share(resources.cpus if self.address else 0, resources.gpus)

    def _nodes(self) -> list[Node]:
        there = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [Node(node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in there]

    def _strategy(self, resources: Resources) -> Any:
        if not resources.here:
            return "DEFAULT" if resources.gpus else "SPREAD"
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)

    def close(self) -> None:
        for actor in self._started:
            actor.stop()
        self._started = []
        if self._ours:
            self._ray.shutdown()
        self._connected = self._ours = False

    def _connect(self) -> None:
        with self._lock:
            if self._connected:
                return
            if not self._ray.is_initialized():
                _require_reachable(self.address)
                try:
                    self._ray.init(
                        address=self.address or "local",
                        include_dashboard=False,
                        log_to_driver=True,
                        logging_level="ERROR",
                    )
                except (ConnectionError, RuntimeError, ValueError) as error:
                    raise _unreachable(self.address, str(error)) from error
                self._ours = True
            self._connected = True


class _Actor(Remote):
    """One actor."""

    def __init__(self, ray: Any, actor: Any, name: str, made: Any, share: Share) -> None:
        self.name, self.share = name, share
        self._ray, self._actor = ray, actor
        self._alive = True
        self.ready = self._answer(made)

    @property
    def alive(self) -> bool:
        return self._alive

    def submit(self, method: str, *arguments: Plain) -> Future[Plain]:
        return self._answer(self._actor.call.remote(method, list(arguments)))

    def stop(self) -> None:
        if self._alive:
            with suppress(self._ray.exceptions.RayError):
                self._ray.get(self._actor.close.remote(), timeout=10.0)
        self.kill()

    def kill(self) -> None:
        self._alive = False
        self._ray.kill(self._actor)

    def _answer(self, reference: Any) -> Future[Plain]:
        answer: Future[Plain] = Future()

        def pass_on(done: Future[Plain]) -> None:
            with suppress(InvalidStateError):
                try:
                    answer.set_result(answer_of(done.result()))
                except self._ray.exceptions.RayActorError as error:
                    self._alive = False
                    reason = str(error).partition("\n")[0]
                    answer.set_exception(
                        RemoteDiedError(f"the actor of {self.name} died: {reason}", fix="see the log of its Ray worker")
                    )
                except Exception as error:
                    answer.set_exception(error)

        reference.future().add_done_callback(pass_on)
        return answer


def _require_reachable(address: str) -> None:
    """Ray tries an address for a minute and longer before it gives up."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_REACHING).close()
    except OSError as error:
        raise _unreachable(address, error.strerror or str(error)) from error


def _unreachable(address: str, reason: str) -> EndpointError:
    return EndpointError(
        f"the Ray cluster at {address or 'this machine'} can't be reached: {reason}",
        fix="start it with `ray start --head`, or leave engine.address out to start one here",
    )
