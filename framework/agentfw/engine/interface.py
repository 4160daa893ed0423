"""The interface of engines: start an object in another process, call it, learn that it died, stop it.

Only plain values cross: what JSON can express, and bytes. A tuple arrives as a list.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, model_validator

from ..errors import AgentfwError
from ..settings import Settings
from .cards import Plan

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Plain = Any
"""None, bool, int, float, str, bytes, or a list or dict of these with text as keys."""


class RemoteDiedError(AgentfwError):
    """The process of a remote object ended, so its calls have no answer. They can be repeated elsewhere."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a remote object may use."""

    cpus: int = 1
    """Number of threads of numerical libraries."""
    gpus: float = 0.0
    """Share of one GPU, or a whole number of GPUs."""
    learns: bool = False
    """Whether it gets GPUs that learn, and not those that play."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables of its process."""
    here: bool = False
    """Whether it must be on this machine, because it works in the run's folder."""

    def variables(self, *, this_machine: bool) -> dict[str, str]:
        """The environment variables of its process, without those of GPUs. Another machine has its own modules."""
        path = {"PYTHONPATH": os.pathsep.join(os.path.abspath(folder) for folder in sys.path)} if this_machine else {}
        return {**dict.fromkeys(_THREADS, str(self.cpus)), **path, **self.environment}


class Remote:
    """An object in another process."""

    name: str
    ready: Future[None]
    """Done when the object is made. Raises the error of its constructor."""

    @property
    def alive(self) -> bool:
        raise NotImplementedError

    def submit(self, method: str, *arguments: Plain) -> Future[Plain]:
        """Call an async method. Several calls may be in progress at once, and begin in any order.

        The future raises what the method raises, and RemoteDiedError if the process ends first.
        """
        raise NotImplementedError

    async def call(self, method: str, *arguments: Plain) -> Plain:
        """Call an async method and wait for its answer."""
        return await asyncio.wrap_future(self.submit(method, *arguments))

    def stop(self) -> None:
        """Let the object close, and end its process. A process that doesn't end soon is killed."""
        raise NotImplementedError

    def kill(self) -> None:
        """End the process at once."""
        raise NotImplementedError


class Engine:
    """Starts objects in other processes."""

    one_machine = True
    """Whether all of them are on this machine, and share its memory."""

    @property
    def plan(self) -> Plan:
        """Which GPUs of this machine learn and which play. None of them: whoever starts the processes places them."""
        return Plan()

    @property
    def host(self) -> str:
        """The address at which they reach this process."""
        return "127.0.0.1"

    def start(
        self, factory: str, arguments: Sequence[Plain] = (), *, name: str, resources: Resources | None = None
    ) -> Remote:
        """Start `factory(*arguments)` in another process, without waiting until it is ready.

        `factory` is written "package.module:Name", and `name` is used in errors. If the object has an async method
        `close`, it is called before the process ends.
        """
        raise NotImplementedError

    def require(self, resources: Sequence[Resources], who: str) -> None:
        """Raise unless there is room for all of these together, beside what is running. Starts nothing.

        Called before the first of several objects is started, so that a run doesn't begin with a part of them.
        """

    def share(self, value: Plain) -> Plain:
        """The same value, for calls of several objects: it travels to each machine once, as an argument of its own."""
        return value

    def close(self) -> None:
        """End all processes."""


class EngineSettings(Settings):
    """Where remote components live."""

    name: Literal["local", "ray"] = Field(
        "local", description="`local` starts processes on this machine, `ray` actors on a Ray cluster"
    )
    gpus: str = Field(
        "auto",
        pattern=r"^(auto|[1-9]\d*|\d+\+[1-9]\d*)$",
        description="GPUs of this machine to use: a number, or how many play and how many learn, such as 3+1. "
        "Default: all, of which a quarter learn",
    )
    address: str = Field("", description="Address of the Ray cluster. Default: a new one on this machine")
    keys: tuple[str, ...] = Field(
        (),
        description="Names of environment variables, such as OPENAI_API_KEY, that the processes on a cluster are given",
    )
    wait: float = Field(
        0.0, ge=0, description="Seconds to wait until a cluster that grows has room for all processes of a pool"
    )

    @model_validator(mode="after")
    def _only_ray_has_a_cluster(self) -> EngineSettings:
        if self.gpus != "auto" and self.name == "ray":
            raise ValueError("gpus needs name = local: Ray places processes itself")
        for key in ("address", "keys", "wait"):
            if getattr(self, key) and self.name != "ray":
                raise ValueError(f"{key} needs name = ray")
        return self
