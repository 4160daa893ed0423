"""The policy `merchant-linear`: decides for each analysis whether to plan it, by eight weights.

It reads recalled skills in its prompt like a language model does, and is trained in seconds.

    agentfw train merchant
    agentfw run merchant --policy merchant-linear --set policy.weights=runs/.../weights.json
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agentfw import Generation, Intervention, Observation, Policy, Request, Settings
from agentfw.settings import VERSION
from agentfw_papers.linear import Choices, read_weights

from .plan import plan_of
from .skills import SKILLS
from .tastes import QUESTIONS, recalled_wishes

PLANNER_WEIGHTS = ("topic", "other", "taste", "stated", "own", "shared", "link", "retry")
_KEPT = 4096
"""Maximum number of tasks in progress that are kept."""


class PlannerSettings(Settings):
    weights: Annotated[str, VERSION] = Field("", description="File of trained weights. Default: those below.")
    topic: float = Field(0.5, description="Log-odds of an analysis that covers a topic of the request.")
    other: float = Field(0.0, description="Log-odds of an analysis that covers another topic.")
    taste: float = Field(0.0, description="Weight of ranking products by a taste at all.")
    stated: float = Field(0.5, description="Weight of ranking by a stated taste.")
    own: float = Field(0.5, description="Weight of ranking by a recalled wish of the merchant.")
    shared: float = Field(0.5, description="Weight of ranking by a recalled wish of several merchants.")
    link: float = Field(0.0, description="Log-odds of building an analysis on others that it can do without.")
    retry: float = Field(0.0, description="Log-odds of planning again what failed.")

    def start(self) -> dict[str, float]:
        """The weights of the file, or those of the settings."""
        if self.weights:
            return read_weights(Path(self.weights), PLANNER_WEIGHTS)
        return {name: float(getattr(self, name)) for name in PLANNER_WEIGHTS}


class PlannerLearnerSettings(PlannerSettings):
    learning_rate: float = Field(0.15, gt=0, description="Step size of Adam.")


class PlannerPolicy(Policy):
    """Plans all tasks of a run with the same weights."""

    is_program = True

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self.weights = (settings or PlannerSettings()).start()
        self.version = "start"
        self._wishes: dict[tuple[str, str], dict[str, bool]] = {}
        """What was recalled for a task: tastes, and whether each is a wish of several merchants."""

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        key = request.task.user, request.task.id
        wishes = self._wishes.setdefault(key, {})
        while len(self._wishes) > _KEPT:
            del self._wishes[next(iter(self._wishes))]
        wishes.update(recalled_wishes(request.messages[-1].content))
        choices = Choices(self.weights, request)
        turn = _Turn(choices, wishes)
        calls = [call for one in request.moment.observations for call in turn.calls(one)]
        return choices.generation(calls, self.version)

    async def publish(self, adapter: Path, version: str) -> None:
        self.weights, self.version = read_weights(adapter, PLANNER_WEIGHTS), version


class _Turn:
    """The calls of one turn."""

    def __init__(self, choices: Choices, wishes: Mapping[str, bool]) -> None:
        self._choices, self._wishes = choices, wishes

    def calls(self, observation: Observation) -> list[Intervention]:
        data = observation.data
        if observation.name == "request":
            chosen, unlinked = self._chosen(data)
            plan = plan_of(chosen, unlinked=unlinked)
        elif observation.name == "evidence":
            failed = data["failed"] if data["plans_left"] else {}
            plan = plan_of(failed.values(), done=data["done"]) if failed and self._choices.flip("retry") else []
        elif observation.name == "refused":
            plan = []
        else:
            return []
        if plan:
            return [Intervention("plan", {"steps": [step.model_dump() for step in plan]})]
        return [Intervention("report")]

    def _chosen(self, data: Mapping[str, Any]) -> tuple[list[str], set[str]]:
        """The analyses to plan, and those that aren't built on more than they need."""
        topics = [skill for skill in SKILLS.values() if skill.topic]
        chosen = [
            skill.name for skill in topics if self._choices.flip("topic" if skill.topic in data["topics"] else "other")
        ]
        for question, pair in QUESTIONS.items():
            rows = [(0.0, 0.0, 0.0, 0.0)]
            for taste in pair:
                wish = self._wishes.get(taste.name)
                rows.append(
                    (1.0, float(data["stated"].get(question) == taste.name), float(wish is False), float(wish is True))
                )
            place = self._choices.decide(("taste", "stated", "own", "shared"), tuple(rows))
            if place:
                chosen.append(pair[place - 1].skill)
        unlinked = {name for name in chosen if SKILLS[name].uses and not self._choices.flip("link")}
        return chosen, unlinked
