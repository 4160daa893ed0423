"""The reward `preference`: how much the user of an episode likes what was done in it.

It scores the actions that were carried out, not what the agent says about them or what the world answers.

    agentfw reward fit likes.csv --items places.csv --profiles people.csv --out preferences
    agentfw run ENVIRONMENT --reward preference --set reward.preference.model=preferences

There is one score per episode, on the track `personal`: the standardised scores of both branches, each the mean over
the actions, are weighted and squashed to 0 to 1 (the neural part of formula 56 of the parpo-psgm paper). If nothing in
an episode can be scored, or its user is unknown, the score is 0.5, and the metric `preference_unscored` is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from agentfw import Call, Episode, RewardModel, Score, Settings
from agentfw_rewardmodels import PreferenceModel, PreferenceScore, UnknownUserError

from .library_errors import translated_errors

__all__ = ["Preference", "PreferenceSettings"]

UNSCORED = 0.5
"""Score of an action for an unknown user: neither liked nor disliked."""


class PreferenceSettings(Settings):
    model: str = Field(min_length=1, description="Directory of the model, as `agentfw reward fit` writes it.")
    text: Literal["calls", "said"] = Field(
        "calls", description="Part of a turn that is scored: its calls, or its text for agents that answer in text."
    )
    actions: tuple[str, ...] = Field((), description="Names of the calls that are scored; empty for all.")
    interest_weight: float | None = Field(
        None, ge=0, description="Weight of the user's own interest. Default: the model's."
    )
    conformity_weight: float | None = Field(
        None, ge=0, description="Weight of what everybody likes. Default: the model's."
    )


class Preference(RewardModel):
    """One score per episode, and its components as figures."""

    def __init__(self, settings: PreferenceSettings) -> None:
        self.settings = settings
        with translated_errors():
            self.model = PreferenceModel.load(settings.model)
            try:
                # Reports a missing text encoder before anything is played.
                self.model.score(self.model.users[0], "tea")
            except UnknownUserError:
                pass
        own = self.model.settings
        self._interest = own.interest_weight if settings.interest_weight is None else settings.interest_weight
        self._conformity = own.conformity_weight if settings.conformity_weight is None else settings.conformity_weight

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [score for episode in group for score in self._scored(episode)]

    def _scored(self, episode: Episode) -> Iterator[Score]:
        thought = self._thought(episode)
        value = UNSCORED
        if thought:
            interest = math.fsum(one.interest_z for one in thought) / len(thought)
            conformity = math.fsum(one.conformity_z for one in thought) / len(thought)
            wanted = self._interest * interest + self._conformity * conformity
            value = 0.5 * (1.0 + math.tanh(0.5 * wanted))
            yield Score(episode.id, "preference_interest", interest, "personal", counts=False)
            yield Score(episode.id, "preference_conformity", conformity, "personal", counts=False)
        yield Score(episode.id, "preference_unscored", float(not thought), "personal", counts=False)
        yield Score(episode.id, "preference", value, "personal")

    def _thought(self, episode: Episode) -> list[PreferenceScore]:
        texts = list(self._texts(episode))
        with translated_errors():
            try:
                return self.model.score_many([(episode.task.user, text) for text in texts])
            except UnknownUserError:
                return []

    def _texts(self, episode: Episode) -> Iterator[str]:
        """The actions carried out, as texts."""
        failed = episode.failed_calls
        for turn in episode.turns:
            if turn.finish == "interrupted":
                continue
            if self.settings.text == "said":
                found = [turn.text]
            else:
                wanted = [
                    call for call in turn.calls if not self.settings.actions or call.name in self.settings.actions
                ]
                found = [_text_of(call) for call in wanted if call.id not in failed]
            yield from (text for text in found if text.strip())


def _text_of(call: Call) -> str:
    """A call as text: its name and its arguments' values.

    >>> _text_of(Call("book_table", {"place": "the museum café", "guests": 2, "at": {"day": "Sunday"}}))
    'book table: the museum café, 2, Sunday'
    """
    words = call.name.replace("_", " ")
    values = ", ".join(_values(call.arguments))
    return f"{words}: {values}" if values else words


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, str) or not isinstance(value, Sequence):
        if value is not None and str(value).strip():
            yield str(value).strip()
        return
    for inner in value:
        yield from _values(inner)
