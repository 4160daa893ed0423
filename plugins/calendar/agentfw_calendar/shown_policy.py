"""A policy that prints everything it is sent, for `--show-what-is-sent`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from agentfw import Generation, Policy, Request

from .ics_events import printable

__all__ = ["ShownPolicy"]


class ShownPolicy(Policy):
    """Prints each tool, message and call once, and then asks the policy that it wraps."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.is_program = policy.is_program
        self._shown: set[str] = set()

    async def generate(self, request: Request) -> Generation:
        for action in request.actions:
            self._print("tool", f"{action.name}: {action.description}\n{_json(action.parameters)}")
        for message in request.messages:
            self._print(message.role, message.content)
            for call in message.calls:
                self._print(message.role, f"{call.name} {_json(call.arguments)}")
        return await self._policy.generate(request)

    async def close(self) -> None:
        await self._policy.close()

    def _print(self, role: str, text: str) -> None:
        if text and (line := f"sent {role}: {text}") not in self._shown:
            self._shown.add(line)
            for part in line.splitlines():
                click.echo(printable(part), err=True)


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), ensure_ascii=False)
