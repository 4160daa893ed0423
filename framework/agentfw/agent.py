"""The agent interface: an agent is shown a moment and answers with a decision.

An agent learns about the world only through moments. It holds no environment, so the same agent runs unchanged in any
world and behind any interface.

    class Patient(Agent):
        async def act(self, moment: Moment) -> Decision:
            return Decision([Intervention("pour")]) if moment.of("boils") else Decision()

`PolicyAgent` (its own module) is the agent made of a policy, tools and memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .episode import Intervention, Message, Observation, Task
from .request import Brief, Generation, InFlight, Moment
from .timeline import Time
from .tool import Tool

__all__ = ["Agent", "Decision", "InFlight", "Moment"]


@dataclass(slots=True)
class Decision:
    """What an agent answers: any number of interventions, none included."""

    interventions: Sequence[Intervention] = ()
    takes: Time = 0
    """How much time deciding took. The world goes on meanwhile, and the interventions come after it."""
    wake: Time | None = None
    """Ask again after this long even if nothing is observed."""
    generation: Generation | None = None
    """What a policy generated to get here; kept in the episode for learning."""
    shown: Sequence[Message] = ()
    failures: Sequence[str] = field(default=())


class Agent:
    """Something that can be engaged with a world. `act` is the one method that it must have."""

    async def act(self, moment: Moment) -> Decision:
        raise NotImplementedError

    def begin(self, task: Task, brief: Brief) -> None:
        """An episode begins."""

    def attend(self, observations: Sequence[Observation], thought: InFlight) -> bool:
        """Whether to break off a decision in the making for what just became known."""
        return True

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What interventions can call besides the world's own actions."""
        return {}
