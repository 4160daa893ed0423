"""Settings of the kitchen: dishes, lessons, the stove, and what everything pays and costs.

A family of dishes is a set of ranges that a dish is drawn from. Each range of a family can be set by itself; the others
keep their defaults.

    >>> KitchenSettings.model_validate({"critical_narrow": {"window": (30, 31)}}).critical_narrow.window
    (30, 31)
    >>> KitchenSettings().critical_narrow.finish
    (8, 12)

After the embodied scheduling task of the engagement-process paper (section 5.2.2, appendix E), whose text names the
families and has lost their numbers. All ranges, gaps, costs and the budget are ours; a dish and an explained problem
pay the same, 1, and a poll every 40 ticks is the paper's.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from agentfw import Settings

DISHES = ("critical_narrow", "critical_medium", "critical_wide", "soft_keepwarm")
LESSONS = ("xs", "short", "medium", "long")
CASES = ("soft_vs_critical_conflict", "staggered_criticals", "resume_pressure")


def _in_order(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] > value[1]:
        raise ValueError(f"the minimum {value[0]} is above the maximum {value[1]}")
    return value


Positive = Annotated[int, Field(gt=0)]
Range = Annotated[tuple[Positive, Positive], AfterValidator(_in_order)]
"""Minimum and maximum."""


@cache
def library() -> dict[str, Any]:
    """The families, names and cases that ship."""
    text = (files(__package__) / "families.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


class DishFamily(Settings):
    """The ranges of a family of dishes, in ticks."""

    prepare: Range = Field(description="Ticks to prepare the dish.")
    cook: Range = Field(description="Ticks on the stove until its signal.")
    finish: Range = Field(description="Ticks to finish the dish.")
    window: Range = Field(description="Ticks after the signal in which it must be finished.")
    warm: Range | None = Field(
        None, description="Further ticks in which it keeps warm. Default: none, the window is hard."
    )


def _family(name: str) -> Any:
    return Field(
        default_factory=lambda: DishFamily.model_validate(library()["dishes"][name]),
        description=f"Dishes of the family {name}.",
    )


def _lesson(name: str) -> Any:
    return Field(
        default_factory=lambda: tuple(library()["lessons"][name]),
        description=f"Number of tokens of a problem of the length {name}.",
    )


class KitchenSettings(Settings):
    variant: Literal["one", "multi"] = Field(
        "multi", description="One dish and one problem on one burner, or several of each."
    )
    dish: Literal["any", "critical_narrow", "critical_medium", "critical_wide", "soft_keepwarm"] = Field(
        "any", description="Family of the dish in the variant `one`; `any` draws one."
    )
    lesson: Literal["any", "xs", "short", "medium", "long"] = Field(
        "any", description="Length of the problem in the variant `one`; `any` draws one."
    )
    case: Literal["any", "soft_vs_critical_conflict", "staggered_criticals", "resume_pressure"] = Field(
        "any", description="Pattern of the signals in the variant `multi`; `any` draws one."
    )
    dishes: int = Field(3, ge=2, le=6, description="Number of dishes in the variant `multi`.")
    problems: int = Field(3, ge=2, le=8, description="Number of problems in the variant `multi`.")
    burners: int = Field(2, ge=1, description="Number of burners in the variant `multi`.")

    critical_narrow: DishFamily = _family("critical_narrow")
    critical_medium: DishFamily = _family("critical_medium")
    critical_wide: DishFamily = _family("critical_wide")
    soft_keepwarm: DishFamily = _family("soft_keepwarm")
    xs: Range = _lesson("xs")
    short: Range = _lesson("short")
    medium: Range = _lesson("medium")
    long: Range = _lesson("long")
    conflict_gap: Range = Field(
        (10, 25),
        description="Planned ticks between the soft timer and the whistle in soft_vs_critical_conflict.",
    )
    staggered_gap: Range = Field(
        (15, 40), description="Planned ticks between the first two whistles in staggered_criticals."
    )
    pressure_gap: Range = Field((60, 120), description="Planned ticks between signals in resume_pressure.")
    background_gap: Range = Field((60, 120), description="Planned ticks between the signals of the other dishes.")
    jitter: float = Field(6.0, ge=0, description="Standard deviation of the time of a whistle, in ticks.")
    staging: int = Field(3, gt=0, description="Ticks to put a dish on the stove.")
    checking: int = Field(2, gt=0, description="Ticks to look at the stove.")
    budget: int = Field(3000, gt=0, description="Maximum number of ticks of an episode.")

    time_per_token: float = Field(1.0, ge=0, description="Ticks per token of the controller.")
    late: float = Field(0.0, ge=0, le=1, description="Value of a soft dish that was kept warm for too long.")
    time_cost: float = Field(0.001, ge=0, description="Cost of a tick.")
    switch_cost: float = Field(0.02, ge=0, description="Cost of switching between the kitchen and tutoring.")
    check_cost: float = Field(0.02, ge=0, description="Cost of a look at the stove.")

    exercises: str = Field(
        "",
        description="File of JSON lines with a question and an answer, such as GSM8K's train.jsonl, that the problems "
        "are made from. Default: a few that ship.",
    )
    tutor: str = Field(
        "",
        description="Name of the policy that explains, such as openai. Default: the written answers, word for word.",
    )
    tutor_settings: dict[str, Any] = Field({}, description="Settings of the tutor's policy.")

    @model_validator(mode="before")
    @classmethod
    def _number_by_number(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        families = library()["dishes"]
        return {
            key: {**families[key], **value} if key in families and isinstance(value, dict) else value
            for key, value in values.items()
        }
