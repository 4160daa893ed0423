"""The client of the agents on OpenAI's API that programs here train: one pool of connections for all tasks."""

from __future__ import annotations

from functools import cache

import httpx
from openai import AsyncOpenAI


def client(base_url: str, api_key: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=_connections())


@cache
def _connections() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=256), trust_env=False)
