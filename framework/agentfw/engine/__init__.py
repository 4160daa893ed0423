"""Runs components in other processes: on this machine, or on a Ray cluster.

An engine starts an object in a process of its own, calls its async methods with plain values, and reports when the
process dies. The pool policy and the parallel learner are built on it, and work the same with either engine.

    engine = LocalEngine()
    remote = engine.start("my_plugin.judging:Judge", ["strict"], name="judge 0", resources=Resources(cpus=1))
    await remote.call("rate", "a text")        # awaits Judge("strict").rate("a text") in the other process
    engine.close()
"""

from __future__ import annotations

from .cards import Card, Plan, found_cards
from .interface import Engine, EngineSettings, Plain, Remote, RemoteDiedError, Resources
from .local import LocalEngine, make_engine

__all__ = [
    "Card",
    "Engine",
    "EngineSettings",
    "LocalEngine",
    "Plain",
    "Plan",
    "Remote",
    "RemoteDiedError",
    "Resources",
    "found_cards",
    "make_engine",
]
