"""Requests about a text that nobody answers: its vectors, and how many tokens it has.

They belong to no session, and no record has them. Where a server has the endpoint, they are passed on as they are.

    POST /v1/embeddings    POST /v1/messages/count_tokens
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from agentfw import Memory, Policy
from agentfw import Request as Asking
from agentfw.errors import UpstreamError
from agentfw.request import Forwarded

from ..protocols.bodies import BadRequest, Body
from ..protocols.chat import read_request
from ..protocols.messages import Messages
from .answers import body_of, caller_of, json_answer
from .callers import Callers
from .line import Line
from .models import OWN, Model, Models

__all__ = ["Endpoints"]

_MOST_TEXTS = 2048


class Endpoints:
    """The endpoints of a gateway besides those that answer a conversation."""

    def __init__(
        self, models: Models, callers: Callers, line: Line, *, memories: Sequence[Memory] = (), max_body: int
    ) -> None:
        """`memories` are those whose embedding model can be used."""
        self._models, self._callers, self._line = models, callers, line
        self._memories, self._max_body = memories, max_body

    async def embeddings(self, request: Request) -> Response:
        body = await body_of(request, self._max_body)
        name = body.name("model")
        self._count(request, body)
        own = await self._memories[0].embed([]) if self._memories else None
        if own is not None and name == own.model:
            return await self._embedded(body, self._memories[0], own.model)
        model = self._models.others.get(name, self._models.own)
        if model.forwards and model.policy is not None:
            return await self._passed(request, body, model, model.policy, "embeddings")
        if own is not None and name == OWN:
            return await self._embedded(body, self._memories[0], own.model)
        there = f"there is: {own.model}" if own else "serve with a memory that has one, such as --memory skillgraph"
        raise BadRequest(f'there is no embedding model "{name}"; {there}', 404, code="model_not_found", field="model")

    async def count_tokens(self, request: Request) -> Response:
        """How many tokens a request to /v1/messages has. A memory's part isn't counted."""
        body = await body_of(request, self._max_body)
        model = self._models.find(body.name("model"))
        self._count(request, body, body.values.get("metadata"))
        if model.policy is None:
            raise BadRequest("tokens can't be counted here", 404, code="not_supported")
        if model.forwards:
            if not await model.policy.speaks("messages/count_tokens", body.name("model")):
                raise BadRequest(
                    "messages/count_tokens is not supported: the model's server has no messages API to count with",
                    code="unsupported_parameter",
                )
            return await self._passed(request, body, model, model.policy, "messages/count_tokens")
        asked = read_request(
            Messages().chat(Body({**body.values, "max_tokens": 1})), follows_schemas=model.follows_schemas
        )
        async with self._line.place(request.state.caller.client):
            count = await model.policy.count_tokens(Asking(asked.messages, asked.actions))
        return json_answer({"input_tokens": count})

    def _count(self, request: Request, body: Body, metadata: object = None) -> None:
        """Let a request in, as one for an answer."""
        hint = metadata.get("user_id") if isinstance(metadata, dict) else ""
        caller = caller_of(request, body, hint if isinstance(hint, str) else "")
        self._callers.count(caller, self._line.of(caller.client))

    async def _passed(self, request: Request, body: Body, model: Model, policy: Policy, path: str) -> Response:
        values = self._models.without_own_name(model, dict(body.values))
        forwarded = Forwarded(values, path, query_of(request), body.raw, {**request.headers})
        try:
            async with self._line.place(request.state.caller.client):
                passed = await policy.forward(Asking([]), forwarded)
        except UpstreamError:
            request.state.native = True
            raise
        return Response(passed.content, headers=dict(passed.headers))

    async def _embedded(self, body: Body, memory: Memory, model: str) -> Response:
        body.refuse({"dimensions": ()})
        body.refuse_others(("model", "input", "encoding_format", "dimensions", "user"))
        form = body.text("encoding_format", "float")
        if form not in ("float", "base64"):
            raise body.wrong("encoding_format", "must be float or base64")
        texts = body.strings("input", _MOST_TEXTS)
        if not texts or not all(texts):
            raise body.wrong("input", f"must be a text or a list of up to {_MOST_TEXTS}, none of them empty")
        async with self._line.place("memories"):
            found = await memory.embed(texts)
        rows = [
            {"object": "embedding", "index": index, "embedding": _packed(row) if form == "base64" else list(row)}
            for index, row in enumerate(found.vectors)
        ]
        # Its tokens aren't those of a model that is paid for, and nobody counts them.
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return json_answer({"object": "list", "data": rows, "model": model, "usage": usage})


def query_of(request: Request) -> str:
    """The query of a request's address that is for the server."""
    others = [part for part in request.url.query.split("&") if part and not part.startswith("user=")]
    return f"?{'&'.join(others)}" if others else ""


def _packed(row: Sequence[float]) -> str:
    """32-bit floats in the order of bytes that clients expect."""
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode("ascii")
