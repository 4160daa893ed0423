"""The rewards of a calendar round: format, decision, ranking, and use of the memory.

Each is a number from 0 to 1 per round, read from the record alone. Weights and the curriculum belong to the run:

    [[rewards]]
    name = "calendar_hub"
    weight = "round:0.5->0"

Format weight and decision weight are hyperparameters whose values the paper doesn't give; the shipped spec takes 1 for
both.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from agentfw import Episode, RewardModel, Score, Settings

from ...rewards.measured import Measured


class CalendarFormat(Measured):
    """1 if the decision names an event of the round and ranks all of them."""

    component, measure = "calendar_format", "format"


class CalendarDecision(Measured):
    """1 if the event was kept that the user keeps."""

    component, measure, track = "calendar_decision", "error", "personal"

    def value(self, measured: float) -> float:
        return 1.0 - measured


class CalendarRanking(Measured):
    """Rank of the right event: 1 first, 0 last."""

    component, measure, track = "calendar_ranking", "ord", "personal"


class CalendarHubSettings(Settings):
    tools: tuple[str, ...] = Field(("strategy_hub",), description="Tools that belong to the memory.")
    actions: tuple[str, ...] = Field(
        ("update",),
        description="Values of a call's `action` that count; empty for any call. The paper counts updates.",
    )


class CalendarHub(RewardModel):
    """1 if the memory was called successfully in the round."""

    def __init__(self, settings: CalendarHubSettings | None = None) -> None:
        self.settings = settings or CalendarHubSettings()

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores: list[Score] = []
        for episode in group:
            # The rounds with a successful call that counts.
            round_ = 0
            called: dict[str, int] = {}
            used: set[int] = set()
            for event in episode.events:
                if event.kind == "round":
                    round_ = int(event.name)
                elif event.kind == "intervention" and event.name in self.settings.tools:
                    action = event.data.get("action")
                    if not self.settings.actions or action in self.settings.actions:
                        called[str(event.data.get("id"))] = round_
                elif event.kind == "observation" and event.name == "answer" and event.data.get("well"):
                    used.add(called.get(str(event.data.get("call")), 0))
            used = used - {0}
            rounds = sorted({measure.round for measure in episode.measures if measure.name == "error"})
            name = episode.id
            scores += [Score(name, "calendar_hub", float(number in used), "base", number) for number in rounds]
        return scores
