"""What a training is made of, as a value: a run's components and keys, and with them who learns, from how much, how.

The one rule: it is complete before any work begins, as a run's spec is.

    environment = "calendar"
    policy = { name = "transformers", settings = { model = "tiny" } }
    optimizer = "roundwise"
    learner = "lora"
    updates = 40
    tasks = 8
    samples = 4
    evaluation = { every = 10, tasks = 10 }
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator

from ..runs.spec import Choice, CommonSpec, SamplingSettings
from ..settings import Settings, validate

__all__ = ["EvaluationSettings", "TrainSpec", "parse_train_spec"]


class EvaluationSettings(Settings):
    """How a training finds out what it has come to: always on the same tasks, which it doesn't learn from."""

    every: int = Field(5, ge=1, description="After how many updates; also before the first one and after the last")
    tasks: int = Field(8, ge=1, description="How many tasks are played")
    samples: int = Field(1, ge=1, description="How often each task is played")
    split: str = Field("validation", description="Which of the environment's tasks: `validation` or `test`")
    sampling: SamplingSettings | None = Field(None, description="How the policy samples, if not as in training")

    @field_validator("split")
    @classmethod
    def _held_out(cls, split: str) -> str:
        if split == "train":
            raise ValueError("can't be train: what is learned from says nothing of what has been learned")
        return split


class TrainSpec(CommonSpec):
    """Everything that a training needs to know."""

    optimizer: Choice = Field(description="What makes advantages of scores, and names the loss")
    learner: Choice = Field(description="What makes a new version of the policy of advantages")
    teacher: Choice | None = Field(
        None, description="A policy that plays the episodes to learn from in place of the one that is trained"
    )
    updates: int = Field(20, ge=1, description="How many times the policy is improved")
    tasks: int = Field(8, ge=1, description="From how many tasks of the split `train` an update learns")
    samples: int = Field(4, ge=1, description="How often each of them is played; the samples form a group")
    concurrency: int = Field(32, ge=1, description="How many episodes at once")
    evaluation: EvaluationSettings = Field(
        default_factory=lambda: EvaluationSettings.model_validate({}),
        description="When and on what it is found out how good the policy is",
    )
    keep: int = Field(2, ge=1, description="How many of the newest versions stay on disk")
    deadline: float = Field(
        600.0, gt=0, description="After how many seconds without an answer a policy is stuck, and the training ends"
    )


def parse_train_spec(values: Mapping[str, object], where: str = "spec") -> TrainSpec:
    """A spec from plain values; one SettingsError says everything that is wrong."""
    spec = validate(TrainSpec, values, where)
    assert isinstance(spec, TrainSpec)
    return spec
