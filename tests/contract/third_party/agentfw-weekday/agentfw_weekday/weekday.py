"""A tool that tells the weekday of a date.

agentfw run --tool weekday
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from agentfw import Tool, Toolbox
from agentfw.tool import FunctionTool


class Weekday(Toolbox):
    async def open(self) -> Sequence[Tool]:
        return [FunctionTool(self.weekday, name="weekday")]

    def weekday(self, day: date) -> str:
        """Tell the weekday of a date."""
        return f"{day:%A}"
