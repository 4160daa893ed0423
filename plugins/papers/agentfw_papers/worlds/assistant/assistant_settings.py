"""Settings of the assistant world."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from agentfw import Settings


class AssistantSettings(Settings):
    world: int = Field(
        7, ge=0, description="Seed of the people, their tastes and the catalogue. Runs with one seed share them."
    )
    difficulty: Literal["easy", "hard"] = Field(
        "easy",
        description="Easy: one choice. Hard: two or three choices, a wish that stands in a mail, and more faults.",
    )
    style: Literal["full", "card"] = Field(
        "full",
        description="What the agent reads each turn: only what is new, or a card with all that it needs, for models "
        "that read their last message only.",
    )
    train_users: int = Field(240, ge=1, description="Number of users of the split train.")
    validation_users: int = Field(48, ge=1, description="Number of users of the split validation.")
    test_users: int = Field(96, ge=1, description="Number of users of the split test.")
    skip: int = Field(
        0, ge=0, description="Number of requests before the first one, so that a run goes on from another."
    )
    circles: int = Field(6, ge=1, description="Number of groups of users with similar tastes.")
    agreement: float = Field(0.9, ge=0, le=1, description="Probability that a taste of a user is that of their circle.")
    stated: float = Field(0.3, ge=0, le=1, description="Probability that a taste is known beforehand.")
    outdated: float = Field(0.1, ge=0, le=1, description="Share of the known tastes that no longer hold.")
    conformity: float = Field(0.15, ge=0, le=1, description="Maximum weight of an item's fame in a user's judgement.")
    social: float = Field(0.3, ge=0, le=1, description="Share of requests with guests, where fame counts more.")
    items: int = Field(30, ge=5, description="Number of items of each scenario.")
    offers: int = Field(5, ge=2, le=26, description="Number of items that a search finds.")
    faults: float = Field(0.2, ge=0, le=1, description="Probability that an app has a fault, in easy requests.")
    speaks: float = Field(0.7, ge=0, le=1, description="Probability that a user says something about the choice.")
    stars: float = Field(0.3, ge=0, le=1, description="Share of requests after which the user gives stars.")
    drift_day: int | None = Field(None, ge=1, description="Day from which some tastes are different. Default: never.")
    drift: float = Field(0.1, ge=0, le=1, description="Share of the tastes that change then.")
    turns: int = Field(20, ge=1, description="Maximum number of turns of a request.")
    logs: str = Field(
        "", description="Directory of a log of your own, whose users and likes take the place of the generated ones."
    )
    domains: str = Field("", description="YAML file of scenarios. Default: the eight that ship.")

    @model_validator(mode="after")
    def _enough_items(self) -> AssistantSettings:
        if self.offers > self.items:
            raise ValueError(f"a search can't offer {self.offers} of {self.items} items")
        return self

    def users(self, split: str) -> int:
        """The number of users of a split."""
        return {"train": self.train_users, "validation": self.validation_users}.get(split, self.test_users)
