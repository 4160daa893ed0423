"""Tests that are coroutines: each in an event loop of its own, and none that waits for ever.

@asynchronous
async def test_something() -> None: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 300))

    return run
