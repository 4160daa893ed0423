"""The rewards of a calendar round: format, decision, ranking, use of the memory, and reasoning.

Each is a number from 0 to 1 per round, read from the record alone. Weights and the curriculum belong to the run:

    [[rewards]]
    name = "calendar_hub"
    weight = "round:0.5->0"

Format weight and decision weight are hyperparameters whose values the paper doesn't give; the shipped spec takes 1 for
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from agentfw import Episode, RewardModel, Score, Settings, Turn

from ...rewards.measured import Measured
from .scratchpad import NAMES, read_weights, terms, value, write_named, write_valued


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


Weights = Mapping[str, int]


class CalendarThought(RewardModel):
    """The share of reasoning steps that follow from what the agent read.

    It uses nothing hidden except what the user named in their own words. Every step is recomputed from the round's
    message and the agent's own weights. Whether these weights are right is for `calendar_decision` to judge.

    A turn that decides is judged by these steps, each right or wrong:

    | step | right where |
    | --- | --- |
    | what the user named | the feedback's principle, side and verdict are named, and what it weighed before |
    | the memory | has every weight as it was, but that of what was named, which goes the named way |
    | the line of each event | has all that the event triggers, with its weights, the sums, and the best so far |
    | the decision | is the event worth most, the first of equals |

    Where the decision was wrong, what the kept and the decided event trigger may move, too; where it was right, what
    any event of the round triggers. It speaks of agents that think as `tiny` does
    (agentfw_plugins/worlds/calendar/scratchpad.py); others get 0.
    """

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(episode.id, "calendar_thought", share, "base", turn.round, turn.index)
            for episode in group
            for turn, share in _shares(episode)
        ]


def _shares(episode: Episode) -> list[tuple[Turn, float]]:
    read: dict[int, dict[str, Mapping[str, Any]]] = {}
    kept = set()
    number = 0
    for event in episode.events:
        if event.kind == "round":
            number = int(event.name)
        elif event.kind == "observation" and event.name == "conflict":
            read.setdefault(number, {})["conflict"] = event.data
        elif event.kind == "observation" and event.name == "feedback":
            read.setdefault(event.data["round"] + 1, {})["feedback"] = event.data
        elif event.kind == "observation" and event.name == "answer" and event.data.get("well"):
            kept.add(event.data.get("call"))
    weights: Weights = {}
    shares = []
    for turn in episode.turns:
        updates = [call for call in turn.calls if "strategies" in call.arguments]
        after = read_weights(updates[-1].arguments["strategies"]) if updates else weights
        decided = [call.arguments.get("accept") for call in turn.calls if call.name == "decide"]
        if decided and "conflict" in read.get(turn.round, {}):
            before = read.get(turn.round - 1, {}).get("conflict", {}).get("events", ())
            steps = _steps(turn.text.splitlines(), decided[0], (weights, after), before, **read[turn.round])
            shares.append((turn, sum(steps) / len(steps)))
        for update in updates:
            if update.id in kept:
                weights = read_weights(update.arguments["strategies"])
    return shares


def _steps(
    lines: Sequence[str],
    decided: object,
    weights: tuple[Weights, Weights],
    last: Sequence[Mapping[str, str]],
    conflict: Mapping[str, Any],
    feedback: Mapping[str, Any] | None = None,
) -> list[bool]:
    before, after = weights
    whole, steps = all(name in after for name in NAMES), []
    if feedback is not None and (name := feedback["because"]["principle"]) in NAMES:
        valued, had = feedback["because"]["valued"], before.get(name, 0)
        wrong = feedback["accepted"] != feedback["chosen"]
        named = write_named(name, valued, wrong, had, had).rpartition(" to ")[0]
        steps.append(any(line.startswith(f"{named} to ") for line in lines))
        about = [event for event in last if not wrong or event["letter"] in (feedback["accepted"], feedback["chosen"])]
        may_move = {moved for event in about for moved in terms(event)}
        stays = all(after.get(other) == before.get(other) for other in NAMES if other not in {name, *may_move})
        goes = after.get(name, 0) - had if valued else had - after.get(name, 0)
        whole = whole and stays and (goes >= 0 or name in may_move)
    events = [value(event["letter"], terms(event), after) for event in conflict["events"]]
    steps += [line in lines for line in write_valued(events, after)]
    best = max(events, key=lambda event: event.total)
    return [*steps, whole, bool(after) and decided == best.letter]
