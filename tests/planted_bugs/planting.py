"""How a bug is planted: something in the source of a good component becomes something else."""

from __future__ import annotations
import __future__

import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Bug(NamedTuple):
    promise: str
    """The check that has to fail, by its name."""
    make: Callable[[], Any]


def bug(promise: str, good: type, *changes: str) -> Bug:
    """A class with a bug. `changes` are what stands in the source of a good one, once, and what it becomes, in turn."""
    source = inspect.getsource(good)
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert source.count(old) == 1, f"{old} stands {source.count(old)} times in {good.__name__}"
        source = source.replace(old, new)
    names = dict(vars(sys.modules[good.__module__]))
    code = compile(source, f"<bad {good.__name__}>", "exec", __future__.annotations.compiler_flag)
    exec(code, names)
    return Bug(promise, names[good.__name__])
