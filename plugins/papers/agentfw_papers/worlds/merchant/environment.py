"""A market analyst for merchants: the planner chooses analyses, an engine does them, and a report comes of it.

One episode is one request of one merchant: is there an opening, what is going on, who are the rivals, what should I
take on? The planner writes a plan, a graph of analyses that overlap in time, and may revise it once. The report is
composed by rule from the evidence, so only the plan makes a difference. Afterwards the merchant reacts.

    agentfw run merchant
    agentfw train merchant

`scoring.py` says what is scored. Rewards see the record and what merchants have stated. Figures also know the hidden
tastes.

After the SJAgent environment of the parpo-psgm paper, in which merchants, tools and judge are a company's own. Here the
market is generated, and the scores are rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from agentfw import Environment, Intervention, Moment, Task, Turn, World, action
from agentfw.errors import InterventionRefused
from agentfw.request import Brief
from agentfw.seeds import Seeds

from .cards import evidence_card, request_card
from .engine import Analyses, Engine, Results, carry_out
from .merchant_settings import MerchantSettings
from .merchants import Merchants, Order, react
from .plan import Step, check_plan, plan_of
from .scoring import Scores, figures_of_planners, needless_steps, score_report
from .skills import SKILLS
from .tastes import TASTES
from .written_report import Report, make_report, read_report, writing_task

_PLANS = 2
"""A plan and one revision."""
_SCENARIO = "products"


@lru_cache(maxsize=4)
def _merchants(settings: str) -> Merchants:
    """The market and the merchants of one world, made once."""
    return Merchants(MerchantSettings.model_validate_json(settings))


class MerchantMarket(Environment):
    """You plan market analyses for merchants. A merchant asks you something; which analyses answer it is your decision.

    Call `plan` with the steps: the analysis of each and the ids of the steps that it is built on. Steps that don't need
    each other run at the same time. You get the evidence when all are done, and may plan once more. Then call `report`:
    the report is written from the evidence, and recommends one product. Cover every topic that is asked for, and rank
    products by what this merchant cares about. Analyses that add nothing count against you.
    """

    headline = "score"
    columns: Mapping[str, str] = {
        "score": "score",
        "profile_match": "profile match",
        "authenticity": "authenticity",
        "logic": "logic",
        "completion": "completion",
        "depth": "depth",
        "steps": "steps",
    }

    def __init__(self, settings: MerchantSettings | None = None) -> None:
        self.settings = settings or MerchantSettings()
        world = self.settings.model_copy(update={"skip": 0, "style": "full", "report": "rule"})
        self.merchants = _merchants(world.model_dump_json())
        self.analyses = Analyses(self.merchants.market)
        self._of_references = Analyses(self.merchants.market)

    # The task

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        """Day after day, one request of every merchant a day."""
        seeds = Seeds(seed).child(split)
        found = []
        for index in range(count):
            name, day = self._turn(split, index)
            query = self.merchants.query(name, day)
            found.append(Task(index, seeds.integer(name, day), user=name, split=split, query=query))
        return found

    def describe(self, tasks: Sequence[Task]) -> str:
        users = len({task.user for task in tasks})
        days = max(self._turn(task.split, task.index)[1] for task in tasks)
        return f"{users} merchants, {days} {'day' if days == 1 else 'days'}"

    def goal(self) -> str:
        analyses = "\n".join(f"- {skill.name}: {skill.about}{_inputs(skill.needs)}" for skill in SKILLS.values())
        return f"{super().goal()}\n\nAnalyses:\n{analyses}"

    def brief(self) -> Brief:
        brief = super().brief()
        if self.settings.report == "agent":
            return brief
        return replace(brief, actions=tuple(one for one in brief.actions if one.name != "write_report"))

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self.order = self._order(task)
        self.results = Results()
        self.scores: Scores | None = None
        self._plans = self._steps = self._turns = 0
        self._engine: Engine | None = None
        self._writing = False
        self._busy_for = 0.0
        outages = world.random("outages")
        self._outages = {name for name in SKILLS if outages.random() < self.settings.outages}
        order = self.order
        card = self.settings.style == "card"
        lines = [
            f"day {order.day}: {order.kind.asks.format(category=order.category)}",
            f"topics: {', '.join(order.kind.parts)}",
            f"candidates: {', '.join(order.candidates)}",
            *(f"{view}: {text}" for view, text in self.profile().items()),
        ]
        self.world.observe(
            "request",
            {
                "day": order.day,
                "kind": order.kind.name,
                "category": order.category,
                "topics": list(order.kind.parts),
                "candidates": list(order.candidates),
                "stated": dict(order.merchant.stated),
                "scenarios": [_SCENARIO],
            },
            text=request_card(order.kind, self.profile()) if card else "\n".join(lines),
        )

    def profile(self) -> Mapping[str, str]:
        return dict(self.order.merchant.profile) if hasattr(self, "order") else {}

    # What the agent can do

    @action
    def plan(self, steps: Annotated[list[Step], Field(max_length=100)]) -> None:
        """Have analyses done. You get the evidence when all are done.

        steps: the analyses, at most 10
        """
        if self._engine is not None:
            raise InterventionRefused("the last plan is still being carried out")
        if self._writing:
            raise InterventionRefused("the plans are over; write the report")
        if self._plans == _PLANS:
            raise InterventionRefused("a plan can be revised once; call report")
        ordered = check_plan(steps, self.results.skills, self.merchants.market.months)
        outages = self._outages if self._plans == 0 else ()
        for step in ordered:
            self.results.failures.pop(step.id, None)
        carry_out(ordered, self.results, self.analyses, self.order.category, self.order.merchant, outages)
        self._plans += 1
        self._steps += len(ordered)
        began = self.world.now

        def finished() -> None:
            self._engine = None
            self._busy_for += self.world.now - began
            self._tell(ordered)

        self._engine = Engine(self.world, ordered, self.results, finished)

    @action
    def report(self) -> None:
        """Have the report written and sent to the merchant. This ends the task."""
        if self._engine is not None:
            raise InterventionRefused("the plan is still being carried out; wait for the evidence")
        if self.settings.report == "rule":
            self._send(make_report(self.order, self.results, self.merchants.fame[self.order.category]))
            return
        self._writing = True
        self.world.observe("writing", {}, text=writing_task(self.order, self.results))

    @action
    def write_report(self, text: str) -> None:
        """Send the report that you were asked to write. This ends the task.

        text: the report
        """
        if not self._writing:
            raise InterventionRefused("you are not asked to write a report; call report when the evidence is there")
        self._send(read_report(text, self.order, self.results))

    def turned(self, turn: Turn) -> None:
        self._turns += 1
        if self.scores is None and self._turns >= self.settings.turns:
            self._finish()
        elif self.scores is None and self._engine is None and not turn.calls:
            left = self.settings.turns - self._turns
            self.world.observe("waiting", {"turns_left": left}, text=f"nothing was done; {left} turns are left")

    # What comes of it

    def outcome(self) -> Mapping[str, float]:
        scores = self.scores or Scores()
        return {
            **scores.figures(),
            "steps": float(self._steps),
            "needless": float(len(needless_steps(self.results, self.order))),
            "failed_steps": float(len(self.results.failures)),
            "critical_path": self._busy_for,
            f"score@{self.order.day}": scores.score,
        }

    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]:
        return figures_of_planners(self._order(task), self.merchants, self._of_references)

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """Cover the topics, and rank by what the merchant has stated. Try once more what gave no answer."""
        for observation in moment.observations:
            data = observation.data
            if observation.name == "request":
                covered = [skill.name for skill in SKILLS.values() if skill.topic in data["topics"]]
                ranked = [TASTES[name].skill for name in data["stated"].values()]
                yield Intervention("plan", {"steps": [step.model_dump() for step in plan_of([*covered, *ranked])]})
            elif observation.name == "evidence":
                again = plan_of(data["failed"].values(), done=data["done"])
                if again and data["plans_left"]:
                    yield Intervention("plan", {"steps": [step.model_dump() for step in again]})
                else:
                    yield Intervention("report")
            elif observation.name == "writing":
                report = make_report(self.order, self.results, self.merchants.fame[self.order.category])
                yield Intervention("write_report", {"text": report.text})

    # Helpers

    def _turn(self, split: str, index: int) -> tuple[str, int]:
        """Who asks in the task of this number, and on which day."""
        return self.merchants.turn(split, index + self.settings.skip)

    def _order(self, task: Task) -> Order:
        name, day = self._turn(task.split, task.index)
        split, _, number = task.user.partition(" ")
        known = split == task.split and number.isascii() and number.isdigit()
        return self.merchants.order(task.user if known else name, day)

    def _send(self, report: Report) -> None:
        """Score the report, and tell what the merchant makes of it."""
        order = self.order
        self.scores = score_report(report, self.results, order, self.merchants, self._steps)
        reaction = react(
            order, report.recommended, self.merchants, self.world.random("reaction"), speaks=self.settings.speaks
        )
        effect = {
            "item": report.recommended,
            "text": self.merchants.in_words(order.category, report.recommended),
            "verdict": reaction.verdict,
        }
        self.world.observe("report", {"recommended": report.recommended}, text=report.text)
        self.world.observe(
            "reaction",
            {"by": "user", "said": reaction.said, "effects": [effect], "keypoints": self._keypoints()},
            text=reaction.said or "The merchant says nothing.",
        )
        self._finish()

    def _tell(self, plan: Sequence[Step]) -> None:
        """What came of a plan."""
        results = self.results
        lines = [
            f"{step.id}: {results.evidence[step.id].text}"
            if step.id in results.evidence
            else f"{step.id} failed: {results.failures[step.id]}"
            for step in plan
        ]
        data: dict[str, Any] = {
            "done": results.skills,
            "failed": {step.id: step.skill for step in plan if step.id in results.failures},
            "plans_left": _PLANS - self._plans,
            "figures": {
                step.id: dict(results.evidence[step.id].figures) for step in plan if step.id in results.evidence
            },
        }
        card = evidence_card(data["done"], data["failed"], data["plans_left"])
        self.world.observe("evidence", data, text=card if self.settings.style == "card" else "\n".join(lines))

    def _keypoints(self) -> Mapping[str, Sequence[str]]:
        """The points that a judge checks a report for, from what an operator can know."""
        order = self.order
        return {
            "completion": [f"covers {topic}" for topic in order.kind.parts],
            "logic": [judgement.text for judgement in order.kind.judgements],
            "personal": [f"recommends products {TASTES[name].words}" for name in order.merchant.stated.values()],
        }

    def _finish(self) -> None:
        scores = self.scores or Scores()
        self.world.utility(scores.visible_score, "visible score")
        self.world.finish(**self.outcome())


def _inputs(needs: Sequence[str]) -> str:
    return f" Needs {', '.join(needs)}." if needs else ""
