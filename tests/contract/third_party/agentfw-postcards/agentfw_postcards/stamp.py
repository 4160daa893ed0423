"""A tool that tells which stamps a postcard needs.

The one rule: never too little postage; where the stamps don't come out even, it is a little more.

    agentfw run --tool stamp --set tool.stamp.abroad=150
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from agentfw import Settings, Tool, Toolbox
from agentfw.errors import InterventionRefused
from agentfw.tool import FunctionTool
from pydantic import Field


class StampSettings(Settings):
    home: int = Field(default=95, ge=1, description="What a card within the country costs, in cents.")
    abroad: int = Field(default=125, ge=1, description="What a card to another country costs, in cents.")
    stamps: tuple[int, ...] = Field(default=(85, 45, 20, 10, 5), min_length=1, description="The stamps that there are.")


class Stamp(Toolbox):
    def __init__(self, settings: StampSettings) -> None:
        self.settings = settings

    async def open(self) -> Sequence[Tool]:
        return [FunctionTool(self.stamp, name="stamp")]

    def stamp(
        self, to: Literal["home", "abroad"], cards: Annotated[int, Field(ge=1, le=1000), "how many cards"] = 1
    ) -> str:
        """Tell which stamps go on a postcard, and what they cost together.

        to: home, or another country
        """
        price = self.settings.home if to == "home" else self.settings.abroad
        left, stamps = price, list[int]()
        values = sorted((value for value in self.settings.stamps if value > 0), reverse=True)
        if not values:
            raise InterventionRefused("there are no stamps to be had")
        for value in values:
            stamps += [value] * (left // value)
            left %= value
        if left:
            stamps.append(values[-1])
        return f"{cards} x {' + '.join(map(str, stamps))} cents, {cards * sum(stamps) / 100:.2f} in all"
