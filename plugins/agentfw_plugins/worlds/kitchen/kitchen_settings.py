"""The numbers of the kitchen: dishes, lessons, the stove, and what things pay and cost.

The one rule: a family of dishes is a few ranges, and a dish is drawn from them. Families can be changed number by
number; what is left out stays as it comes.

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

__all__ = ["CASES", "DISHES", "LESSONS", "DishFamily", "KitchenSettings", "Range", "library"]

DISHES = ("critical_narrow", "critical_medium", "critical_wide", "soft_keepwarm")
LESSONS = ("xs", "short", "medium", "long")
CASES = ("soft_vs_critical_conflict", "staggered_criticals", "resume_pressure")


def _in_order(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] > value[1]:
        raise ValueError(f"at least {value[0]} can't be at most {value[1]}")
    return value


Positive = Annotated[int, Field(gt=0)]
Range = Annotated[tuple[Positive, Positive], AfterValidator(_in_order)]
"""At least, and at most."""


@cache
def library() -> dict[str, Any]:
    """The families, names and cases that come with the kitchen."""
    text = (files(__package__) / "families.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


class DishFamily(Settings):
    """What the dishes of a family have in common; all in ticks."""

    prepare: Range = Field(description="How long it takes to prepare.")
    cook: Range = Field(description="How long after it was put on the stove it gives its signal.")
    finish: Range = Field(description="How long it takes to finish.")
    window: Range = Field(description="How long after the signal it is at its best.")
    warm: Range | None = Field(None, description="How much longer it keeps warm; without it, the window is hard.")


def _family(name: str) -> Any:
    return Field(
        default_factory=lambda: DishFamily.model_validate(library()["dishes"][name]),
        description=f"The dishes of the family {name}.",
    )


def _lesson(name: str) -> Any:
    return Field(
        default_factory=lambda: tuple(library()["lessons"][name]),
        description=f"How many tokens a problem of the length {name} has.",
    )


class KitchenSettings(Settings):
    variant: Literal["one", "multi"] = Field(
        "multi", description="One dish and one problem on one burner, or several of each."
    )
    dish: Literal["any", "critical_narrow", "critical_medium", "critical_wide", "soft_keepwarm"] = Field(
        "any", description="The family of the only dish, where there is one; any is drawn."
    )
    lesson: Literal["any", "xs", "short", "medium", "long"] = Field(
        "any", description="The length of the only problem, where there is one; any is drawn."
    )
    case: Literal["any", "soft_vs_critical_conflict", "staggered_criticals", "resume_pressure"] = Field(
        "any", description="How signals follow each other, where there are several dishes; any is drawn."
    )
    dishes: int = Field(3, ge=2, le=6, description="How many dishes there are, where there are several.")
    problems: int = Field(3, ge=2, le=8, description="How many tutoring problems there are, where there are several.")
    burners: int = Field(2, ge=1, description="How many dishes the stove holds, where there are several.")

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
        description="In soft_vs_critical_conflict: how long after the soft timer the whistle is meant to come.",
    )
    staggered_gap: Range = Field(
        (15, 40), description="In staggered_criticals: how long after the first whistle the second is meant to come."
    )
    pressure_gap: Range = Field(
        (60, 120), description="In resume_pressure: how long after each other signals are meant to come."
    )
    background_gap: Range = Field((60, 120), description="How long after each other the other dishes' signals come.")
    jitter: float = Field(6.0, ge=0, description="The standard deviation of when a whistle comes, in ticks.")
    staging: int = Field(3, gt=0, description="How long it takes to put a dish on the stove.")
    checking: int = Field(2, gt=0, description="How long it takes to look at the stove.")
    budget: int = Field(3000, gt=0, description="After how many ticks the episode ends at the latest.")

    time_per_token: float = Field(1.0, ge=0, description="How many ticks a token of the controller takes.")
    late: float = Field(0.0, ge=0, le=1, description="What a soft dish is worth when it was kept warm for too long.")
    time_cost: float = Field(0.001, ge=0, description="What a tick costs.")
    switch_cost: float = Field(0.02, ge=0, description="What it costs to change between the kitchen and tutoring.")
    check_cost: float = Field(0.02, ge=0, description="What a look at the stove costs.")

    exercises: str = Field(
        "",
        description="A file with a question and an answer in JSON on each line, such as GSM8K's train.jsonl, to make "
        "the problems of; a few written for this kitchen where not set.",
    )
    tutor: str = Field(
        "",
        description="The policy that explains, by name, such as openai; where not set, the written answers are said "
        "word for word.",
    )
    tutor_settings: dict[str, Any] = Field({}, description="The settings of that policy.")

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
