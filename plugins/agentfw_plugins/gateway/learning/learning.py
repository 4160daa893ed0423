"""What a gateway does to get better: counts feedback, starts the trainer, and serves what comes of it.

A version is a policy of its own, made from the same settings and given its adapter. So two can be served side by side,
and the policy as it came stays there to go back to. Answers in progress end with the version that they began with.

Versions of single users have the base in common: each costs its adapter. They are loaded when their user asks, and the
MOST_LOADED that were asked last stay in memory.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from agentfw import Generation, Policy, Request
from agentfw.episode import Usage
from agentfw.errors import AgentfwError, StorageError, UsageError
from agentfw.printing.out import counted
from agentfw.runs import LiveRun
from agentfw.timeline import Time

from ...rewards.measured import Metric
from .ratings import fresh, read_ratings
from .trainer import BUSY
from .version_file import WITHDRAWN, Version, VersionFile, Wished, named

_LOOK = 0.5  # seconds between two looks at the versions
_LEAD = 5.0  # seconds between two questions which gateway trains. It must be less than the lease.
_TRIES = 3  # how often a trainer is started for the same feedback that was killed or failed
MOST_LOADED = 32
logger = logging.getLogger(__name__)


class Learning:
    def __init__(self, live: LiveRun, tell: Callable[[str], object], file: VersionFile) -> None:
        self.live, self.tell, self.file = live, tell, file
        self.spec: Path | None = None
        self._wished: Wished | None = None
        self.waiting, self._untold, self._tries, self._enough, self._judged = 0, 0, 0, 0, 0
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
                    if state.canary and not state.share:  # nobody would get it, and its trial would never end
                        state.judge(worse=False, why=f"{state.version(state.canary).why}; its trial was left out")

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
            self.trainer = None  # it hasn't failed

    async def _follow_others(self) -> None:
        """Tell the gateways with the same versions what was heard here, be told, and ask which of them trains."""
        own = self._untold
        elsewhere = await asyncio.to_thread(self.file.heard_elsewhere, own)
        # Not `+= await`, which would forget what is heard meanwhile.
        self.waiting += elsewhere
        self._untold -= own
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
                try:
                    self.trainer = await asyncio.create_subprocess_exec(
                        sys.executable, *words, stdin=pipe, stdout=none, stderr=pipe, env=told
                    )
                except OSError as problem:  # such as without memory for another process. What is served stays
                    self.tell(f"the trainer can't be started: {problem}")
                    self._enough = self.waiting + state.every
                    return
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
        before = self.waiting
        with suppress(AgentfwError):
            state = await asyncio.to_thread(self.file.read)
            ratings = await asyncio.to_thread(lambda: read_ratings(self.file.episodes(), state.removals, state.metric))
            self.waiting += fresh(ratings, state.since) - before

    def _words(self) -> str:
        state = self.served.state
        trial = f", v{state.canary} for {state.share:.0%} of the sessions" if state.canary else ""
        own = f", and {counted(len(state.own), 'user')} their own" if state.own else ""
        return f"served: v{state.served}{trial}{own}; {state.said}"


class ServedVersions(Policy):
    """Policies by the number of their version; 0 is the policy as it came."""

    def __init__(self, base: Policy, make: Callable[[], Policy], file: VersionFile) -> None:
        self.base, self._make, self._file = base, make, file
        self.price, self.follows_schemas, self.state = base.price, base.follows_schemas, file.read()
        self.continues = base.continues
        self._made = {0: base}
        self._pinned: dict[str, int] = {}
        """The versions that sessions get whatever is served, by name. Each is there after the next `refresh`."""
        self._asked = Counter[int]()
        self._own, self._loading = self.state.own, asyncio.Lock()

    async def refresh(self) -> bool:
        """Serve what the file says. Returns whether that changed."""
        state = await asyncio.to_thread(self._file.read)
        known = {0, *(one.number for one in state.versions if one.outcome != WITHDRAWN)}
        self._pinned = {session: number for session, number in self._pinned.items() if number in known}
        wanted = {state.served, state.canary, *self._pinned.values()}
        for number in wanted - self._made.keys():
            await self._load(state.version(number))
        before, self.state, self._own = self.state, state, state.own
        kept = {one.adapter for one in state.versions}  # `agentfw serve forget` takes adapters out of a database
        await asyncio.to_thread(self._file.delete, [one for one in before.versions if one.adapter not in kept])
        own = {one.number for one in self._own.values()}
        wanted |= {0, *[number for number in self._made if number in own][-MOST_LOADED:]}
        for number in self._made.keys() - wanted:
            if not self._asked[number]:
                await self._made.pop(number).close()
        return (before.served, before.canary, before.said) != (state.served, state.canary, state.said)

    async def _load(self, version: Version) -> None:
        adapter = await asyncio.to_thread(self._file.fetch, version)
        if not adapter.exists():
            words = f"{adapter}, the adapter of {version.name}, is gone"
            raise StorageError(words, fix="restore it, or go back: agentfw serve rollback")
        if version.user:
            self._made[version.number] = await self.base.beside(adapter, version.name)
            return
        policy = await asyncio.to_thread(self._make)
        try:
            policy.open(self._file.run)
            await policy.publish(adapter, version.name)
        except BaseException:
            await policy.close()  # the next look makes another one
            raise
        self._made[version.number] = policy

    def version_of(self, session: str, user: str) -> str:
        return self._name(self._number_for(session, user))

    def _name(self, number: int) -> str:
        return self.state.version(number).name if number else named(0)

    def pin(self, session: str, version: str) -> None:
        """Let a session get this version, if it was served to all and not withdrawn, or else what is served."""
        there = (one for one in self.state.versions if one.adapter and not one.user and one.outcome != WITHDRAWN)
        found = {one.name: one.number for one in there} | {named(0): 0}
        if version in found:
            self._pinned[session] = found[version]
        else:
            self._pinned.pop(session, None)

    def _number_for(self, session: str, user: str) -> int:
        pinned = self._pinned.get(session)
        if pinned in self._made and pinned is not None:
            return pinned
        return self._own[user].number if user in self._own else self.state.for_session(session)

    async def generate(self, request: Request) -> Generation:
        async with self._of(request) as (policy, version):
            generation = await policy.generate(request)
            generation.version = version
            return generation

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        async with self._of(request) as (policy, version):
            generation = await policy.stream(request, tell)
            generation.version = version
            return generation

    async def count_tokens(self, request: Request) -> int:
        return await self.base.count_tokens(request)

    @asynccontextmanager
    async def _of(self, request: Request) -> AsyncIterator[tuple[Policy, str]]:
        session, user = request.task.query, request.task.user
        number, own = self._number_for(session, user), self._own.get(user)
        if own is not None and number == own.number:
            async with self._loading:
                try:
                    if number not in self._made:
                        await self._load(own)
                    self._made[number] = self._made.pop(number)  # the last to leave memory
                except Exception as error:  # of a plugin, too: the others' version is there
                    logger.warning("%s is not served: %s", own.name, error)
                    number = self.state.for_session(session)
        self._asked[number] += 1
        try:
            yield self._made[number], self._name(number)
        finally:
            self._asked[number] -= 1

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        return await self._made[self.state.served].logprobs(prompt_ids, token_ids)

    def metrics(self) -> Mapping[str, float]:
        return self._made[self.state.served].metrics()

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        return self.base.generation_time(generation, time_per_token)

    def priced(self, usage: Usage, *models: str) -> Usage:
        return self.base.priced(usage, *models)

    async def close(self) -> None:
        await asyncio.gather(*(policy.close() for number, policy in self._made.items() if number))
        await self.base.close()  # last, because others may be beside it


def check_learns(policy: Policy, name: str, owns: bool = False) -> None:
    """Raise if no version of this policy could be served, or be compared; with `owns`, none of single users."""
    kind = type(policy)
    if kind.publish is Policy.publish or kind.logprobs is Policy.logprobs:
        raise UsageError(
            f"the policy {name} can't learn while it serves: it takes no adapter, or can't say how likely answers are",
            fix="serve one that can, such as transformers or tiny, or leave --learn out",
        )
    if owns and kind.beside is Policy.beside:
        fix = "serve one that holds several, such as transformers, tiny or vllm, or leave --learn-own out"
        raise UsageError(f"the policy {name} holds one adapter at a time, so users can't have their own", fix=fix)
