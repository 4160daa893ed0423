"""A plugin host for tests: it holds what it is given and nothing else.

Nothing of the machine gets in: no other plugin that happens to be installed, no environment variable,
no agentfw.toml. A plugin with any problem is an error at once.

    host = fresh_host("my_plugin.plugin")
    notebook = host.create("memory", "notebook", {"limit": 3})
"""

from __future__ import annotations

from types import ModuleType

from ..boundary import metadata
from ..boundary.metadata import EntryPoint, normalise
from ..host.host import GROUP, Host, HostOptions
from ..host.names import OWN_DISTRIBUTION

__all__ = ["fresh_host"]


class _Given(EntryPoint):
    """An entry point of something that is imported already."""

    plugin: object

    def load(self) -> object:
        return self.plugin


def fresh_host(*plugins: object, builtins: bool = False, strict: bool = True) -> Host:
    """A host of these plugins: modules, names of modules, or any objects with hooks; and agentfw's own where wished.

    strict: raise a PluginError for whatever is wrong with a plugin; without it the host notes it and goes on.
    """
    entry_points = [_entry_point(plugin, number) for number, plugin in enumerate(plugins)]
    if builtins:
        entry_points += [found for found in metadata.entry_points(GROUP) if found.distribution == OWN_DISTRIBUTION]
    return Host.load(HostOptions(strict=strict), entry_points)


def _entry_point(plugin: object, number: int) -> EntryPoint:
    if isinstance(plugin, str):
        name = plugin
    elif isinstance(plugin, ModuleType):
        name = plugin.__name__
    else:
        name = type(plugin).__name__
    distribution = normalise(name.partition(":")[0].partition(".")[0]) or "plugin"
    version = metadata.version_of(distribution) or "0"
    if isinstance(plugin, str):
        return EntryPoint(f"{distribution}-{number + 1}", name, distribution, version)
    given = _Given(f"{distribution}-{number + 1}", name, distribution, version)
    given.plugin = plugin
    return given
