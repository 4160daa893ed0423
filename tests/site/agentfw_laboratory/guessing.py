"""A world with rounds: guess a number in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from agentfw import Environment, Settings, Task, World, action

ODD = "<b>bold</b> & \x00 nothing 🍵 \ud83d half a pair, مرحبا, a very long line: " + "word " * 30


class GuessingSettings(Settings):
    rounds: int = Field(5, ge=1, description="How many rounds an episode has.")
    odd: bool = Field(False, description="Let things be observed that are hard to print.")
    noisy: bool = Field(False, description="Print to stdout, as careless plugins do.")
    outcome: str = Field("", description="A way to break the contract: unmeasured or raise.")


class Guessing(Environment):
    """Guess the number of each round, from 0 to 9."""

    headline = "error"
    lower_is_better = True

    def __init__(self, settings: GuessingSettings | None = None) -> None:
        self.settings = settings or GuessingSettings()

    def begin(self, world: World, task: Task) -> None:
        self.world, self._numbers = world, world.random("numbers")
        self._errors: list[float] = []
        if self.settings.noisy:
            print("careless noise")
        if self.settings.outcome == "raise":
            raise ValueError("the world is out of joint")
        self._next_round()

    @action
    def guess(self, number: int) -> None:
        """Say a number from 0 to 9."""
        error = abs(number - self._number) / 9
        self._errors.append(error)
        self.world.measure("error", error)
        self.world.utility(1 - error, "guess")
        if len(self._errors) == self.settings.rounds:
            self.world.finish(**self._outcome())
        else:
            self._next_round()

    def _next_round(self) -> None:
        self._number = self._numbers.randrange(10)
        self.world.round(len(self._errors) + 1, self.settings.rounds)
        # A tuple: what is read back from disk is a list.
        data: dict[str, Any] = {"hint": (self._number // 5, self._numbers.random())}
        if self.settings.odd:
            data["odd"] = ODD
        self.world.observe("round", data)

    def _outcome(self) -> Mapping[str, Any]:
        values: dict[str, Any] = {"error": sum(self._errors) / len(self._errors), "best": min(self._errors)}
        if self.settings.outcome == "unmeasured":
            values["best"] = float("nan")
        return values

    def outcome(self) -> Mapping[str, float]:
        return self._outcome() if self._errors else {}
