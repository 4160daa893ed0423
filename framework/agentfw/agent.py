"""What an agent is to an engagement: it is shown a moment and answers with a decision.

The one rule: an agent learns of the world only through moments. It holds no environment, so the same agent runs
unchanged in any world and behind any interface.

    class Patient(Agent):
        async def act(self, moment: Moment) -> Decision:
            return Decision([Intervention("pour")]) if moment.of("boils") else Decision()

`PolicyAgent` (its own module) is the agent made of a policy, tools and memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .environment import Brief
from .episode import Intervention, Message, Observation, Task
from .timeline import Time

if TYPE_CHECKING:
    from .policy import Generation
    from .tool import Tool

__all__ = ["Agent", "Decision", "InFlight", "Moment"]


@dataclass(frozen=True, slots=True)
class InFlight:
    """Something that is going on, or was put aside and can be taken up again."""

    name: str
    spent: Time
    duration: Time
    running: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """What an agent is shown when it is asked."""

    now: Time
    observations: tuple[Observation, ...] = ()
    """What became known since it was last asked, in order. May be empty: at the start, or when it asked to be woken."""
    in_flight: tuple[InFlight, ...] = ()
    interrupted: Generation | None = None
    """Its own answer that these observations interrupted: what was out by then."""
    round: int = 0
    rounds: int = 0
    woken: bool = False
    """Asked for another reason than an observation: it is the start, it is free again, or it asked to be woken."""

    def of(self, name: str) -> tuple[Observation, ...]:
        """The observations of one name."""
        return tuple(observation for observation in self.observations if observation.name == name)


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
