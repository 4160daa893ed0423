"""What a gateway does to get better: counts feedback, starts the trainer, and serves what comes of it."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentfw import Policy
from agentfw.errors import AgentfwError
from agentfw.printing.out import counted
from agentfw.runs import LiveRun

from ...rewards.measured import Metric
from .ratings import fresh, read_ratings
from .served_versions import ServedVersions, check_learns
from .trainer import BUSY
from .version_file import VersionFile, Wished

_LOOK = 0.5  # seconds between two looks at the versions
_LEAD = 5.0  # seconds between two questions which gateway trains. It must be less than the lease.
_TRIES = 3  # how often a trainer is started for the same feedback that was killed or failed


class Learning:
    def __init__(self, live: LiveRun, tell: Callable[[str], object], file: VersionFile) -> None:
        self.live, self.tell, self.file = live, tell, file
        self.spec: Path | None = None
        self._wished: Wished | None = None
        self.waiting, self._tries, self._enough, self._judged = 0, 0, 0, 0
        self._heard = self._untold = 0
        self._leads, self._asked = False, -math.inf
        self.trainer: asyncio.subprocess.Process | None = None

    def start(self, wished: Wished, spec: Path | None = None) -> None:
        """Train versions. Without this, those that there are already are served."""
        check_learns(self.live.assembly.policy.inside, self.live.assembly.spec.policy.name, wished.owns)
        Metric.read(wished.metric)  # raises if it is none
        self.spec, self._wished = spec, wished

    async def ready(self) -> None:
        """Serve the version that the file names. Call this before the first request."""

        def begin() -> None:
            self.file.create()
            with self.file.alone() as is_alone:
                if is_alone:  # a trainer that is killed this moment clears up the next time
                    self.file.clear(self.file.read())
            if self._wished:
                with self.file.change() as state:
                    state.every, state.share, state.metric, state.owns = self._wished

        await asyncio.to_thread(begin)
        assembly = self.live.assembly
        guarded, choice = assembly.policy, assembly.spec.policy

        def make() -> Policy:
            settings = choice.settings if choice.checked is None else choice.checked
            made = assembly.host.create("policy", choice.name, settings)
            assert isinstance(made, Policy)
            return made

        self.served = ServedVersions(guarded.inside, make, self.file)
        guarded.inside = self.served
        await self.served.refresh()
        await self.count()

    def heard(self) -> None:
        """Feedback has come in, and is on disk."""
        self._heard += 1
        self._untold += 1
        self.waiting += 1

    async def run(self) -> None:
        """Follow the versions and train, until cancelled. What goes wrong is told, and the served version stays."""
        trouble = ""
        try:
            while True:
                try:
                    if await self.served.refresh():
                        self.tell(self._words())
                    await self._follow_others()
                    trouble = ""
                except Exception as error:  # of a plugin, too
                    if trouble != str(error):
                        trouble = str(error)
                        self.tell(f"can't read the versions, so v{self.served.state.served} is still served: {trouble}")
                if self._wished and self._leads:
                    await self._train()
                await asyncio.sleep(_LOOK)
        finally:
            await self._end_trainer()
            with suppress(AgentfwError):
                await asyncio.to_thread(self.file.close)

    async def _end_trainer(self) -> None:
        """Nothing is lost: what is complete is in the file."""
        if self.trainer is not None and self.trainer.returncode is None:
            self.trainer.kill()
            await self.trainer.wait()

    async def _follow_others(self) -> None:
        """Tell the gateways with the same versions what was heard here, be told, and ask which of them trains."""
        own, self._untold = self._untold, 0
        try:
            elsewhere = await asyncio.to_thread(self.file.heard_elsewhere, own)
        except BaseException:
            self._untold += own
            raise
        # Not `+= await`, which would forget what is heard meanwhile.
        self.waiting += elsewhere
        if self._wished and time.monotonic() - self._asked > _LEAD:
            self._leads = await asyncio.to_thread(self.file.lead)
            self._asked = time.monotonic()
            if not self._leads:
                await self._end_trainer()

    async def _train(self) -> None:
        """Start the trainer if there is something to learn, or take note of its end."""
        state = self.served.state
        if self.trainer is None:
            # What fails again and again waits for more feedback.
            has_work = state.rebuilds and not self._enough
            if has_work or self.waiting >= max(state.every, self._enough):
                self._judged = state.canary
                words = ["-m", f"{__package__}.trainer", str(self.file.run), *([str(self.spec)] if self.spec else [])]
                none, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
                told = {**os.environ, **self.file.environment()}
                # Nothing is written to its stdin, which closes when this process ends, however that ends.
                self.trainer = await asyncio.create_subprocess_exec(
                    sys.executable, *words, stdin=pipe, stdout=none, stderr=pipe, env=told
                )
                assert self.trainer.stderr is not None
                self._reading = asyncio.create_task(self.trainer.stderr.read())
            return
        if (code := self.trainer.returncode) is None:
            return
        error, self.trainer = await self._reading, None
        if code == BUSY:
            return
        await self.count()
        if code:
            self._tries += 1
            said = error.decode(errors="replace").strip().splitlines()
            self.tell(f"the trainer ended with {code}{': ' + said[-1] if said else ''}")
            if self._tries >= _TRIES:
                self._tries, self._enough = 0, self.waiting + state.every  # there is more to learn from
        else:
            # A trial that was judged and goes on, although there are ratings enough, waits for more of them.
            goes_on = self._judged and self._judged == state.canary and self.waiting >= state.every
            self._tries, self._enough = 0, self.waiting + state.every if goes_on else 0

    async def count(self) -> None:
        """Count the ratings that no version was made for yet.

        Those that come in meanwhile may be counted twice. A trainer that is started too early makes no version.
        """
        heard = self._heard
        with suppress(AgentfwError):
            state = await asyncio.to_thread(self.file.read)
            ratings = await asyncio.to_thread(lambda: read_ratings(self.file.episodes(), state.removals, state.metric))
            self.waiting = fresh(ratings, state.since) + self._heard - heard

    def _words(self) -> str:
        state = self.served.state
        trial = f", v{state.canary} for {state.share:.0%} of the sessions" if state.canary else ""
        own = f", and {counted(len(state.own), 'user')} their own" if state.own else ""
        return f"served: v{state.served}{trial}{own}; {state.said}"
