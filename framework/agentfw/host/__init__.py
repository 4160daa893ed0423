"""The plugin host: what is installed, what it offers, and what went wrong with it.

A broken plugin only prints a line on stderr until somebody selects it. `host.py` is the host itself. The other modules
import plugins behind a guard, call their registration hooks, and create components.
"""

from .host import Host, HostOptions
from .offers import PluginRecord, Problem, Registered
from .project import ProjectFile, find_project, runs_directory

__all__ = [
    "Host",
    "HostOptions",
    "PluginRecord",
    "Problem",
    "ProjectFile",
    "Registered",
    "find_project",
    "runs_directory",
]
