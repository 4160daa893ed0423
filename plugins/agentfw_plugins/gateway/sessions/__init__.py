"""Where the sessions of a gateway are kept: in this folder, or in a database that several gateways share."""

from __future__ import annotations

from collections.abc import Sequence

from agentfw import Session, Task
from agentfw.errors import UsageError
from agentfw.turns.session import SessionEnvironment


class Sessions(SessionEnvironment):
    """Conversations that programs and people lead with the policy."""

    headline = "reward"

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return [Task(index, seed, split=split) for index in range(count)]

    async def play(self, session: Session) -> None:
        fix = "continue its sessions: agentfw serve --resume RUN; or begin others: agentfw serve, agentfw chat"
        raise UsageError("the episodes of this environment come from outside", fix=fix)
