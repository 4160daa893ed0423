"""A gateway in front of a recording chat completions server of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from chat_server import Reply, Script, Server, refusal, serving

from .conftest import Served, served

__all__ = ["Passing", "passing"]

Body = dict[str, Any]


class Passing(Served):
    """The gateway, and the server behind it."""

    def __init__(self, gateway: Served, server: Server) -> None:
        super().__init__(gateway.url, gateway.live, gateway.stop)
        self.server = server

    @property
    def asked(self) -> list[Body]:
        """What the server was asked, without the gateway's own question at the start."""
        return [body for body in self.server.bodies if not own_question(body)]


def own_question(body: Body) -> bool:
    said: bool = body.get("messages") == [{"role": "user", "content": "Hi"}]
    return said


@contextmanager
def passing(
    folder: Path,
    *script: Script,
    own: Reply | None = None,
    assignments: tuple[str, ...] = (),
    apis: tuple[str, ...] = (),
    **options: Any,
) -> Iterator[Passing]:
    """`own` answers the gateway's own question. By default, it is refused. `apis` are what else the server speaks."""
    steps = iter(script)
    last: list[Script] = []

    def answer(body: Body) -> Reply:
        if own_question(body):
            return own or refusal(400, "return_token_ids is not known")
        last[:] = [next(steps, *last)]
        return last[0] if isinstance(last[0], Reply) else last[0](body)

    with ExitStack() as stack:
        address, server = stack.enter_context(serving(answer, apis=apis))
        settings = [f"policy.base_url={address}", "policy.model=served", *assignments]
        gateway = stack.enter_context(served(folder, policy="openai", assignments=settings, **options))
        yield Passing(gateway, server)


Start = Callable[..., Passing]
