"""Which problems there are, how many tokens each may take, and how urgent that is said to be.

The one rule: each budget has its sentence, the most urgent first, and an agent reads both.

    >>> BudgetSettings().budgets
    (16, 32, 48, 64)
    >>> BudgetSettings.model_validate({"file": "test.jsonl"}).budgets
    (1000, 2000, 4000, 8000)

After the time-aware training of the engagement-process paper (section 5.3, appendix F): one of four budgets for each
problem. Of the four its text has kept the least and the largest; 2000 and 4000 are ours, and so are the sentences and
everything about sums.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from agentfw import Settings

__all__ = ["BudgetSettings"]

_OF_TEXTS = (1000, 2000, 4000, 8000)
_URGENCY = (
    "Answer straight away, there is no time left.",
    "There is little time, so think briefly and answer.",
    "There is some time, so think it through and answer.",
    "There is plenty of time, so think as carefully as you like and answer.",
)

Tokens = Annotated[int, Field(ge=1)]


class BudgetSettings(Settings):
    problems: int = Field(1, ge=1, description="How many problems an episode has.")
    budgets: tuple[Tokens, ...] = Field(
        (16, 32, 48, 64),
        min_length=1,
        description="How many tokens an answer may take, one of these at random; 1000 to 8000 for a `file`.",
    )
    urgency: tuple[str, ...] = Field(_URGENCY, description="What is said with each budget.")
    time_per_token: float = Field(1.0, gt=0, description="How long it takes to generate a token.")
    terms: int = Field(5, ge=2, description="How many numbers are to be added.")
    most: int = Field(9, ge=1, description="None of them is larger than this.")
    file: str = Field(
        "",
        description="Problems to solve instead of sums: a file with a `question` and an `answer` in JSON on each line, "
        "as GSM8K has them. {split} in its name stands for train, validation or test; without it, the three share it.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_the_problems(cls, values: Any) -> Any:
        return {"budgets": _OF_TEXTS, **values} if isinstance(values, dict) and values.get("file") else values

    @model_validator(mode="after")
    def _fits_together(self) -> BudgetSettings:
        if len(self.urgency) != len(self.budgets):
            raise ValueError(f"{len(self.budgets)} budgets need as many sentences of urgency, not {len(self.urgency)}")
        if len(set(self.budgets)) < len(self.budgets):
            raise ValueError("a budget is there twice")
        if not self.file and self.most**self.terms < _ENOUGH:
            raise ValueError(f"there are too few sums of {self.terms} numbers up to {self.most} to share them out")
        return self


_ENOUGH = 1000
"""So many sums are needed for each split to have some."""
