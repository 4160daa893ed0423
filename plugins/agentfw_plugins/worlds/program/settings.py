"""Settings of the environment `program`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from agentfw import Settings
from agentfw.settings import OPERATIONAL

__all__ = ["ProgramSettings"]


class ProgramSettings(Settings):
    tasks: str = Field(
        min_length=1,
        description="File of tasks, one JSON object per line. {split} in its name stands for the split: a training "
        "learns from train and is evaluated on validation, and a run plays test. Without it, the splits share the "
        "file.",
    )
    command: str = Field(
        "",
        description="Command to start for each task. {name} in it stands for that key of the task. The task is also on "
        "its standard input.",
    )
    function: str = Field(
        "",
        description="Async function to call for each task in place of a command, as package.module:name, installed or "
        "in the current directory. It is given the task, the base URL and a key.",
    )
    check: str = Field(
        "",
        description="Command that checks the result in the program's folder. Its last line of JSON has the `reward`, "
        "or else its exit code tells: 0 is 1, any other 0.",
    )
    timeout: float = Field(300.0, gt=0, description="Seconds after which the program is ended.")
    memory: int = Field(0, ge=0, description="Maximum memory of the program in MB; 0 for no limit.")
    output: Annotated[int, OPERATIONAL] = Field(
        1_000_000, ge=1000, description="Maximum number of bytes of its output that are read; the rest is dropped."
    )
    keep: Annotated[str, OPERATIONAL] = Field(
        "", description="Directory in which the programs' folders are kept. Default: they are removed."
    )

    @model_validator(mode="after")
    def _one_agent(self) -> ProgramSettings:
        if bool(self.command.strip()) == bool(self.function.strip()):
            raise ValueError("set either command or function")
        return self
