"""Settings of the budget world: the problems, the token budgets and the sentence that goes with each.

The agent reads both the budget and its sentence. Sentences are in the order of the budgets, the most urgent first.

    >>> BudgetSettings().budgets
    (16, 32, 48, 64)
    >>> BudgetSettings.model_validate({"file": "test.jsonl"}).budgets
    (1000, 2000, 4000, 8000)

After the time-aware training of the engagement-process paper (section 5.3, appendix F): one of four budgets for each
problem, each with a sentence of its own. Of the four budgets the paper's text has kept the least and the largest; 2000
and 4000 are ours. The sentences say in our words what the paper's four say. Everything about sums is ours.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from agentfw import Settings

_OF_TEXTS = (1000, 2000, 4000, 8000)
_URGENCY = (
    "Answer straight away, there is no time left.",
    "There is little time, so think briefly and answer.",
    "There is some time, so think it through and answer.",
    "There is plenty of time, so think as carefully as you like and answer.",
)

Tokens = Annotated[int, Field(ge=1)]


class BudgetSettings(Settings):
    problems: int = Field(1, ge=1, description="Number of problems per episode.")
    budgets: tuple[Tokens, ...] = Field(
        (16, 32, 48, 64),
        min_length=1,
        description="Token budgets, of which each problem gets one at random. Default with a `file`: 1000 to 8000.",
    )
    urgency: tuple[str, ...] = Field(_URGENCY, description="Sentence that goes with each budget.")
    time_per_token: float = Field(1.0, gt=0, description="Time to generate a token.")
    terms: int = Field(5, ge=2, description="Number of terms of a sum.")
    most: int = Field(9, ge=1, description="Largest term of a sum.")
    file: str = Field(
        "",
        description="File of problems to use instead of sums: JSON lines with `question` and `answer`, as in GSM8K. "
        "{split} in its name stands for train, validation or test. Without it, the splits share the file.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_the_problems(cls, values: Any) -> Any:
        return {"budgets": _OF_TEXTS, **values} if isinstance(values, dict) and values.get("file") else values

    @model_validator(mode="after")
    def _fits_together(self) -> BudgetSettings:
        if len(self.urgency) != len(self.budgets):
            raise ValueError(f"{len(self.budgets)} budgets need as many sentences in urgency, not {len(self.urgency)}")
        if len(set(self.budgets)) < len(self.budgets):
            raise ValueError("budgets must differ from each other")
        if not self.file and self.most**self.terms < _ENOUGH:
            raise ValueError(f"there are too few sums of {self.terms} numbers up to {self.most} for three splits")
        return self


_ENOUGH = 1000
"""Minimum number of sums, so that each split has some."""
