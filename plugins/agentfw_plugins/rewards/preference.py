"""The reward `preference`: how much the user of an episode likes what was done in it.

It scores the actions that were carried out, not what the agent says about them or what the world answers.

    agentfw reward fit likes.csv --items places.csv --profiles people.csv --out preferences
    agentfw run ENVIRONMENT --reward preference --set reward.preference.model=preferences

There is one score per episode, on the track `personal`: the standardised scores of both branches, each the mean over
the actions, are weighted and squashed to 0 to 1 (the neural part of formula 56 of the parpo-psgm paper). If nothing in
an episode can be scored, or its user is unknown, the score is 0.5, and the metric `preference_unscored` is recorded.

With `text=effects`, what took hold is scored, as the environment tells it by `effects`: known items by what is known of
them, others by their text. A user without likes is scored by their profile. What users accepted or rejected in a run
becomes likes and dislikes of a newer model, `rewards/preference` in the run's folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agentfw import Episode, RewardModel, Score, Settings
from agentfw.episode import Call
from agentfw_rewardmodels import PreferenceModel, UnknownUserError

from . import translated_errors

__all__ = ["Preference", "PreferenceSettings", "effects_of"]

UNSCORED = 0.5  # score of an action for an unknown user: neither liked nor disliked


class PreferenceSettings(Settings):
    model: str = Field(min_length=1, description="Directory of the model, as `agentfw reward fit` writes it.")
    text: Literal["calls", "said", "effects"] = Field(
        "calls",
        description="What is scored: the calls of each turn, its text for agents that answer in text, or the effects "
        "that the environment tells of.",
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
        self._heard: dict[str, list[tuple[str, str, float]]] = {}
        """What users accepted (1) and rejected (0), by episode: user, item, value."""
        with translated_errors():
            self.model = PreferenceModel.load(settings.model)
            try:
                # Reports a missing text encoder before anything is played.
                self.model.score(self.model.users[0], "tea")
            except UnknownUserError:
                pass
        self._items, self._users = set(self.model.items), set(self.model.users)
        own = self.model.settings
        self._interest = own.interest_weight if settings.interest_weight is None else settings.interest_weight
        self._conformity = own.conformity_weight if settings.conformity_weight is None else settings.conformity_weight

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [score for episode in group for score in self._scored(episode)]

    async def learn(self, episode: Episode) -> None:
        verdicts = {"accepted": 1.0, "rejected": 0.0}
        user = episode.task.user
        heard = [
            (user, str(effect["item"]), verdicts[str(effect["verdict"])])
            for effect in effects_of(episode)
            if str(effect.get("item")) in self._items and str(effect.get("verdict")) in verdicts
        ]
        if heard:
            self._heard[f"{user} {episode.id}"] = heard

    async def write_learned(self, folder: Path) -> bool:
        rows = [row for key in sorted(self._heard) for row in self._heard[key]]
        if not rows:
            return False
        with translated_errors():
            newer = self.model.update([{"user": user, "item": item, "value": value} for user, item, value in rows])
            newer.save(folder)
        return True

    async def forget(self, user: str) -> bool:
        self._heard = {key: rows for key, rows in self._heard.items() if rows[0][0] != user}
        if user not in self._users:
            return False
        with translated_errors():
            self.model = self.model.without(user)
            self.model.save(self.settings.model)
        self._users.discard(user)
        return True

    def _scored(self, episode: Episode) -> Iterator[Score]:
        thought = self._thought(episode)
        value = UNSCORED
        if thought:
            interest, conformity = (math.fsum(branch) / len(thought) for branch in zip(*thought, strict=True))
            wanted = self._interest * interest + self._conformity * conformity
            value = 0.5 * (1.0 + math.tanh(0.5 * wanted))
            yield Score(episode.id, "preference_interest", interest, "personal", counts=False)
            yield Score(episode.id, "preference_conformity", conformity, "personal", counts=False)
        yield Score(episode.id, "preference_unscored", float(not thought), "personal", counts=False)
        yield Score(episode.id, "preference", value, "personal")

    def _thought(self, episode: Episode) -> list[tuple[float, float]]:
        """Both branches' scores of each thing that was done, or nothing where the user is unknown."""
        user, by_effects = episode.task.user, self.settings.text == "effects"
        done = effects_of(episode) if by_effects else [{"text": text} for text in self._texts(episode)]
        thought: list[tuple[float, float]] = []
        with translated_errors():
            for effect in done:
                if effect.get("item") in self._items and user in self._users:
                    known = self.model.score_items([user], [str(effect["item"])])
                    thought.append((float(known.interest_z[0]), float(known.conformity_z[0])))
                    continue
                try:
                    one = self.model.score(user, str(effect.get("text", "")), profile=episode.profile or None)
                except UnknownUserError:
                    return []
                thought.append((one.interest_z, one.conformity_z))
        return thought

    def _texts(self, episode: Episode) -> Iterator[str]:
        """The actions carried out, as texts."""
        failed = episode.failed_calls
        for turn in episode.turns:
            if turn.finish == "interrupted":
                continue
            found = [turn.text]
            if self.settings.text != "said":
                carried_out = [call for call in turn.calls if call.id not in failed]
                wanted = self.settings.actions or {call.name for call in carried_out}
                found = [_text_of(call) for call in carried_out if call.name in wanted]
            yield from (text for text in found if text.strip())


def effects_of(episode: Episode) -> list[Mapping[str, Any]]:
    """What took hold in an episode, with the user's verdicts: the last list that the environment told."""
    told = [event.data["effects"] for event in episode.events if event.data.get("effects")]
    return [effect for effect in told[-1] if isinstance(effect, Mapping)] if told else []


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
