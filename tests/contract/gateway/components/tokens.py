"""A policy in one file. Each of its tokens says which model gave it, and its text says which sample it is.

A message with `hold=FILE` is answered when FILE exists, which `take=FILE` removes then. One with `break` is refused
after the first word of a stream. One with `leak=NAME` is answered with that environment variable, three letters a
piece, also in lower case. Where there is an action to call, it is called with the variable as its argument.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

from agentfw import Generation, Policy, Request
from agentfw.episode import Call
from agentfw.errors import EndpointError

MARK = 1
"""The number of the model. Tokens are MARK * 10**7 and a number."""


class Tokens(Policy):
    """Answers with what was said, the model and the sample."""

    async def generate(self, request: Request) -> Generation:
        return await self.stream(request, lambda piece: None)

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        said, seed, before = request.messages[-1].content, request.sampling.seed, request.before
        sample = 0 if seed is None else 1 + seed % 1_000_000
        tell("Heard: ")
        if "break" in said:
            raise EndpointError("the model broke off", fix="ask again")
        for how, file in re.findall(r"(hold|take)=(\S+)", said):
            while not Path(file).exists():
                await asyncio.sleep(0.01)
            if how == "take":
                Path(file).unlink()
        leaked = [os.environ[name] for name in re.findall(r"leak=(\w+)", said)]
        words = " ".join([said, *leaked, *map(str.lower, leaked)])
        rest = f"{words} (model {MARK}, sample {sample})"
        size = 3 if leaked else len(rest)
        for place in range(0, len(rest), size):
            tell(rest[place : place + size])
        calls = [Call(action.name, {"with": f"the key {leak}"}) for action in request.actions for leak in leaked]
        chain = (*before.prompt_ids, *before.token_ids) if before is not None else ()
        prompt = (*chain, MARK * 10**7 + len(request.messages))
        return Generation(
            f"Heard: {rest}",
            tuple(calls),
            prompt_ids=prompt,
            token_ids=(MARK * 10**7 + sample,),
            logprobs=(-1.0,),
            version="v0",
        )
