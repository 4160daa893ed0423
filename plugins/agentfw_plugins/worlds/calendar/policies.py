"""The policies `rules`, `linear` and `teacher`, which need no language model. `linear` is the reference to beat.

They are used like any other policy and learn only from what an episode shows: the tags of events and which of them the
user kept.

    agentfw run calendar --policy linear
    agentfw run calendar --policy rules --set policy.rule=most_senior
    agentfw run calendar --policy teacher --memory strategyhub --set memory.strategyhub.show=true

What `linear` expects of a user before the first round (settings.prior = "fitted") was fitted on the choices of 200
*training* users; `python benchmarks/calendar_honesty.py --fit` makes the file anew. With prior = "flat" it expects
nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from agentfw import Generation, Intervention, Message, Moment, Observation, Policy, Request, Settings
from agentfw.errors import UnknownNameError

from .choice_model import FEATURES, ChoiceLearner, Prior, choices, matrix
from .event_attributes import RULES, in_words
from .scratchpad import (
    NAMES,
    Valued,
    read_terms,
    read_weights,
    terms,
    value,
    write_call,
    write_decision,
    write_moved,
    write_named,
    write_now,
    write_step,
    write_valued,
    write_weights,
)

PRIOR_FILE = Path(__file__).parent / "linear_prior.json"
_SAID = 0.1
"""Minimum difference in value to be given as a reason."""


class RulesSettings(Settings):
    rule: str = Field("most_urgent", description=f"Rule to follow: {', '.join(RULES)}.")


class RulesPolicy(Policy):
    """Follows one simple rule."""

    is_program = True

    def __init__(self, settings: RulesSettings | None = None) -> None:
        self.settings = settings or RulesSettings()
        if self.settings.rule not in RULES:
            raise UnknownNameError("rule", self.settings.rule, RULES)

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        for conflict in request.moment.of("conflict"):
            ranking = RULES[self.settings.rule](conflict.data["events"])
            return _decision(ranking, self.settings.rule.replace("_", " "), "rules")
        return Generation(version="rules")


class LinearSettings(Settings):
    prior: Literal["fitted", "flat"] = Field(
        "fitted", description="Prior expectation of a user: fitted on training users, or flat."
    )


class LinearPolicy(Policy):
    """Learns its user's weights online, with one model per episode."""

    is_program = True

    def __init__(self, settings: LinearSettings | None = None) -> None:
        self.settings = settings or LinearSettings()
        self._prior = fitted_prior() if self.settings.prior == "fitted" else Prior.flat()
        self._learners: dict[str, ChoiceLearner] = {}
        self._shown: dict[str, Observation] = {}

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        key = f"{request.task.split}/{request.task.user}/{request.task.id}"
        for feedback in request.moment.of("feedback"):
            shown = self._shown.get(key)
            if shown is not None and shown.data["round"] == feedback.data["round"]:
                said = feedback.data.get("reasons", ())
                self._learners[key].observe_all(choices(shown.data["events"], feedback.data["accepted"], said))
        for conflict in request.moment.of("conflict"):
            return self._answer(key, conflict, request.moment)
        return Generation(version="linear")

    def _answer(self, key: str, conflict: Observation, moment: Moment) -> Generation:
        data = conflict.data
        if data["round"] == 1:
            # Start anew in the first round, so that a repeated episode is the same episode.
            learner = ChoiceLearner(self._prior.of(f"{data['archetype']}/{data['role']}"))
            self._learners[key] = learner
            for past in moment.of("past"):
                learner.observe_all([found for one in past.data["rounds"] for found in choices(**one)])
        self._shown[key] = conflict
        rows, weights = matrix(data["events"]), self._learners[key].weights
        order = np.argsort(-(rows @ weights), kind="stable")
        letters = [data["events"][place]["letter"] for place in order]
        # What speaks most for the first event compared with the second.
        first = rows[order[0]]
        rival = letters[1]
        worth = weights * (first - rows[order[1]])
        strongest = [place for place in np.argsort(-worth, kind="stable")[:2] if worth[place] > _SAID]
        said = [
            in_words(FEATURES[place]) if first[place] else f"{rival}: {in_words(FEATURES[place])}"
            for place in strongest
        ]
        return _decision(letters, (", ".join(said) or "hardly any difference"), "linear")


def _decision(ranking: list[str], reason: str, version: str) -> Generation:
    call = Intervention("decide", {"accept": ranking[0], "ranking": ranking, "reason": reason})
    return Generation(calls=(call,), count=1, version=version)


@cache
def fitted_prior() -> Prior:
    return Prior.load(PRIOR_FILE)


ROLES_FILE = Path(__file__).parent / "teacher_roles.json"
_MOST = 40
_NAMED = {False: (10, 1), True: (12, 4)}
"""What is named weighs at least so much, and so much more than before: where the decision was right, and wrong."""
_CLEAR, _BEHIND, _STEPS = 8, 4, 3
"""From here on the kept event is clearly ahead; being so far from the lead adds another step of five; at most three."""


class TeacherSettings(Settings):
    prior: Literal["fitted", "flat"] = Field(
        "fitted", description="Prior expectation of a user: fitted on training users in the same role, or flat."
    )
    attention: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of rounds in which it learns from the feedback; in the others it only decides.",
    )


class TeacherPolicy(Policy):
    """A program that reasons in writing and keeps what it learns in the hub. It taught `tiny`.

    Its only memory is the hub. All it knows of the user is in the message that it answers (the hub's entries, the
    feedback and the events) and in its previous answer. So its answers show how to use the hub.

    What it does with a feedback (weights are integers, three and a half to a point): what the user names weighs at
    least ten in its direction, and one more than before; where the decision was wrong at least twelve, and four more.
    Then the kept event is compared with its rival, which is the decided one, or the second best where the decision was
    right. All that the kept event has counts a step more, and all that its rival has a step less, so that what both
    have stays as it was. The step is the greater, the further the kept event is behind, and nothing where the decision
    was right and clear. What both have stands in its last answer. Chosen among such rules on training users.

    What it expects of a role before the first feedback are the weights that best explain what training users in that
    role chose: `python benchmarks/tiny_policy.py --fit` makes the file.
    """

    is_program = True

    def __init__(self, settings: TeacherSettings | None = None) -> None:
        self.settings = settings or TeacherSettings()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        expected = expected_of if self.settings.prior == "fitted" else _nothing
        draw = random.Random(f"attention {request.task} {request.moment.round}").random()
        text = "\n".join(_answer(request.messages, request.moment, expected, draw < self.settings.attention))
        return Generation(text=text, count=len(text.split()), version="teacher")


def _answer(
    messages: Sequence[Message], moment: Moment, expected: Callable[[str], Mapping[str, int]], learns: bool
) -> list[str]:
    weights = read_weights(remembered(messages[-1].content))
    said = []
    if not weights:
        for conflict in moment.of("conflict"):
            weights = dict(expected(f"{conflict.data['archetype']}/{conflict.data['role']}"))
            said = [_update(weights)]
    # Its answer in the turn before.
    thought = read_terms(next((each.content for each in reversed(messages) if each.role == "assistant"), ""))
    for feedback in moment.of("feedback") if learns else ():
        said = learned(weights, feedback, thought)
    for conflict in moment.of("conflict"):
        valued = [value(event["letter"], terms(event), weights) for event in conflict.data["events"]]
        said += [*write_valued(valued, weights), write_decision(valued, weights)]
    return said


def learned(weights: dict[str, int], feedback: Observation, thought: Mapping[str, Sequence[str]]) -> list[str]:
    """Update `weights` and return the lines that say so; there is a call only if something changed.

    `thought` has what each event of the last round triggers.
    """
    because = feedback.data["because"]
    name, valued = because["principle"], because["valued"]
    if name not in NAMES:
        return []
    kept, decided = feedback.data["accepted"], feedback.data["chosen"]
    wrong, before = kept != decided, dict(weights)
    sign, had = (1 if valued else -1), weights.get(name, 0)
    least, more = _NAMED[wrong]
    felt = sign * had
    weights[name] = sign * max(felt, min(max(least, felt + more), _MOST))
    said = [write_named(name, valued, wrong, had, weights[name])]
    rival = decided if wrong else feedback.data.get("second", "")
    if kept in thought and rival in thought:
        said += _moved(weights, value(kept, thought[kept], weights), value(rival, thought[rival], weights), wrong)
    return [*said, _update(weights)] if weights != before else said


def _moved(weights: dict[str, int], kept: Valued, rival: Valued, wrong: bool) -> list[str]:
    """Move the weights of what the kept event and its rival have, and return the lines that say so."""
    ahead = kept.total - rival.total
    step = min(max(-(-(_BEHIND - ahead) // 5), 1), _STEPS) if wrong else int(ahead < _CLEAR)
    said = [write_now(kept, weights), write_now(rival, weights), write_step(kept, rival, step)]
    for what, event, way in (("kept", kept, step), ("rival", rival, -step)) if step else ():
        moved = [(one, weights.get(one, 0)) for one in event.terms]
        weights |= {one: max(-_MOST, min(_MOST, weight + way)) for one, weight in moved}
        said.append(write_moved(what, event.letter, moved, weights))
    return said


def _update(weights: Mapping[str, int]) -> str:
    return write_call("strategy_hub", {"action": "update", "strategies": write_weights(weights)})


def remembered(text: str) -> list[str]:
    """The hub's entries in the message that the agent reads."""
    _, _, rest = text.partition("You remember:\n")
    entries = []
    for line in rest.splitlines():
        if not line.startswith("- "):
            break
        entries.append(line[2:])
    return entries


def _nothing(role: str) -> Mapping[str, int]:
    return dict.fromkeys(NAMES, 0)


def expected_of(role: str) -> Mapping[str, int]:
    """What people in a role usually care about, or people in general for an unknown role."""
    table = _roles()
    return table.get(role, table["anybody"])


@cache
def _roles() -> Mapping[str, Mapping[str, int]]:
    table: dict[str, dict[str, int]] = json.loads(ROLES_FILE.read_text("utf-8"))["roles"] if ROLES_FILE.exists() else {}
    return {"anybody": dict.fromkeys(NAMES, 0), **table}
