"""The policies `rules` and `linear`, which need no language model. `linear` is the reference to beat.

They learn only from what an episode shows: the tags of events and which of them the user kept. What `linear` expects of
a user before the first round (settings.prior = "fitted") was fitted on the choices of 200 *training* users;
`python benchmarks/calendar_players.py honesty --fit` makes the file anew. With prior = "flat" it expects nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from agentfw import Generation, Intervention, Observation, Policy, Request, Settings
from agentfw.errors import UnknownNameError

from .choice_model import FEATURES, ChoiceLearner, Prior, choices, matrix
from .event_attributes import RULES, in_words

PRIOR_FILE = Path(__file__).parent / "linear_prior.json"
_SAID = 0.1  # minimum difference in value to be given as a reason


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
        if (conflict := next(iter(request.moment.of("conflict")), None)) is None:
            return Generation(version="linear")
        data = conflict.data
        if data["round"] == 1:
            # Start anew in the first round, so that a repeated episode is the same episode.
            learner = ChoiceLearner(self._prior.of(f"{data['archetype']}/{data['role']}"))
            self._learners[key] = learner
            for past in request.moment.of("past"):
                learner.observe_all([found for one in past.data["rounds"] for found in choices(**one)])
        self._shown[key] = conflict
        rows, weights = matrix(data["events"]), self._learners[key].weights
        order = np.argsort(-(rows @ weights), kind="stable")
        letters = [data["events"][place]["letter"] for place in order]
        # What speaks most for the first event compared with the second.
        first = rows[order[0]]
        worth = weights * (first - rows[order[1]])
        strongest = [place for place in np.argsort(-worth, kind="stable")[:2] if worth[place] > _SAID]
        said = [("" if first[place] else f"{letters[1]}: ") + in_words(FEATURES[place]) for place in strongest]
        return _decision(letters, (", ".join(said) or "hardly any difference"), "linear")


def _decision(ranking: list[str], reason: str, version: str) -> Generation:
    call = Intervention("decide", {"accept": ranking[0], "ranking": ranking, "reason": reason})
    return Generation(calls=(call,), count=1, version=version)


@cache
def fitted_prior() -> Prior:
    return Prior.load(PRIOR_FILE)
