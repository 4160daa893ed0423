"""The engine `ray`: actors on a Ray cluster, or on a new one of this machine.

Ray places each actor on a node with enough free CPUs and GPUs. agentfw must be installed on every node.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from ..errors import EndpointError, MissingExtraError, UsageError
from .interface import Engine, Plain, Remote, RemoteDiedError, Resources
from .served import Served, answer_of

__all__ = ["RayEngine"]

_REACHING = 10.0
"""Seconds to wait for an answer of the cluster's address."""
_AT_ONCE = 10_000
"""Maximum number of calls of an actor in progress. Callers have tighter limits of their own."""


class RayEngine(Engine):
    """Starts actors. Connects to the cluster when the first one is started."""

    def __init__(self, address: str = "") -> None:
        # Ray reports its use to its authors unless it is told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray hides all GPUs from actors that ask for none, and will do so no more; this silences the announcement.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("the engine ray", "ray", module=error.name or "") from error
        self._ray: Any = ray
        self.address = address
        self._connected = False
        self._ours = False
        self._lock = threading.Lock()
        self._started: list[_Actor] = []

    def start(
        self, factory: str, arguments: Sequence[Plain] = (), *, name: str, resources: Resources | None = None
    ) -> Remote:
        resources = resources or Resources()
        self._connect()
        self._require(resources, name)
        actor = (
            self._ray.remote(Served)
            .options(
                # Only GPUs are reserved. Reserved CPUs would leave actors waiting that fit well.
                num_cpus=0,
                num_gpus=resources.gpus,
                scheduling_strategy="DEFAULT" if resources.gpus else "SPREAD",
                max_concurrency=_AT_ONCE,
                runtime_env={"env_vars": resources.variables()},
            )
            .remote(name)
        )
        started = _Actor(self._ray, actor, name, factory, arguments)
        self._started.append(started)
        return started

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
                        address=self.address or None, include_dashboard=False, log_to_driver=True, logging_level="ERROR"
                    )
                except (ConnectionError, RuntimeError, ValueError) as error:
                    raise _unreachable(self.address, str(error)) from error
                self._ours = True
            self._connected = True

    def _require(self, resources: Resources, name: str) -> None:
        """Ray waits for ever for what the cluster doesn't have."""
        there = self._ray.cluster_resources().get("GPU", 0.0)
        if resources.gpus > there:
            raise UsageError(
                f"{name} asks for {resources.gpus:g} GPUs, and the Ray cluster has {there:g}",
                fix="use smaller shares, or add nodes to the cluster",
            )


class _Actor(Remote):
    """One actor."""

    def __init__(self, ray: Any, actor: Any, name: str, factory: str, arguments: Sequence[Plain]) -> None:
        self.name = name
        self._ray, self._actor = ray, actor
        self._alive = True
        self.ready = self._answer(actor.make.remote(factory, list(arguments)))

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

        def settle(done: Future[Plain]) -> None:
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

        reference.future().add_done_callback(settle)
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
