"""Settings of the environment `etapp`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentfw import Settings


class EtappSettings(Settings):
    folder: str = Field("", description="Directory of your copy of ETAPP.")
    instructions: str = Field(
        "", description="File of other instructions, such as those of ETAPP-Hard. Default: those of the copy."
    )
    tools: Literal["given", "retrieved"] = Field(
        "given", description="given: the tools that a task needs are offered. retrieved: the agent searches for them."
    )
    part: Literal["instruction", "instance"] = Field(
        "instruction",
        description="What the splits don't share. instance: each task is in one split, as in the parpo-psgm paper, but "
        "nearly every instruction is in all.",
    )
    users: int = Field(0, ge=0, description="Number of persons to play. Default: all.")
    turns: int = Field(20, ge=1, description="Maximum number of turns of a task.")
