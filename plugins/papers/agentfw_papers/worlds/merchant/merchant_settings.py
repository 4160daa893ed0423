"""Settings of the merchant world."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from agentfw import Settings


class MerchantSettings(Settings):
    world: int = Field(7, ge=0, description="Seed of the market and the merchants. Runs with one seed share them.")
    train_merchants: int = Field(240, ge=1, description="Number of merchants of the split train.")
    validation_merchants: int = Field(48, ge=1, description="Number of merchants of the split validation.")
    test_merchants: int = Field(96, ge=1, description="Number of merchants of the split test.")
    skip: int = Field(0, ge=0, description="Number of tasks before the first one, so that a run goes on from another.")
    circles: int = Field(6, ge=1, description="Number of groups of merchants with similar tastes.")
    agreement: float = Field(
        0.9, ge=0, le=1, description="Probability that a taste of a merchant is that of their circle."
    )
    stated: float = Field(0.3, ge=0, le=1, description="Probability that a taste is known beforehand.")
    outdated: float = Field(0.1, ge=0, le=1, description="Share of the known tastes that no longer hold.")
    conformity: float = Field(0.3, ge=0, le=1, description="Maximum weight of a product's fame in a merchant's taste.")
    categories: int = Field(12, ge=1, le=12, description="Number of categories of the market.")
    products: int = Field(40, ge=5, le=400, description="Number of products of each category.")
    months: int = Field(24, ge=13, le=120, description="Number of months of sales that are known.")
    candidates: int = Field(5, ge=2, le=26, description="Number of products that a task asks about.")
    outages: float = Field(0.05, ge=0, le=1, description="Probability that an analysis fails in the first plan.")
    speaks: float = Field(0.7, ge=0, le=1, description="Probability that a merchant says something about the report.")
    report: Literal["rule", "agent"] = Field(
        "rule", description="Who writes the report: a rule, or the agent, who is then asked for it."
    )
    style: Literal["full", "card"] = Field(
        "full",
        description="What the agent reads. card: short messages without figures, for models with a short memory.",
    )
    turns: int = Field(6, ge=1, description="Maximum number of turns of a task.")

    @model_validator(mode="after")
    def _enough_products(self) -> MerchantSettings:
        if self.candidates > self.products:
            raise ValueError(f"a task can't ask about {self.candidates} of {self.products} products")
        return self

    def merchants(self, split: str) -> int:
        """The number of merchants of a split."""
        return {"train": self.train_merchants, "validation": self.validation_merchants}.get(split, self.test_merchants)
