"""The object of a Ray actor: a served object on a node with the same versions as the machine of the run."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

from ..boundary.metadata import entry_points, version_of
from ..errors import UsageError
from .interface import Plain
from .served import Served

__all__ = ["ServedOnNode", "versions_here"]


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
