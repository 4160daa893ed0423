"""A policy that prints everything it is sent, for `--show-what-is-sent`."""

from __future__ import annotations

import click

from agentfw import Generation, Policy, Request

from .ics_events import printable

__all__ = ["ShownPolicy"]


class ShownPolicy(Policy):
    """Prints each message once, and then asks the policy that it wraps."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.is_program = policy.is_program
        self._shown: set[str] = set()

    async def generate(self, request: Request) -> Generation:
        names = ", ".join(action.name for action in request.actions)
        self._print("tools", names)
        for message in request.messages:
            self._print(message.role, message.content)
        return await self._policy.generate(request)

    async def close(self) -> None:
        await self._policy.close()

    def _print(self, role: str, text: str) -> None:
        if text and (line := f"sent {role}: {text}") not in self._shown:
            self._shown.add(line)
            for part in line.splitlines():
                click.echo(printable(part), err=True)
