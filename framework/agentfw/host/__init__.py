"""The plugin host: what is installed, what it offers, and what went wrong with it.

The one rule: a broken plugin costs a line on stderr until somebody selects it. `host.py` is the host itself; beside it
stand the loop that imports plugins behind a guard, the questions that it asks them, and the making of a component.
"""

from .host import Host, HostOptions, PluginRecord, Problem, Registered

__all__ = ["Host", "HostOptions", "PluginRecord", "Problem", "Registered"]
