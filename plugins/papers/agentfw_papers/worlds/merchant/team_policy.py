"""The policy `merchant-team`: one policy plans, and another writes the report.

    agentfw run merchant --policy merchant-team --set environment.report=agent --set policy.reporter=openai

The reporter is asked in one message that holds all evidence, and answers with the text of the report. A team can't be
trained: train its planner alone, with reports by rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field, field_validator

from agentfw import Generation, Host, Intervention, Message, Policy, Request, Settings
from agentfw.errors import PluginError
from agentfw.runs import Choice

from .written_report import ASKED

_ROLE = Message("system", "You write market reports for merchants. You state nothing that the evidence doesn't show.")


class TeamSettings(Settings):
    planner: Choice = Field(Choice(name="merchant-linear"), description="Policy that plans, with its settings.")
    reporter: Choice = Field(Choice(name="openai"), description="Policy that writes the report, with its settings.")

    @field_validator("planner", "reporter", mode="before")
    @classmethod
    def _one(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


class TeamPolicy(Policy):
    """Hands each request to the member whose turn it is."""

    def __init__(self, settings: TeamSettings, host: Host) -> None:
        self.planner = _member(settings.planner, "planner", host)
        self.reporter = _member(settings.reporter, "reporter", host)
        self._members = {"planner": self.planner, "reporter": self.reporter}
        self.is_program = any(member.is_program for member in self._members.values())
        prices = {member.price for member in self._members.values() if not member.is_program}
        # Turns of both are counted together, so their cost is unknown if they cost differently.
        self.price = prices.pop() if len(prices) == 1 else None

    def open(self, folder: Path) -> None:
        for name, member in self._members.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            member.open(folder / name)

    async def generate(self, request: Request) -> Generation:
        task = _writing_task(request.messages)
        if not task:
            return await self.planner.generate(request)
        asked = replace(request, messages=[_ROLE, Message("user", task)], actions=(), before=None)
        written = await self.reporter.generate(asked)
        return replace(written, calls=(Intervention("write_report", {"text": written.text}),))

    async def rest(self) -> None:
        for member in self._members.values():
            await member.rest()

    async def wake(self) -> None:
        for member in self._members.values():
            await member.wake()

    async def close(self) -> None:
        for member in self._members.values():
            await member.close()


def _writing_task(messages: Sequence[Message]) -> str:
    """What the reporter is asked, with the answer to its last attempt. Empty while there is still something to plan."""
    for place, message in enumerate(messages):
        if ASKED in message.content:
            later = [one.content for one in messages[place + 1 :] if one.role != "assistant"]
            return "\n\n".join([message.content, *later[-1:]])
    return ""


def _member(choice: Choice, role: str, host: Host) -> Policy:
    made = host.create("policy", choice.name, choice.settings, where=f"policy.{role}")
    if not isinstance(made, Policy):
        raise PluginError(f'policy "{choice.name}" is no Policy but {type(made).__name__}', fix="choose another policy")
    return made
