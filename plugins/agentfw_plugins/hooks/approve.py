"""The hook `approve`: a person is asked before the named tools are called.

The question is asked where the person is: in the terminal of a run, in the chat, on the page of a gateway. Where nobody
can be asked, or nobody answers in time, the call is refused, and the model is told so.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

from pydantic import Field

from agentfw import Settings, hookimpl
from agentfw.episode import Call
from agentfw.hookspecs import Hook, Verdict

_LONGEST = 500  # characters of the arguments that a person is shown


class ApproveSettings(Settings):
    """Settings of the hook `approve`."""

    tools: tuple[str, ...] = Field(
        min_length=1, description="Names of tools; `*` stands for any characters, as in `send_*`"
    )
    seconds: float = Field(300.0, gt=0, description="Seconds that a person has to answer")


class Approve(Hook):
    """Asks before the named tools are called."""

    def __init__(self, settings: ApproveSettings) -> None:
        self._settings = settings

    @hookimpl(tryfirst=True)
    def agentfw_before_call(self, call: Call) -> Verdict | None:
        if not any(fnmatchcase(call.name, pattern) for pattern in self._settings.tools):
            return None
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        if len(arguments) > _LONGEST:
            arguments = f"{arguments[:_LONGEST]}... ({len(arguments):,} characters)"
        question = f"The model wants to call {call.name} with {arguments}. Allow it?"
        return Verdict("ask", question, self._settings.seconds)
