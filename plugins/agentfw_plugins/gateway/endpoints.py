"""Requests about a text that nobody answers: its vectors, and how many tokens it has.

They belong to no session, and no record has them. Where a server has the endpoint, they are passed on as they are.

    POST /v1/embeddings    POST /v1/messages/count_tokens    POST /v1beta/models/MODEL:countTokens
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from agentfw import Memory, Policy
from agentfw import Request as Asking
from agentfw.errors import UpstreamError

from ..protocols import BadRequest, Body, Protocol
from ..protocols.chat import read_chat, recorded
from ..protocols.embeddings import Embeddings
from .answering import Line
from .answers import body_of, json_answer
from .callers import Callers, caller_of
from .models import OWN, Model, Models

__all__ = ["Endpoints"]


class Endpoints:
    """The endpoints of a gateway besides those that answer a conversation."""

    def __init__(
        self, models: Models, callers: Callers, line: Line, *, memories: Sequence[Memory] = (), max_body: int
    ) -> None:
        """`memories` are those whose embedding model can be used."""
        self._models, self._callers, self._line = models, callers, line
        self._memories, self._max_body = memories, max_body

    async def embeddings(self, protocol: Protocol, request: Request) -> Response:
        assert isinstance(protocol, Embeddings)
        body = await body_of(request, self._max_body)
        name = body.name("model")
        self._count(request, body)
        own = await self._memories[0].embed([]) if self._memories else None
        if own is not None and name == own.model:
            return await self._embedded(protocol, body, self._memories[0], own.model)
        model = self._models.others.get(name, self._models.own)
        if model.forwards and model.policy is not None:
            return await self._passed(request, body, model, model.policy, protocol, protocol.path)
        if own is not None and name == OWN:
            return await self._embedded(protocol, body, self._memories[0], own.model)
        there = f"there is: {own.model}" if own else "serve with a memory that has one, such as --memory skillgraph"
        raise BadRequest(f'there is no embedding model "{name}"; {there}', 404, code="model_not_found", field="model")

    async def count_tokens(self, protocol: Protocol, request: Request) -> Response:
        """How many tokens a request has. A memory's part isn't counted."""
        given = await body_of(request, self._max_body)
        body = protocol.addressed(given, request.path_params, streams=False)
        name, path = body.name("model"), protocol.count_path
        model = self._models.find(name)
        self._count(request, body, recorded(protocol, body).user)
        if model.policy is None:
            raise BadRequest("tokens can't be counted here", 404, code="not_supported")
        if model.forwards:
            if not await model.policy.speaks(path, name):
                raise BadRequest(
                    f"{path} is not supported: the model's server has no {protocol.name} API to count with",
                    code="unsupported_parameter",
                )
            return await self._passed(request, given, model, model.policy, protocol, path)
        chat = protocol.read_request(Body({**body.values, **protocol.required}))
        asked = read_chat(chat, follows_schemas=model.follows_schemas)
        async with self._line.place(request.state.caller.client):
            count = await model.policy.count_tokens(Asking(asked.messages, asked.actions))
        return json_answer(protocol.write_count(count))

    def _count(self, request: Request, body: Body, hint: str = "") -> None:
        """Let a request in, as one for an answer."""
        caller = caller_of(request, body, hint)
        self._callers.count(caller, self._line.of(caller.client))

    async def _passed(
        self, request: Request, body: Body, model: Model, policy: Policy, protocol: Protocol, path: str
    ) -> Response:
        name = str(request.path_params.get("model") or body.values.get("model") or "")
        forwarded = self._models.forwarded(model, protocol, path, name, body, request)
        try:
            async with self._line.place(request.state.caller.client):
                passed = await policy.forward(Asking([]), forwarded)
        except UpstreamError:
            request.state.native = True
            raise
        return Response(passed.content, headers=dict(passed.headers))

    async def _embedded(self, protocol: Embeddings, body: Body, memory: Memory, model: str) -> Response:
        texts = protocol.texts(body)
        async with self._line.place("memories"):
            found = await memory.embed(texts)
        return json_answer(protocol.write_vectors(found.vectors, model, body))
