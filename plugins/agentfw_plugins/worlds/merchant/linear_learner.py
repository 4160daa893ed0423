"""The learner `merchant-linear`: exact policy gradients for the policy of the same name, without torch."""

from __future__ import annotations

from pydantic import Field

from ..assistant.linear_learner import LinearLearner
from .linear_policy import PlannerSettings

__all__ = ["PlannerLearner", "PlannerLearnerSettings"]


class PlannerLearnerSettings(PlannerSettings):
    learning_rate: float = Field(0.15, gt=0, description="Step size of Adam.")


class PlannerLearner(LinearLearner):
    """Takes one Adam step per update. The adapter is a file of eight weights."""

    def __init__(self, settings: PlannerLearnerSettings | None = None) -> None:
        super().__init__(settings or PlannerLearnerSettings())
