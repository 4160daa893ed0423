"""Requests that belong to no session, and that no record has: vectors, token counts, models, and all that is unknown.

Where a server has the endpoint, they are passed on as they are. With a key of one user, few of those below /v1 that the
gateway doesn't know are: what a server keeps, it keeps for all who share its key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentfw import Policy
from agentfw import Request as Asking
from agentfw.episode import Task
from agentfw.errors import AgentfwError, UpstreamError
from agentfw.request import Forwarded

from ..protocols import BadRequest, Body, Protocol
from ..protocols.chat import read_chat, recorded
from .answering import Answers, Model, query_of, until_gone
from .handling import body_of, bytes_of, caller_of, json_answer

_LISTING = 10.0  # seconds for a server's list of models
_OF_KEYS = {
    *("audio/speech", "audio/transcriptions", "audio/translations", "moderations", "rerank"),
    *("images/edits", "images/generations", "images/variations", "responses/input_tokens"),
}
"""What is passed on for keys of users: a server keeps nothing of it."""


class Endpoints:
    def __init__(self, answers: Answers) -> None:
        self._models, self._callers, self._line = answers.models, answers.callers, answers.line

    async def models(self, request: Request) -> Response:
        """The models that can be asked for: the gateway's own, and those of its server."""
        rows: list[Any] = [_told(name) for name in self._models.names]
        policy = self._models.of_client(request).policy
        if policy is not None and self._models.are_the_servers:
            try:
                async with asyncio.timeout(_LISTING):
                    passed = await policy.forward(Asking([]), self._unread(request, "models"))
                rows += [row for row in json.loads(passed.content)["data"] if row["id"] not in self._models.names]
            except (AgentfwError, TimeoutError, ValueError, KeyError, TypeError, RecursionError):
                pass  # the server has no list, or none of this form
        if request.url.path.endswith("/v1beta/models"):  # as Google's clients want it
            methods = ["generateContent", "countTokens"]
            told = [{"name": f"models/{row['id']}", "supportedGenerationMethods": methods} for row in rows]
            return json_answer({"models": told})
        return json_answer({"object": "list", "data": rows})

    async def model(self, request: Request) -> Response:
        name, policy = request.path_params["name"], self._models.of_client(request).policy
        if name not in self._models.names and policy is not None and self._models.are_the_servers:
            request.state.native = True
            passed = await policy.forward(Asking([]), self._unread(request, f"models/{quote(name)}"))
            return Response(passed.content, headers=dict(passed.headers))
        self._models.find(name, "")
        return json_answer(_told(name))

    async def others(self, request: Request) -> Response:
        path, model = str(request.path_params["path"]), self._models.of_client(request)
        policy = model.policy
        if policy is None or not model.forwards or not {"", ".", ".."}.isdisjoint(path.split("/")):
            raise BadRequest(f"the gateway has no {request.method} {request.url.path[:200]}", 404, code="no_such_path")
        caller = caller_of(request, Body({}))
        if caller.key is not None and self._models.key != "callers" and path not in _OF_KEYS:
            raise BadRequest(f"/v1/{path[:200]} is not passed on for keys of users", 403, code="operators_only")
        await self._callers.count(caller)
        raw = await bytes_of(request)
        began: asyncio.Future[tuple[int, Mapping[str, str]]] = asyncio.get_running_loop().create_future()
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def passing() -> None:
            told = {"begun": lambda *given: began.set_result(given), "hear": pieces.put_nowait}
            try:
                async with self._line.place(caller.client):
                    await policy.forward(Asking([]), self._unread(request, quote(path), raw, **told))
            finally:
                pieces.put_nowait(None)

        task, watch = asyncio.create_task(passing()), asyncio.create_task(until_gone(request))
        watch.add_done_callback(lambda _: task.cancel())
        task.add_done_callback(lambda _: watch.cancel())
        either: list[asyncio.Future[Any]] = [task, began]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not began.done():
            request.state.native = True  # the server's refusal is passed on as it is
            if task.cancelled():
                return Response(status_code=400)  # nobody is there
            await task

        async def content() -> AsyncIterator[bytes]:
            while (piece := await pieces.get()) is not None:
                yield piece
            await task  # a stream that broke off must not look like one that ended

        status, headers = began.result()
        return StreamingResponse(content(), status, {**headers})

    def _unread(self, request: Request, path: str, raw: bytes = b"", **more: Any) -> Forwarded:
        """A request that nobody reads on its way."""
        key, headers = self._models.key_for(request), {**request.headers}
        given = {"raw": raw, "headers": headers, "method": request.method, "key": key, **more}
        return Forwarded({}, "", path, query=query_of(request), **given)

    async def embeddings(self, protocol: Protocol, request: Request) -> Response:
        body = await body_of(request)
        name = body.name("model")
        await self._count(request, body)
        model = self._models.others.get(name, self._models.own)
        if not model.forwards or model.policy is None:
            raise BadRequest(f'there is no embedding model "{name}"', 404, code="model_not_found", field="model")
        return await self._passed(request, body, model, model.policy, protocol, protocol.path)

    async def count_tokens(self, protocol: Protocol, request: Request) -> Response:
        """How many tokens a request has. A memory's part isn't counted."""
        given = await body_of(request)
        body = protocol.addressed(given, request.path_params, streams=False)
        name, path = body.name("model"), protocol.count_path
        model = self._models.find(name, protocol.name)
        await self._count(request, body, recorded(protocol, body).user)
        if model.policy is None:
            raise BadRequest("tokens can't be counted here", 404, code="not_supported")
        if model.forwards:
            if not await model.policy.speaks(path, name):
                words = f"{path} is not supported: the model's server has no {protocol.name} API to count with"
                raise BadRequest(words, code="unsupported_parameter")
            return await self._passed(request, given, model, model.policy, protocol, path)
        chat = protocol.read_request(Body({**body.values, **protocol.required}))
        asked = read_chat(chat, follows_schemas=model.policy.follows_schemas)
        async with self._line.place(request.state.caller.client):
            count = await model.policy.count_tokens(Asking(asked.messages, asked.actions))
        return json_answer(protocol.write_count(count))

    async def _count(self, request: Request, body: Body, hint: str = "") -> None:
        caller = request.state.caller = caller_of(request, body, hint)
        await self._callers.count(caller)

    async def _passed(
        self, request: Request, body: Body, model: Model, policy: Policy, protocol: Protocol, path: str
    ) -> Response:
        name, caller = str(request.path_params.get("model") or body.values.get("model") or ""), request.state.caller
        forwarded = self._models.forwarded(model, protocol, path, name, body, request)
        # It has no conversation, and is counted as its caller's.
        asking = Asking([], task=Task(0, 0, user=caller.user, query=caller.space))
        try:
            async with self._line.place(caller.client):
                passed = await policy.forward(asking, forwarded)
        except UpstreamError:
            request.state.native = True
            raise
        return Response(passed.content, headers=dict(passed.headers))


def _told(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentfw"}
