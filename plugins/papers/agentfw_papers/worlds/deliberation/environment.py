"""Questions with deadlines: thinking longer is right more often, but may be too late.

A mode of thinking takes its time whether or not the answer is still in time. With `instant`, thinking takes no time, as
in an observe-act loop; everything else is the same.

    agentfw run deliberation
    agentfw run deliberation --set environment.setting=chain

After the urgency-aware deliberation of the engagement-process paper (section 5.1.1, tables 6 and 7), of which most
numbers are lost. Rebuilt by arithmetic from its results: 4 for a right answer, -2 for a wrong or late one, ten
questions in a chain. Ours by choice, and settings: how long after each other answers are due, how long modes take, how
often they are right, how much difficulty takes from that, and the bounds of the slack that a table tells apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from agentfw import Environment, Intervention, Moment, Settings, Task, World, action
from agentfw.errors import InterventionRefused
from agentfw.timeline import Time

_CHAIN: dict[str, Any] = {
    "questions": 10,
    "gaps": (2.0, 4.0, 6.0, 8.0, 10.0),
    "bounds": (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0),
}
_DIFFICULTIES = ("easy", "medium", "hard")

Five = Annotated[tuple[float, ...], Field(min_length=5, max_length=5)]


class DeliberationSettings(Settings):
    setting: Literal["single", "chain"] = Field(
        "single", description="One question, or a chain of 10 with defaults of `gaps` and `bounds` that suit it."
    )
    questions: int = Field(1, ge=1, description="Number of questions per episode.")
    gaps: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (1.5, 3.0, 5.0, 9.0, 15.0),
        min_length=1,
        description="Times between the deadlines of questions, one of them at random each.",
    )
    bounds: tuple[float, ...] = Field(
        (1.5, 3.0, 5.0, 9.0), description="Bounds between the levels of slack that a state distinguishes, ascending."
    )
    durations: Five = Field((1.0, 2.0, 4.0, 7.0, 12.0), description="Duration of each mode of thinking.")
    qualities: Five = Field((0.2, 0.4, 0.55, 0.7, 0.9), description="Accuracy of each mode on the easiest question.")
    toll: float = Field(0.3, ge=0, le=1, description="Share of the accuracy that is lost on the hardest question.")
    reward: float = Field(4.0, description="Reward of a right answer in time.")
    penalty: float = Field(2.0, ge=0, description="Cost of a wrong or late answer.")
    instant: bool = Field(False, description="Let thinking take no time, as in an observe-act loop.")

    @model_validator(mode="before")
    @classmethod
    def _of_the_setting(cls, values: Any) -> Any:
        return {**_CHAIN, **values} if isinstance(values, dict) and values.get("setting") == "chain" else values


@dataclass(slots=True)
class _Question:
    due: Time
    difficulty: float
    luck: float
    """The answer is right if this is below its probability, so better thinking never does worse."""
    closed: bool = False

    @property
    def level(self) -> str:
        return _DIFFICULTIES[bisect_right((1 / 3, 2 / 3), self.difficulty)]


class Deliberation(Environment):
    """You answer questions, one after the other. Each is due at a set time, and you are told how hard it is.

    Before you answer you choose how long to think, in one of five modes: mode 1 is the quickest and least often right,
    mode 5 the slowest and most often right. Thinking takes time. An answer that comes too late counts as a wrong one,
    and while you think about one question the next one comes nearer.
    """

    def __init__(self, settings: DeliberationSettings | None = None) -> None:
        self.settings = settings or DeliberationSettings()

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        draw, due = world.random("questions"), 0.0
        self._questions: list[_Question] = []
        for _ in range(self.settings.questions):
            due += draw.choice(self.settings.gaps)
            question = _Question(due, draw.random(), draw.random())
            self._questions.append(question)
            self._watch(question)
        self._place = 0
        self._thinking = False
        self._right = self._late = self._deepest = 0
        self._ask()

    def _watch(self, question: _Question) -> None:
        # In two steps, so that an answer at its deadline is in time.
        self.world.at(question.due, lambda: self.world.after(0, lambda: self._overdue(question)))

    @action
    def think(self, mode: Annotated[int, Field(ge=1, le=5)]) -> None:
        """Think about the question, and answer it.

        mode: how long, from 1 (quickest) to 5 (most often right)
        """
        if self._thinking:
            raise InterventionRefused("you are thinking already")
        self._thinking = True
        self._deepest += mode == len(self.settings.durations)
        takes = 0.0 if self.settings.instant else self.settings.durations[mode - 1]
        self.world.work(f"mode {mode}", takes, lambda work: self._answered(mode))

    def _answered(self, mode: int) -> None:
        question = self._questions[self._place]
        self._thinking = False
        right = question.luck < self.settings.qualities[mode - 1] * (1 - self.settings.toll * question.difficulty)
        in_time = not question.closed
        if in_time:
            question.closed = True
            self._right += right
            if right:
                self.world.utility(self.settings.reward, "right")
            else:
                self.world.utility(-self.settings.penalty, "wrong")
        self.world.observe("answered", {"number": self._place + 1, "right": right, "in_time": in_time})
        self._place += 1
        if self._place < len(self._questions):
            self._ask()
        else:
            self.world.finish(**self.outcome())

    def _overdue(self, question: _Question) -> None:
        if not question.closed:
            question.closed = True
            self._late += 1
            self.world.utility(-self.settings.penalty, "too late")
            self.world.observe("overdue", {"number": self._questions.index(question) + 1})

    def _ask(self) -> None:
        question = self._questions[self._place]
        slack = question.due - self.world.now
        self.world.observe(
            "question",
            {
                "number": self._place + 1,
                "of": len(self._questions),
                "due": question.due,
                "difficulty": question.level,
                "state": f"slack {bisect_left(self.settings.bounds, slack)}, {question.level}",
            },
            text=f"question {self._place + 1} of {len(self._questions)}, {question.level}, due in {slack:g}",
        )

    def outcome(self) -> Mapping[str, float]:
        count = len(self._questions)
        unanswered = sum(not question.closed for question in self._questions)
        return {
            "success": self._right / count,
            "timeout": (self._late + unanswered) / count,
            "deepest": self._deepest / max(1, self._place + self._thinking),
        }

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """The slowest mode that is still in time, or the fastest if none is."""
        for question in moment.of("question"):
            slack = float(question.data["due"]) - moment.now
            fitting = [number for number, takes in enumerate(self.settings.durations, start=1) if takes <= slack]
            yield Intervention("think", {"mode": max(fitting, default=1)})
