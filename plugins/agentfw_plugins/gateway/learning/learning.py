"""What a gateway does to get better: counts feedback, starts the trainer, and serves what comes of it.

learning = Learning(live, tell=print)
learning.start(every=40, share=0.1)
await learning.ready()
task = asyncio.create_task(learning.run())
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentfw import Policy
from agentfw.errors import AgentfwError
from agentfw.runs import LiveRun

from .ratings import fresh, read_ratings
from .served_versions import ServedVersions, check_learns
from .trainer import BUSY
from .version_file import VersionFile

__all__ = ["Learning"]

_LOOK = 0.5
"""Seconds between two looks at the versions."""
_TRIES = 3
"""How often a trainer is started for the same feedback that was killed or failed."""


class Learning:
    """The versions of a gateway, and the trainer beside it."""

    def __init__(self, live: LiveRun, tell: Callable[[str], object]) -> None:
        self.live, self.tell, self.file = live, tell, VersionFile(live.folder.path)
        self.spec: Path | None = None
        self._wished = (0, 0.0)
        self.trains, self.waiting, self._tries, self._enough = False, 0, 0, 0
        self._heard = 0
        self.trainer: asyncio.subprocess.Process | None = None

    def start(self, *, every: int, share: float, spec: Path | None = None) -> None:
        """Train versions. Without this, those that there are already are served."""
        check_learns(self.live.assembly.policy.policy, self.live.assembly.spec.policy.name)
        self.trains, self.spec, self._wished = True, spec, (every, share)

    async def ready(self) -> None:
        """Serve the version that the file names. Call this before the first request."""
        if self.trains:
            self.file.create()
            with self.file.change() as state:
                state.every, state.share = self._wished
        assembly = self.live.assembly
        guarded, choice = assembly.policy, assembly.spec.policy

        def make() -> Policy:
            settings = choice.settings if choice.checked is None else choice.checked
            made = assembly.host.create("policy", choice.name, settings)
            assert isinstance(made, Policy)
            return made

        self.served = ServedVersions(guarded.policy, make, self.file)
        guarded.policy = self.served
        await self.served.refresh()
        await self.count()

    def heard(self) -> None:
        """Feedback has come in, and is on disk."""
        self._heard += 1
        self.waiting += 1

    async def run(self) -> None:
        """Follow the versions and train, until cancelled. What goes wrong is told, and the served version stays."""
        try:
            while True:
                try:
                    if await self.served.refresh():
                        self.tell(self._words())
                except Exception as error:  # of a plugin, too
                    self.tell(f"can't read the versions, so v{self.served.state.served} is still served: {error}")
                if self.trains and self._is_due():
                    await self._train()
                await asyncio.sleep(_LOOK)
        finally:
            if self.trainer is not None and self.trainer.returncode is None:
                self.trainer.kill()  # nothing is lost: what is complete is in the file
                await self.trainer.wait()

    def _is_due(self) -> bool:
        if self.trainer is not None:
            return self.trainer.returncode is not None
        return self.waiting >= max(self.served.state.every, self._enough) or self.served.state.rebuilds

    async def _train(self) -> None:
        """Start the trainer, or take note of its end."""
        if self.trainer is None:
            words = [str(self.file.run), *([str(self.spec)] if self.spec else [])]
            module = f"{__package__}.trainer"
            none, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
            # Nothing is written to its stdin, which closes when this process ends, however that ends.
            self.trainer = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *words, stdin=pipe, stdout=none, stderr=pipe
            )
            assert self.trainer.stderr is not None
            self._reading = asyncio.create_task(self.trainer.stderr.read())
            return
        code = self.trainer.returncode
        error = await self._reading
        self.trainer = None
        if code == BUSY:
            return
        await self.count()
        if code:
            self._tries += 1
            said = error.decode(errors="replace").strip().splitlines()
            self.tell(f"the trainer ended with {code}{': ' + said[-1] if said else ''}")
            if self._tries >= _TRIES:
                self._tries, self._enough = 0, self.waiting + self.served.state.every  # there is more to learn from
        else:
            # A trial that goes on, although there are ratings enough, waits for more of them.
            goes_on = self.served.state.canary and self.waiting >= self.served.state.every
            self._tries, self._enough = 0, self.waiting + self.served.state.every if goes_on else 0

    async def count(self) -> None:
        """Count the ratings that no version was made for yet.

        Those that come in meanwhile may be counted twice. A trainer that is started too early makes no version.
        """
        heard = self._heard
        with suppress(AgentfwError):
            state = await asyncio.to_thread(self.file.read)
            ratings = await asyncio.to_thread(read_ratings, self.file.run, state.removals)
            self.waiting = fresh(ratings, state.since) + self._heard - heard

    def _words(self) -> str:
        state = self.served.state
        trial = f", v{state.canary} for {state.share:.0%} of the sessions" if state.canary else ""
        return f"served: v{state.served}{trial}; {state.said}"
