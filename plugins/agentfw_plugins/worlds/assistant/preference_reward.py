"""The reward `assistant_preference`: a preference model that is fitted on the log of the world when it is first needed.

    agentfw train assistant --reward assistant_base --reward assistant_preference \
        --set reward.assistant_preference.model=preferences

It knows what a log tells of users, which is more than they have stated and less than the truth. What users accept and
reject in a run becomes a newer model in the run's folder, as with the reward `preference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pydantic import Field

from agentfw import Episode, Score, Settings
from agentfw.errors import SettingsError
from agentfw_rewardmodels import PreferenceModel
from agentfw_rewardmodels import PreferenceSettings as FitSettings

from ...rewards.library_errors import translated_errors
from ...rewards.preference import Preference, PreferenceSettings, effects_of
from .assistant_settings import AssistantSettings
from .catalogue import Catalogue
from .logs import write_logs

__all__ = ["LogPreference", "LogPreferenceSettings"]


class LogPreferenceSettings(Settings):
    model: str = Field(min_length=1, description="Directory of the model. If it doesn't exist, the model is fitted.")
    logs: str = Field(
        "",
        description="Directory of the log, as `agentfw data make assistant` writes it. Default: the log of a "
        "world with default settings.",
    )
    world: int = Field(7, ge=0, description="Seed of that world. Must be the environment's.")
    dimensions: int = Field(32, ge=1, description="Size of the fitted vectors.")
    epochs: int = Field(100, ge=1, description="Maximum number of epochs of the fit.")
    branches: Literal["both", "interest", "conformity"] = Field(
        "both", description="Branches of the fitted model: the user's own interest, what everybody likes, or both."
    )
    interest_weight: float | None = Field(
        None, ge=0, description="Weight of the user's own interest. Default: the model's."
    )
    conformity_weight: float | None = Field(
        None, ge=0, description="Weight of what everybody likes. Default: the model's."
    )


class LogPreference(Preference):
    """Scores what took hold by a model of the world's log."""

    def __init__(self, settings: LogPreferenceSettings) -> None:
        if not Path(settings.model).exists():
            _fit(settings)
        super().__init__(
            PreferenceSettings(
                model=settings.model,
                text="effects",
                interest_weight=settings.interest_weight,
                conformity_weight=settings.conformity_weight,
            )
        )
        if self.model.settings.branches != settings.branches:
            raise SettingsError(
                f"{settings.model} was fitted with branches = {self.model.settings.branches}, not {settings.branches}",
                fix="choose another directory in reward.assistant_preference.model, so that the model is fitted anew",
            )
        self._world = None if settings.logs else settings.world

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        if self._world is not None:
            # Users and items of all worlds have the same names, so a wrong log would not be noticed otherwise.
            known = _texts(self._world)
            for effect in (effect for episode in group for effect in effects_of(episode)):
                if known.get(str(effect.get("item")), effect.get("text")) != effect.get("text"):
                    raise SettingsError(
                        f"reward.assistant_preference.world: {self._world} is not the world of the environment",
                        fix="set it to environment.world",
                    )
        return await super().score(group)


@lru_cache(maxsize=4)
def _texts(world: int) -> dict[str, str]:
    return {item.id: item.text for item in Catalogue(AssistantSettings(world=world)).by_id.values()}


def _fit(settings: LogPreferenceSettings) -> None:
    """Fit the model and put it where it belongs when it is complete."""
    home = Path(settings.model)
    home.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=home.parent, prefix=".fit-") as work, translated_errors():
        logs = Path(settings.logs or work)
        if not settings.logs:
            write_logs(logs, AssistantSettings(world=settings.world))
        profiles = logs / "profiles.csv"
        model = PreferenceModel.fit(
            logs / "interactions.csv",
            items=logs / "items.csv",
            profiles=profiles if profiles.exists() else None,
            settings=FitSettings(dimensions=settings.dimensions, epochs=settings.epochs, branches=settings.branches),
        )
        model.save(Path(work) / "model")
        try:
            (Path(work) / "model").rename(home)
        except OSError:
            if not home.exists():  # otherwise another process has fitted the same model meanwhile
                raise
