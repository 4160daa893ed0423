"""A tool that tells which stamps a postcard needs, and what they cost.

agentfw run --tool stamp --set tool.stamp.abroad=150
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from agentfw import Settings, Tool, Toolbox
from agentfw.tool import FunctionTool
from pydantic import Field


class StampSettings(Settings):
    home: int = Field(default=95, ge=1, description="What a card within the country costs, in cents.")
    abroad: int = Field(default=125, ge=1, description="What a card to another country costs, in cents.")


class Stamp(Toolbox):
    def __init__(self, settings: StampSettings) -> None:
        self.settings = settings

    async def open(self) -> Sequence[Tool]:
        return [FunctionTool(self.stamp, name="stamp")]

    def stamp(
        self, to: Literal["home", "abroad"], cards: Annotated[int, Field(ge=1, le=1000), "how many cards"] = 1
    ) -> str:
        """Tell what the stamps of postcards cost together.

        to: home, or another country
        """
        price = self.settings.home if to == "home" else self.settings.abroad
        return f"{cards} x {price} cents, {cards * price / 100:.2f} in all"
