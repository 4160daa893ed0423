"""GiGPO: besides whole episodes, it compares turns that were taken in the same state.

A = A_episode + step_weight A_step. A_step compares the discounted returns of the turns of a group that were shown the
same state. A turn whose state no other turn shares has an A_step of zero.

    agentfw train calendar --optimizer gigpo --set optimizer.step_weight=0.5

A state is identified by the text that was new to the policy: the messages since its last answer. The loss is a mean
over turns (`sequence_mean`), as the paper's objective is a mean over episodes and steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from agentfw import Episode, Turn
from agentfw.optimizer import Advantage, Scored

from .arithmetic import centred, normalised
from .attribution import by_turn, spoken
from .relative import Kl, LossSettings, Relative
from .returns import returns_to_go

__all__ = ["GiGPO", "GiGPOSettings"]

# The head of a message to the agent, such as: [12.5] round 3 of 20
_CLOCK = re.compile(r"\A\[[^\]\n]*\](?: round \d+ of \d+)?(?=\n|\Z)")


class GiGPOSettings(LossSettings):
    step_weight: float = Field(1.0, ge=0, description="Weight of the comparison of turns (w).")
    gamma: float = Field(0.95, ge=0, le=1, description="Discount of rewards from one turn to the one before it.")
    scale: bool = Field(False, description="Divide by the standard deviation of what is compared, as GRPO does.")
    clock: bool = Field(False, description="Treat the time and round at the head of a message as part of the state.")
    kl: Kl = 0.01


class GiGPO(Relative[GiGPOSettings]):
    """Each episode relative to the others of its task, and each turn relative to others in the same state."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        self.figures |= {"turns": 0.0, "turns_compared": 0.0}
        return [advantage for group in groups for advantage in self._group(group)]

    def _group(self, group: Sequence[Scored]) -> list[Advantage]:
        nrm = normalised if self.settings.scale else centred
        episodes = nrm([scored.reward for scored in group])
        states: dict[tuple[str, ...], list[tuple[int, Turn]]] = {}
        for place, scored in enumerate(group):
            for turn in spoken(scored.episode):
                states.setdefault(self.state_of(scored.episode, turn), []).append((place, turn))
        returns = [returns_to_go(by_turn(scored), self.settings.gamma) for scored in group]
        found: list[Advantage] = []
        for turns in states.values():
            self.figures["turns"] += len(turns)
            self.figures["turns_compared"] += len(turns) if len(turns) > 1 else 0
            steps = nrm([returns[place][turn.index] for place, turn in turns])
            found += [
                Advantage(group[place].episode.id, turn.index, episodes[place] + self.settings.step_weight * step)
                for (place, turn), step in zip(turns, steps, strict=True)
            ]
        return found

    def state_of(self, episode: Episode, turn: Turn) -> tuple[str, ...]:
        """What the policy was shown for the first time."""
        news: list[str] = []
        for index in reversed(turn.shown):
            message = episode.messages[index]
            if message.role == "assistant":
                break
            news.append(message.content if self.settings.clock else _CLOCK.sub("", message.content))
        return tuple(reversed(news))
