"""The reward `feedback_preference`: the reward `preference`, with a model that is fitted on recorded feedback.

    agentfw train --from RUN --optimizer grpo

Users are those of the recorded sessions, and items are the answers that they rated. Only conversations for training are
fitted on, so the reward of a held-out conversation says something new. The model scores an answer by its text, for the
user of the conversation. It doesn't read the conversation.

The model is fitted when the training begins, in the run's folder. A resumed training finds it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from pydantic import Field

from agentfw import Episode, RewardModel, Score, Settings
from agentfw_rewardmodels import PreferenceModel
from agentfw_rewardmodels import PreferenceSettings as FitSettings

from ...rewards.library_errors import translated_errors
from ...rewards.preference import Preference, PreferenceSettings
from .examples import Example, read_examples, split_of

__all__ = ["FeedbackPreference", "FeedbackPreferenceSettings"]


class FeedbackPreferenceSettings(Settings):
    runs: tuple[str, ...] = Field(min_length=1, description="Directories of the runs whose feedback is fitted on.")
    good: float = Field(
        0.5, gt=0, le=1, description="Minimum feedback of a good answer. A bad one has at most minus that."
    )
    dimensions: int = Field(32, ge=1, description="Size of the fitted vectors.")
    epochs: int = Field(100, ge=1, description="Maximum number of epochs of the fit.")


class FeedbackPreference(RewardModel):
    """Scores what an agent says by what its user liked so far."""

    def __init__(self, settings: FeedbackPreferenceSettings) -> None:
        self.settings = settings
        self._preference: Preference | None = None

    def open(self, folder: Path) -> None:
        home = folder / "feedback_preference"
        if not home.exists():
            examples = read_examples([Path(run) for run in self.settings.runs], self.settings.good)
            self._fit(split_of(examples, "train")).save(home)
        self._preference = Preference(PreferenceSettings(model=str(home), text="said"))

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        assert self._preference is not None, "open() comes first"
        return await self._preference.score(group)

    async def forget(self, user: str) -> bool:
        return self._preference is not None and await self._preference.forget(user)

    def _fit(self, examples: Sequence[Example]) -> PreferenceModel:
        texts = {_item(example): example.text for example in examples}
        said = [
            {"user": example.user or "user", "item": _item(example), "value": example.value} for example in examples
        ]
        with translated_errors():
            return PreferenceModel.fit(
                said,
                items=texts,
                settings=FitSettings(dimensions=self.settings.dimensions, epochs=self.settings.epochs),
            )


def _item(example: Example) -> str:
    """Answers with the same text are one item."""
    return blake2b(example.text.encode(errors="replace"), digest_size=12).hexdigest()
