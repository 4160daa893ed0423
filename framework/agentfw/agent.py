"""The agent interface: an agent is shown a moment and answers with a decision.

An agent learns about the world only through moments. It doesn't hold the environment, so the same agent runs unchanged
in any world and behind any interface.

    class Patient(Agent):
        async def act(self, moment: Moment) -> Decision:
            return Decision([Intervention("pour")]) if moment.of("boils") else Decision()

`PolicyAgent`, in policy_agent.py, is an agent made of a policy, tools and memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .episode import Intervention, Message, Observation, Task
from .memory import Recollection
from .request import Brief, Generation, InFlight, Moment
from .timeline import Time
from .tool import Tool


@dataclass(slots=True)
class Decision:
    """An agent's answer: any number of interventions, or none."""

    interventions: Sequence[Intervention] = ()
    takes: Time = 0
    """Time that the decision took. The world goes on meanwhile, and the interventions happen afterwards."""
    wake: Time | None = None
    """Ask again after this much time even if nothing is observed."""
    generation: Generation | None = None
    """Turns that the policy generated for this decision. They are kept in the episode for learning."""
    shown: Sequence[Message] = ()
    failures: Sequence[str] = ()
    """Parts of the answer that were not understood. The agent observes them."""
    said: str | None = None
    """The text of the answer without the calls in it. None: the whole text."""
    recalled: Sequence[Recollection] = ()
    """What the memories recalled for this decision. The episode keeps it, with the reasons."""


class Agent:
    """Base class of agents. Only `act` must be implemented."""

    async def act(self, moment: Moment) -> Decision:
        raise NotImplementedError

    def begin(self, task: Task, brief: Brief) -> None:
        """Called when an episode begins."""

    def attend(self, observations: Sequence[Observation], thought: InFlight) -> bool:
        """Whether these new observations should interrupt the decision in progress."""
        return True

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Tools that interventions can call in addition to the world's own actions."""
        return {}
