"""The provider that `agentfw serve` is put in front of: found in the environment, and asked once at the start.

The question is for its list of models, which costs nothing. A provider that doesn't answer it is still served: it may
start later, or have no list.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from agentfw import Policy, Request
from agentfw.errors import AgentfwError, SettingsError, UpstreamError
from agentfw.request import Forwarded

from .handling import LOOPBACK

_DEADLINE = 5.0  # seconds for the question at the start
_SHOWN = 4
_PROVIDERS = {
    "OPENAI": ("https://api.openai.com/v1", {}),
    "ANTHROPIC": ("https://api.anthropic.com/v1", {"protocol": "messages", "api_key_header": "x-api-key"}),
}
_PLACEHOLDER = re.compile(
    r"[<>{}$]|\.\.\.|\byour\b|^my\b|\.(example|invalid|test)$|(^|\.)example\.(com|org|net)$", re.IGNORECASE
)


class Found(NamedTuple):
    """Options of `agentfw serve` for what the environment names."""

    policy: str = ""
    assignments: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


def providers(environment: Mapping[str, str], host: str, port: int) -> Found:
    """What the environment names, as options. The gateway itself will be at this host and port."""
    found = Found()
    for name, (usual, settings) in _PROVIDERS.items():
        url = environment.get(f"{name}_BASE_URL", "").strip()
        if not (url or environment.get(f"{name}_API_KEY", "").strip()):
            continue
        if url and name == "ANTHROPIC" and not urlsplit(url).path.rstrip("/"):
            url = f"{url.rstrip('/')}/v1"  # its clients add the version themselves
        check_address(url or usual)
        parts = urlsplit(url)
        if parts.hostname in (host, *LOOPBACK) and parts.port == port:
            words = f"{name}_BASE_URL is the address of this gateway itself"
            raise SettingsError(words, fix=f"unset {name}_BASE_URL here, or set it to your provider's address")
        values = {"base_url": url or usual, "api_key_env": f"{name}_API_KEY", **settings}
        where = f"model.{name.lower()}" if found.policy else "policy"
        found = Found(
            "openai",
            (*found.assignments, *(f"{where}.{key}={value}" for key, value in values.items())),
            (f"{name.lower()}=openai",) if found.policy else (),
        )
    if not found.policy:
        raise SettingsError(
            "there is no model to serve: neither a provider in the environment, nor --model or --policy",
            fix="name your provider: export OPENAI_BASE_URL=https://api.openai.com/v1 (or ANTHROPIC_BASE_URL)\n"
            "       a model of your own: agentfw serve --model smollm2, or ORG/NAME, a folder, or a GGUF file",
        )
    return found


def check_address(url: str) -> None:
    """Refuse the address of a page that shows how it is done, and one that lacks its beginning."""
    if "://" not in url:
        raise SettingsError(f"{url} is no address: it doesn't begin with http://", fix=f"write http://{url}")
    try:
        parts = urlsplit(url)
        is_one = parts.hostname and parts.port != 0 and not _PLACEHOLDER.search(parts.hostname)
    except ValueError:
        is_one = False
    if not is_one:
        words = f"{url} is a placeholder, and no provider's address"
        raise SettingsError(words, fix="use the address of your provider, such as https://api.openai.com/v1")


async def look(policy: Policy, url: str, key_variable: str) -> str:
    """What there is at an address, in words."""
    try:
        async with asyncio.timeout(_DEADLINE):
            passed = await policy.forward(Request([]), Forwarded({}, "", "models", method="GET"))
            reply = json.loads(passed.content)
        rows = reply.get("data") or reply.get("models")
        names = [str(row.get("id") or row["name"]) for row in rows]
    except TimeoutError:
        return f"{url} hasn't answered within {_DEADLINE:g} s; requests are passed on all the same"
    except UpstreamError as error:
        if error.status == 401 and key_variable:
            return f"{url} refuses the key in {key_variable} (HTTP 401)"
        if error.content:
            return f"{url}, which lists no models (HTTP {error.status})"
        return f"{url} can't be reached; requests are refused until it can"
    except (AgentfwError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"{url}, which lists no models"
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{url}: {len(names)} model{'' if len(names) == 1 else 's'}" + (f" ({shown})" if names else "")
