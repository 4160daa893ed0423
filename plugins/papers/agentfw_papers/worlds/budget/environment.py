"""Problems with a token budget: an answer must be right, and in time.

Generating takes time. An answer arrives when its last token has been generated, and that moment decides whether it is
within the budget. A late answer is still checked.

    agentfw run budget
    agentfw run budget --policy tiny --set policy.model=tiny-sums
    agentfw run budget --policy openai --set policy.base_url=... --set environment.file=gsm8k/{split}.jsonl

What a solution takes are all of its tokens, thinking included. The answer is the action `answer`: called, or written
at the end of the text as <answer>42</answer>. A turn that neither answers nor calls a tool leaves its problem unsolved.

After the time-aware training of the engagement-process paper (section 5.3, appendix F). There budgets are counted in
tokens; here they are times on the clock, a token as long as `time_per_token` says, so that tools take their time off
them too.

The reward `correct`: whether problems were solved, in time or not.

It ignores the clock. The environment `budget` itself pays for being right in time, which is the reward `utility`.

    agentfw train budget                              # utility: right, and within the budget
    agentfw train budget --reward correct             # right

How the demonstration solves sums: in one of four manners, from very thorough to answering at once.

The manner is drawn independently of the budget. A model that learns from demonstrations therefore learns to solve sums,
but nothing about time.

    >>> write((3, 5, 6), "plain")
    'so 3 5 8 6 14 <answer> 14</answer>'
    >>> write((3, 5, 6), "thorough")
    'add 3 + 5 = 8, 8 + 6 = 14; check back 6 + 5 = 11, 11 + 3 = 14 <answer> 14</answer>'

With five numbers they take the model `tiny-sums` 80 tokens, 54, 14 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from statistics import fmean
from typing import Annotated, Literal

from pydantic import Field

from agentfw import Environment, Intervention, Moment, Task, Turn, World, action
from agentfw.timeline import Time
from agentfw_plugins.rewards.measured import Measured

from .budget_settings import BudgetSettings
from .problems import Problem, draw_problem, same

Manner = Literal["very thorough", "thorough", "plain", "at once"]

MANNERS: dict[Manner, float] = {"very thorough": 0.2, "thorough": 0.6, "plain": 0.14, "at once": 0.06}
"""Probability of each: mostly thorough, like models that were trained to be right."""


def draw_manner(draw: Random) -> Manner:
    return draw.choices(list(MANNERS), list(MANNERS.values()))[0]


def write(terms: Sequence[int], manner: Manner) -> str:
    """A sum solved in this manner, with its answer."""
    parts: list[str] = []
    if manner == "plain":
        later = zip(terms[1:], list(accumulate(terms))[1:], strict=True)
        parts = ["so", str(terms[0]), *(f"{term} {after}" for term, after in later)]
    elif manner != "at once":
        parts = ["add " + _steps(terms) + "; check back " + _steps(terms[::-1])]
        if manner == "very thorough":
            parts[0] += "; check again " + _steps(terms)
    return " ".join([*parts, f"<answer> {sum(terms)}</answer>"])


def _steps(terms: Sequence[int]) -> str:
    sums = pairwise(accumulate(terms))
    return ", ".join(f"{before} + {term} = {after}" for (before, after), term in zip(sums, terms[1:], strict=True))


@dataclass(slots=True)
class _Attempt:
    """One problem and its result so far."""

    problem: Problem
    budget: int
    urgency: str
    due: Time = 0.0
    tokens: int = 0
    answer: str | None = None
    correct: bool = False
    within: bool = False

    def figures(self) -> dict[str, float]:
        budgeted = self.correct and self.within
        return {
            "budgeted": float(budgeted),
            "correct": float(self.correct),
            "within": float(self.within),
            "tokens": float(self.tokens),
        }


class Budget(Environment):
    """You solve problems, and for each you have so many tokens. All that you write counts, your thinking too.

    Be right, and be done within the budget: an answer that comes later is worth nothing. Take as much thought as the
    budget allows for, and no more. End with your answer, just the result, such as <answer>42</answer>.
    """

    headline = "budgeted"

    def __init__(self, settings: BudgetSettings | None = None) -> None:
        self.settings = settings or BudgetSettings()

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        draw = world.random("problems")
        said = list(zip(self.settings.budgets, self.settings.urgency, strict=True))
        self._attempts = [
            _Attempt(draw_problem(self.settings, task.split, draw), *draw.choice(said))
            for _ in range(self.settings.problems)
        ]
        self._judged = 0
        self._ask()

    def time_per_token(self) -> float:
        return self.settings.time_per_token

    @action
    def answer(self, text: Annotated[str, Field(coerce_numbers_to_str=True)]) -> None:
        """Give the answer to the problem.

        text: the result and nothing else
        """
        self._attempts[self._judged].answer = text

    def turned(self, turn: Turn) -> None:
        attempt = self._attempts[self._judged]
        attempt.tokens += turn.count
        # A refused answer counts too, or a policy that only gives such answers would never finish.
        if attempt.answer is not None or all(call.name == "answer" for call in turn.calls):
            self._judge(attempt)

    def _judge(self, attempt: _Attempt) -> None:
        attempt.within = self.world.now <= attempt.due
        attempt.correct = attempt.answer is not None and same(attempt.answer, attempt.problem.answer)
        for name, value in attempt.figures().items():
            self.world.measure(name, value)
        if attempt.correct and attempt.within:
            self.world.utility(1.0, "right in time")
        self._judged += 1
        if self._judged < len(self._attempts):
            self._ask()
        else:
            self.world.finish(**self.outcome())

    def _ask(self) -> None:
        number, attempt = self._judged + 1, self._attempts[self._judged]
        attempt.due = self.world.now + attempt.budget * self.settings.time_per_token
        self.world.round(number, len(self._attempts))
        self.world.observe(
            "problem",
            {
                "number": number,
                "question": attempt.problem.question,
                "budget": attempt.budget,
                "urgency": attempt.urgency,
                "due": attempt.due,
            },
            text=f"{attempt.problem.question}\nYou have {attempt.budget} tokens. {attempt.urgency}",
        )

    def outcome(self) -> Mapping[str, float]:
        """Means over all problems and over those of each budget. A problem that was not reached is not solved."""
        found = _means(self._attempts)
        for budget in sorted({attempt.budget for attempt in self._attempts}):
            of_budget = _means([attempt for attempt in self._attempts if attempt.budget == budget])
            found |= {f"{name}@{budget}": value for name, value in of_budget.items()}
        return found

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """A solution that ignores the budget: for a sum in a random manner, else the one in the file."""
        for _ in moment.of("problem"):
            problem = self._attempts[self._judged].problem
            if problem.terms:
                yield write(problem.terms, draw_manner(self.world.random("manner")))
            else:
                yield f"{problem.solution}\n<answer>{problem.answer}</answer>".lstrip()


def _means(attempts: list[_Attempt]) -> dict[str, float]:
    figures = [attempt.figures() for attempt in attempts]
    return {name: fmean(one[name] for one in figures) for name in figures[0]}


class Correct(Measured):
    """1 for a problem that was solved."""

    component = measure = "correct"
