"""Playing an environment for a check: policies that act at random, do nothing, or call nonsense.

What is drawn comes from the task's seed and the order of the turns, so that one task is always played one way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from ..environment import Environment
from ..episode import Call, Episode, Task
from ..interfaces import Interface
from ..policy import Generation, Policy, Request
from ..seeds import Seeds
from ..turns.engagement import Engagement
from ..turns.policy_agent import PolicyAgent
from ..turns.session import SessionEnvironment
from .checks import DoesNotApply
from .tools import drawn, junk, unfitting

MOST_TURNS = 150


class Silent(Policy):
    """Never does anything. It has a generator for each episode, and takes one token for an answer."""

    def __init__(self) -> None:
        self._generators: dict[tuple[str, int], random.Random] = {}

    async def generate(self, request: Request) -> Generation:
        key = (request.task.id, request.task.seed)
        if key not in self._generators:
            self._generators[key] = Seeds(request.task.seed).random("player", request.task.sample)
        # Let other episodes come in between, as a policy that has to be waited for does.
        await asyncio.sleep(0)
        return Generation(calls=tuple(self.calls(request, self._generators[key])), count=1, version="check")

    def calls(self, request: Request, generator: random.Random) -> Sequence[Call]:
        return ()


class RandomCaller(Silent):
    """A call that fits its schema, or sometimes none."""

    def calls(self, request: Request, generator: random.Random) -> Sequence[Call]:
        if not request.actions or generator.random() < 0.1:
            return ()
        action = generator.choice(sorted(request.actions, key=lambda action: action.name))
        return (Call(action.name, drawn(action.parameters, generator)),)


class Nonsense(Silent):
    """Calls that can't be carried out, calls that may be anything, and one that fits so that things go on."""

    def __init__(self) -> None:
        super().__init__()
        self.impossible: dict[str, str] = {}
        """The id of each call that must be refused, and why."""
        self._made = 0

    def calls(self, request: Request, generator: random.Random) -> Sequence[Call]:
        made = [self._impossible(f"no_such_{generator.randint(0, 9)}", {}, "there is no such action")]
        actions = sorted(request.actions, key=lambda action: action.name)
        for action in actions:
            if wrong := list(unfitting(action.parameters)):
                made.append(self._impossible(action.name, *generator.choice(wrong)))
            made.append(self._numbered(action.name, junk(action.parameters, generator)))
        generator.shuffle(made)
        if actions:
            action = generator.choice(actions)
            made.append(self._numbered(action.name, drawn(action.parameters, generator)))
        return made

    def _impossible(self, name: str, arguments: dict[str, object], why: str) -> Call:
        call = self._numbered(name, arguments)
        self.impossible[call.id] = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())}): {why}"
        return call

    def _numbered(self, name: str, arguments: dict[str, object]) -> Call:
        self._made += 1
        return Call(name, arguments, f"check-{self._made}")


async def play(
    environment: Environment,
    task: Task,
    policy: Policy,
    interface: Interface | None = None,
    *,
    most_turns: int = MOST_TURNS,
) -> Episode:
    """One episode, played to its end or to so many turns."""
    if isinstance(environment, SessionEnvironment):
        raise DoesNotApply("it plays its episodes through sessions")
    agent = PolicyAgent(policy, window=4)
    return await Engagement(environment, agent, interface, max_turns=most_turns).run(task)
