"""A preference reward for a world that writes a log: the model is fitted on the log when it is first needed.

A world names its log and its items, and has a reward of its own:

    class MerchantPreference(LogPreference):
        name = "merchant_preference"

Users and items of all worlds of one kind have the same names, so a model of another world would not be noticed. Each
item that is scored is therefore compared with those of the world that the settings name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Literal

from pydantic import Field

from agentfw import Episode, Score, Settings
from agentfw.errors import SettingsError
from agentfw_plugins.rewards import translated_errors
from agentfw_plugins.rewards.preference import Preference, PreferenceSettings, effects_of
from agentfw_rewardmodels import PreferenceModel
from agentfw_rewardmodels import PreferenceSettings as FitSettings


class LogPreferenceSettings(Settings):
    model: str = Field(min_length=1, description="Directory of the model. If it doesn't exist, the model is fitted.")
    logs: str = Field(
        "",
        description="Directory of the log, as `agentfw data make` writes it for this environment. Default: the log of "
        "a world with default settings.",
    )
    world: int = Field(7, ge=0, description="Seed of that world. Must be the environment's.")
    dimensions: int = Field(32, ge=1, description="Size of the fitted vectors.")
    epochs: int = Field(100, ge=1, description="Maximum number of epochs of the fit.")
    branches: Literal["both", "interest", "conformity"] = Field(
        "both", description="Branches of the fitted model: the user's own interest, what everybody likes, or both."
    )
    beyond_average: bool = Field(
        False, description="Count interest only as far as it goes beyond that of the average user."
    )
    interest_weight: float | None = Field(
        None, ge=0, description="Weight of the user's own interest. Default: the model's."
    )
    conformity_weight: float | None = Field(
        None, ge=0, description="Weight of what everybody likes. Default: the model's."
    )


class LogPreference(Preference):
    """Scores what took hold by a model of the world's log."""

    name: ClassVar[str]
    """Of the reward, for errors."""

    def __init__(self, settings: LogPreferenceSettings) -> None:
        if not Path(settings.model).exists():
            self._fit(settings)
        super().__init__(
            PreferenceSettings(
                model=settings.model,
                text="effects",
                interest_weight=settings.interest_weight,
                conformity_weight=settings.conformity_weight,
            )
        )
        for name in ("branches", "beyond_average"):
            fitted, wanted = getattr(self.model.settings, name), getattr(settings, name)
            if fitted != wanted:
                raise SettingsError(
                    f"{settings.model} was fitted with {name} = {fitted}, not {wanted}",
                    fix=f"choose another directory in reward.{self.name}.model, so that the model is fitted anew",
                )
        self._world = None if settings.logs else settings.world

    @classmethod
    @abstractmethod
    def write_log(cls, folder: Path, world: int) -> None:
        """Write interactions.csv, items.csv and, where there are any, profiles.csv."""

    @classmethod
    @abstractmethod
    def texts(cls, world: int) -> Mapping[str, str]:
        """The text of each item of a world."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        if self._world is not None:
            known = self.texts(self._world)
            for effect in (effect for episode in group for effect in effects_of(episode)):
                if known.get(str(effect.get("item")), effect.get("text")) != effect.get("text"):
                    raise SettingsError(
                        f"reward.{self.name}.world: {self._world} is not the world of the environment",
                        fix="set it to environment.world",
                    )
        return await super().score(group)

    def _fit(self, settings: LogPreferenceSettings) -> None:
        """Fit the model and put it where it belongs when it is complete."""
        home = Path(settings.model)
        home.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=home.parent, prefix=".fit-") as work, translated_errors():
            logs = Path(settings.logs or work)
            if not settings.logs:
                self.write_log(logs, settings.world)
            profiles = logs / "profiles.csv"
            model = PreferenceModel.fit(
                logs / "interactions.csv",
                items=logs / "items.csv",
                profiles=profiles if profiles.exists() else None,
                settings=FitSettings(
                    dimensions=settings.dimensions,
                    epochs=settings.epochs,
                    branches=settings.branches,
                    beyond_average=settings.beyond_average,
                ),
            )
            model.save(Path(work) / "model")
            try:
                (Path(work) / "model").rename(home)
            except OSError:
                if not home.exists():  # otherwise another process has fitted the same model meanwhile
                    raise
