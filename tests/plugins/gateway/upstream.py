"""A gateway in front of a recording chat completions server of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from chat_server import Reply, Script, Server, refusal, serving

from .conftest import Served, served

Body = dict[str, Any]


class Passing(Served):
    def __init__(self, gateway: Served, server: Server, refused: list[Body]) -> None:
        super().__init__(gateway.url, gateway.folder, gateway.stop, gateway.live)
        self.server, self._refused = server, refused

    @property
    def asked(self) -> list[Body]:
        """What the server was asked, without what it didn't take of the gateway's own."""
        return [body for body in self.server.bodies if not any(body is one for one in self._refused)]


@contextmanager
def passing(
    folder: Path,
    *script: Script,
    counts: bool = False,
    owner: str = "us",
    assignments: tuple[str, ...] = (),
    apis: tuple[str, ...] = (),
    **options: Any,
) -> Iterator[Passing]:
    """A server that doesn't take the question for the token counts of a stream unless it `counts`.

    `owner` is who owns its models. `apis` are what else it speaks.
    """
    steps = iter(script)
    last: list[Script] = []
    refused: list[Body] = []

    def answer(body: Body) -> Reply:
        if body.get("stream_options") == {"include_usage": True} and not (counts or refused):
            refused.append(body)
            return refusal(400, "stream_options is not known")
        last[:] = [next(steps, *last)]
        return last[0] if isinstance(last[0], Reply) else last[0](body)

    with ExitStack() as stack:
        address, server = stack.enter_context(serving(answer, apis=apis, owner=owner))
        settings = [f"policy.base_url={address}", "policy.model=served", *assignments]
        gateway = stack.enter_context(served(folder, policy="openai", assignments=settings, **options))
        yield Passing(gateway, server, refused)


Start = Callable[..., Passing]
