"""Gives a remote process the same plugins as this one: the options of the host cross as plain values.

engine.start("my_plugin.replica:Replica", [plain_options(host)], name="replica 0")     # here
component = load_host(options).create("policy", "tiny", {})                            # in the other process
"""

from __future__ import annotations

from pathlib import Path

from ..host import Host, HostOptions
from ..host.project import read_project
from .interface import Plain

__all__ = ["load_host", "plain_options"]


def plain_options(host: Host) -> Plain:
    """The options of a host, for `load_host`."""
    options = host.options
    project = "" if options.project is None else str(options.project.path)
    return {"blocked": list(options.blocked), "disabled": list(options.disabled), "project": project}


def load_host(options: Plain) -> Host:
    """A host with these options in this process."""
    project = read_project(Path(options["project"])) if options["project"] else None
    return Host.load(HostOptions(tuple(options["blocked"]), tuple(options["disabled"]), project=project))
