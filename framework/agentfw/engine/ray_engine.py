"""The engine `ray`: actors on a Ray cluster, or on a new one of this machine.

Every node needs the same versions of agentfw and its plugins, which each actor compares when it starts, and the models.
It needs no disk that it shares with others.

On a cluster, a placement group reserves the CPUs and GPUs of all processes that start together, or of none: so two
trainings never wait for each other, and an autoscaler sees what is missing. A new Ray of this machine reserves no CPUs:
there, as with the engine `local`, processes may be more than CPUs.

>>> nodes_in_words([{"CPU": 4.0, "GPU": 1.0}] * 2)
'2 nodes with 4 CPUs and 1 GPU each'
"""

from __future__ import annotations

import math
import os
import platform
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..boundary.gate import needing
from ..boundary.metadata import entry_points, version_of
from ..errors import EndpointError, SettingsError, UsageError
from ..printing.out import counted
from .interface import Engine, EngineSettings, Plain, Remote, RemoteDiedError, Resources
from .wire import Served, answer_of

Bundle = Mapping[str, float]
"""What one process needs, or one node has, by Ray's names of resources."""


def nodes_in_words(nodes: Sequence[Bundle]) -> str:
    if not nodes:
        return "no nodes"
    kinds = Counter((node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes).items()
    return " and ".join(
        f"{counted(count, 'node')} with {cpus:g} CPUs and {gpus:g} GPU{'' if gpus == 1 else 's'}"
        + (" each" if count > 1 else "")
        for (cpus, gpus), count in kinds
    )


def versions_here() -> dict[str, str]:
    """What must be equal on all nodes: Python's version, and those of agentfw and its plugins."""
    plugins = {entry.distribution: entry.version for entry in entry_points("agentfw")}
    return {"Python": ".".join(platform.python_version_tuple()[:2]), "agentfw": version_of("agentfw"), **plugins}


class ServedOnNode(Served):
    """Makes the object if the node has the right versions."""

    async def call_with(self, method: str, *arguments: Plain) -> Plain:
        """Ray hands over what is shared where it is an argument of its own."""
        return await self.call(method, arguments)

    async def make_on_node(
        self, factory: str, arguments: Sequence[Plain], versions: Mapping[str, str], keys: Mapping[str, str]
    ) -> Plain:
        """Make the object, with the values of some keys in the environment. They aren't in the actor's description."""
        from ray.util import get_node_ip_address

        self.name += f" on the node {get_node_ip_address()}"  # type: ignore[no-untyped-call]
        os.environ.update(keys)
        self._versions = versions
        return await self.make(factory, arguments)

    def _check(self) -> None:
        wanted, found = self._versions, versions_here()
        if differing := [name for name in wanted if found.get(name) != wanted[name]]:
            other = ", ".join(f"{name} {found.get(name) or 'not at all'}" for name in differing)
            these = ", ".join(f"{name} {wanted[name]}" for name in differing)
            raise UsageError(
                f"{self.name} has {other}, and this machine has {these}",
                fix="install the same versions of Python, agentfw and its plugins on every node of the cluster",
            )


_REACHING = 10.0  # seconds to wait for an answer of the cluster's address
_PLACING = 5  # seconds that Ray may take to find room where there is some
_AT_ONCE = 10_000  # calls of an actor in progress at most; callers have tighter limits of their own


@dataclass(slots=True, eq=False)
class _Place:
    """A bundle of a placement group. An empty bundle needs no group."""

    bundle: Bundle
    here: bool = False
    group: Any = None
    index: int = 0
    taken: bool = False

    def strategy(self) -> Any:
        if self.group is None:
            return "SPREAD"
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return PlacementGroupSchedulingStrategy(self.group, placement_group_bundle_index=self.index)


class RayEngine(Engine):
    """Starts actors. Connects to the cluster when the first one is started."""

    def __init__(self, settings: EngineSettings) -> None:
        # Ray reports its use to its authors unless it is told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray hides all GPUs from actors that ask for none, and will do so no more; this silences the announcement.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        with needing("the engine ray", "ray"):
            import ray
        self._ray: Any = ray
        self.address, self.wait = settings.address, settings.wait
        self.one_machine = not settings.address
        missing = [name for name in settings.keys if name not in os.environ]
        if missing:
            text = f"engine.keys: {', '.join(missing)} is not set in this environment"
            raise SettingsError(text, fix=f"export {missing[0]}=...")
        self._keys = {name: os.environ[name] for name in settings.keys}
        self._versions = versions_here()
        self._connected = False
        self._ours = False
        self._lock = threading.Lock()
        self._started: list[_Actor] = []
        self._places: list[_Place] = []

    def start(
        self, factory: str, arguments: Sequence[Plain] = (), *, name: str, resources: Resources | None = None
    ) -> Remote:
        resources = resources or Resources()
        self._connect()
        while (place := self._taken(resources)) is None:
            self._reserve([resources], name, 0.0)
        options = self._ray.remote(ServedOnNode).options(
            num_cpus=place.bundle.get("CPU", 0),
            num_gpus=place.bundle.get("GPU", 0),
            scheduling_strategy=place.strategy(),
            max_concurrency=_AT_ONCE,
            runtime_env={"env_vars": resources.variables(this_machine=not self.address)},
        )
        actor = options.remote(name)
        made = actor.make_on_node.remote(factory, list(arguments), self._versions, self._keys)
        started = _Actor(self._ray, actor, name, made, lambda: self._give_back(place))
        self._started = [other for other in self._started if other.alive]
        self._started.append(started)
        return started

    def share(self, value: Plain) -> Plain:
        self._connect()
        return self._ray.put(value)

    @property
    def host(self) -> str:
        if self.one_machine:
            return "127.0.0.1"
        from ray.util import get_node_ip_address

        return str(get_node_ip_address())  # type: ignore[no-untyped-call]

    def require(self, resources: Sequence[Resources], who: str) -> None:
        self._reserve(resources, who, self.wait)

    def _bundle(self, resources: Resources) -> Bundle:
        needed = {"CPU": float(resources.cpus) if self.address else 0.0, "GPU": resources.gpus}
        return {name: amount for name, amount in needed.items() if amount}

    def _reserve(self, resources: Sequence[Resources], who: str, wait: float) -> None:
        """Reserve what isn't reserved yet, all of it or nothing."""
        from ray.util import placement_group, remove_placement_group

        self._connect()
        bundles = [(bundle, each.here) for each in resources if (bundle := self._bundle(each))]
        missing, groups, made = list[tuple[Bundle, bool]](), list[Any](), None
        with self._lock:
            free = [place for place in self._places if not place.taken]
        for needed in bundles:
            if (place := next((place for place in free if (place.bundle, place.here) == needed), None)) is None:
                missing.append(needed)
            else:
                free.remove(place)
                groups.append(place.group)
        if missing:
            this_node = {"ray.io/node-id": self._ray.get_runtime_context().get_node_id()}
            made = placement_group(
                [dict(bundle) for bundle, _ in missing],
                strategy="PACK" if any("GPU" in bundle for bundle, _ in missing) else "SPREAD",
                bundle_label_selector=[this_node if here else {} for _, here in missing],
            )
            groups.append(made)
        # Also those from before: the node of a bundle may be gone, and then Ray looks for another one.
        if all(group.wait(math.ceil(_PLACING + wait)) for group in groups):
            with self._lock:
                self._places += [_Place(*needed, made, index) for index, needed in enumerate(missing)]
            return
        if made is not None:
            remove_placement_group(made)
        cpus, gpus = (sum(each.get(name, 0.0) for each, _ in bundles) for name in ("CPU", "GPU"))
        left = self._ray.available_resources()
        raise UsageError(
            f"there is no room for {who}: needed are {cpus:g} CPUs and {gpus:g} GPUs, and the Ray cluster has "
            f"{nodes_in_words([node['Resources'] for node in self._ray.nodes() if node['Alive']])}, of which "
            f"{left.get('CPU', 0.0):g} CPUs and {left.get('GPU', 0.0):g} GPUs are free",
            fix="use fewer processes or smaller shares, or add nodes; if the cluster grows by itself, or others use "
            "it, set engine.wait=600",
        )

    def _taken(self, resources: Resources) -> _Place | None:
        """A place for one process. None if nothing is reserved for it."""
        if not (bundle := self._bundle(resources)):
            return _Place(bundle)
        needed = bundle, resources.here
        with self._lock:
            for place in self._places:
                if not place.taken and (place.bundle, place.here) == needed:
                    place.taken = True
                    return place
        return None

    def _give_back(self, place: _Place) -> None:
        """The process has ended. A group of which no process is left is removed."""
        from ray.util import remove_placement_group

        place.taken = False
        with self._lock:
            own = [one for one in self._places if one.group is place.group]
            if not own or any(one.taken for one in own):
                return
            self._places = [one for one in self._places if one.group is not place.group]
        remove_placement_group(place.group)

    def close(self) -> None:
        for actor in self._started:
            actor.stop()
        for place in self._places:
            self._give_back(place)
        self._started = []
        if self._ours:
            self._ray.shutdown()
        self._connected = self._ours = False

    def _connect(self) -> None:
        with self._lock:
            if self._connected:
                return
            if not self._ray.is_initialized():
                try:
                    # Ray tries an address for a minute and longer before it gives up.
                    host, _, port = self.address.removeprefix("ray://").rpartition(":")
                    if host and port.isdigit():
                        socket.create_connection((host, int(port)), timeout=_REACHING).close()
                    options = {"include_dashboard": False, "log_to_driver": True, "logging_level": "ERROR"}
                    self._ray.init(address=self.address or "local", **options)
                except (OSError, RuntimeError, ValueError) as error:
                    reason = getattr(error, "strerror", None) or str(error)
                    raise EndpointError(
                        f"the Ray cluster at {self.address or 'this machine'} can't be reached: {reason}",
                        fix="start it with `ray start --head`, or leave engine.address out to start one here",
                    ) from error
                self._ours = True
            self._connected = True


class _Actor(Remote):
    def __init__(self, ray: Any, actor: Any, name: str, made: Any, ended: Callable[[], None]) -> None:
        self.name = name
        self._ray, self._actor, self._ended = ray, actor, ended
        self._alive = True
        self.ready = self._answer(made)

    @property
    def alive(self) -> bool:
        return self._alive

    def submit(self, method: str, *arguments: Plain) -> Future[Plain]:
        return self._answer(self._actor.call_with.remote(method, *arguments))

    def stop(self) -> None:
        if self._alive:
            with suppress(self._ray.exceptions.RayError):
                self._ray.get(self._actor.close.remote(), timeout=10.0)
        self.kill()

    def kill(self) -> None:
        self._alive = False
        self._ray.kill(self._actor)
        ended, self._ended = self._ended, lambda: None  # once: its place may be another's by now
        ended()

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
