"""What `agentfw serve` begins with where nothing else is asked for, and what it says of itself at the start.

That is the provider that the environment names. It is asked once for its list of models, which costs nothing. One that
doesn't answer is still served: it may start later, or have no list.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agentfw import Policy, Request
from agentfw.errors import AgentfwError, MissingExtraError, SettingsError, UpstreamError
from agentfw.printing.out import counted, shown_path
from agentfw.request import Forwarded
from agentfw.runs import LiveRun

from ..memories import translated_errors
from ..models.checkpoint import version_name
from .handling import LOOPBACK
from .live import Limits, version_folder

_MEMORY = "skillgraph"
_FILE = "memory.db"
_DEADLINE = 5.0  # seconds for the question at the start
_SHOWN = 4
_PROVIDERS = {
    "OPENAI": ("https://api.openai.com/v1", {}),
    "ANTHROPIC": ("https://api.anthropic.com/v1", {"protocol": "messages", "api_key_header": "x-api-key"}),
}
_PLACEHOLDER = re.compile(
    r"[<>{}$]|\.\.\.|\byour\b|^my\b|\.(example|invalid|test)$|(^|\.)example\.(com|org|net)$", re.IGNORECASE
)


def with_defaults(
    given: Mapping[str, Any], runs: Path, host: str, port: int, *, shared: str, by_model: bool = False
) -> dict[str, Any]:
    """The options of a gateway, with the provider of the environment and the memory of the directory of runs.

    It will be at this host and port. Gateways that share sessions don't get a memory which only one would have. With
    `by_model`, the provider's model decides what the memory keeps of what users say.
    """
    given, assignments = {**given}, [*given["assignments"]]

    def sets(name: str) -> bool:
        return any(text.startswith(name) for text in assignments)

    if not (given["policy"] or given["model"] or given["spec"] or sets("policy")):
        found, models = _providers(host, port)
        given |= {"policy": "openai", "models": [*models, *given["models"]]}
        assignments[:0] = found
    if given["memories"] == ("none",):
        given["memories"] = ()
    elif not (given["memories"] or given["spec"] or shared) and all(map(find_spec, ("snowballstemmer", "igraph"))):
        given["memories"] = (_MEMORY,)
    place, ledger = f"memory.{_MEMORY}.path", "hook.budget.ledger"
    if _MEMORY in given["memories"] and not shared and not sets(place):
        assignments.append(f"{place}={runs.absolute() / _FILE}")
    if shared and f"{place}={shared}" in assignments:
        # The same database notes later what the memory has heard.
        assignments.insert(0, f"memory.{_MEMORY}.hearing_waits=false")
    if shared and not sets(ledger):
        assignments.append(f"{ledger}={shared}")
    if by_model:
        known = dict(text.partition("=")[::2] for text in assignments)
        url, protocol = known.get("policy.base_url", ""), known.get("policy.protocol", "chat")
        if _MEMORY not in given["memories"] or given["policy"] != "openai" or not url or protocol != "chat":
            raise SettingsError(
                "--remember model needs the memory skillgraph, and a provider with OpenAI's API",
                fix="set OPENAI_BASE_URL, or name a server: --memory skillgraph "
                "--set memory.skillgraph.writer_url=http://localhost:8000/v1",
            )
        writer = {"url": url, "model": known.get("policy.model", ""), "key_env": known.get("policy.api_key_env", "")}
        # In front, so that what the user sets counts.
        assignments[:0] = [f"memory.{_MEMORY}.writer_{name}={value}" for name, value in writer.items() if value]
    return {**given, "assignments": tuple(assignments)}


class Start(NamedTuple):
    live: LiveRun
    limits: Limits
    key_variable: str
    """Where the operator's key is, if there is one."""
    has_keys: bool

    async def providers(self) -> list[str]:
        """What there is at each provider, in words. Raises for an address that is none."""
        asking = []
        policies = [self.live.assembly.policy, *self.live.assembly.models.values()]
        for choice, policy in zip(self._choices, policies, strict=True):
            url = getattr(choice.checked, "base_url", "")
            if policy.forwards and url:
                check_address(url)
                variable = str(getattr(choice.checked, "api_key_env", ""))
                asking.append(look(policy, url, variable if os.environ.get(variable, "").strip() else ""))
        return await asyncio.gather(*asking)

    @property
    def policy(self) -> str:
        """What answers, in words: the policy, and the version of a training if it is one."""
        choice = self.live.assembly.spec.policy
        if (folder := version_folder(choice)) is None:
            return choice.name
        run = next((parent.name for parent in folder.parents if (parent / "run.json").is_file()), "")
        return f"{choice.name}, version {version_name(folder)}" + (f" of {run}" if run else "")

    def programs(self, url: str) -> Iterator[str]:
        protocols = {getattr(choice.checked, "protocol", "chat") for choice in self._choices}
        if protocols != {"messages"}:
            yield f"export OPENAI_BASE_URL={url}/v1"
        if "messages" in protocols:
            yield f"export ANTHROPIC_BASE_URL={url}"

    @property
    def _choices(self) -> list[Any]:
        return [self.live.assembly.spec.policy, *self.live.assembly.spec.models]

    def notes(self, remembered: str) -> Iterator[str]:
        if self.live.assembly.memories:
            yield f"memory: {remembered}"
            writers = [getattr(choice.checked, "writer_url", "") for choice in self.live.assembly.spec.memories]
            for url in filter(None, writers):
                yield f"what users say is written down by a model at {url}; its tokens are in `agentfw serve usage`"
            instead = f'; otherwise "{self.limits.default_user}"' if self.limits.default_user else ""
            yield f'users: user="ada" in a request, the header x-agentfw-user, or a user\'s key{instead}'
        elif not find_spec("snowballstemmer"):
            yield f"memory: none; for one: {MissingExtraError('the memory', 'memory').fix}"
        else:
            yield "memory: none"
        known = len(self.live.sessions) + len(self.live.ended)
        where = f"{counted(known, 'session')}, {shown_path(self.live.folder.path)}/"
        yield f"record: {where if self.live.keeps else 'what --sessions names'}"
        named = dict.fromkeys(str(getattr(choice.checked, "api_key_env", "")) for choice in self._choices)
        for variable in filter(None, named):
            if self.limits.upstream_key == "callers":
                yield f"the key for {variable}: the program's, whose key of the gateway is in x-agentfw-key"
            elif os.environ.get(variable, "").strip():
                yield f"the provider's key: {variable}"
            elif self.limits.upstream_key == "either":
                yield f"{variable} is not set: the program's key is passed on, and never recorded"
            else:
                yield f"{variable} is not set, and no key is passed on: set it, or add --upstream-key client"
        if self.has_keys:
            of_users = str(self.limits.key_file or "those of --sessions")
            yield f"keys of the gateway: {' and '.join(filter(None, (self.key_variable, of_users)))}"
        else:
            yield "keys of the gateway: none, so whoever can log in on this machine can read and lead all sessions"

    def remembered(self) -> str:
        choice = next((each for each in self.live.assembly.spec.memories if each.name == _MEMORY), None)
        path = getattr(choice and choice.checked, "path", "")
        if choice is None or not path:
            return ", ".join(each.name for each in self.live.assembly.spec.memories)
        if not Path(path).is_file():
            return f"nothing yet, {shown_path(Path(path))}"
        from agentfw_memory import SkillGraph

        with translated_errors(), SkillGraph.open(path, tenant=getattr(choice.checked, "tenant", "")) as graph:
            items, users = graph.admin.stats().nodes.get("skill", 0), len(graph.admin.owners())
        return f"{counted(users, 'user')}, {counted(items, 'item')}, {shown_path(Path(path))}"


def _providers(host: str, port: int) -> tuple[list[str], list[str]]:
    """The assignments, and the models besides that of the policy, for the providers that the environment names."""
    assignments, models = list[str](), list[str]()
    for name, (usual, settings) in _PROVIDERS.items():
        url = os.environ.get(f"{name}_BASE_URL", "").strip()
        if not (url or os.environ.get(f"{name}_API_KEY", "").strip()):
            continue
        if url and name == "ANTHROPIC" and not urlsplit(url).path.rstrip("/"):
            url = f"{url.rstrip('/')}/v1"  # its clients add the version themselves
        check_address(url or usual)
        parts = urlsplit(url)
        if parts.hostname in (host, *LOOPBACK) and parts.port == port:
            words = f"{name}_BASE_URL is the address of this gateway itself"
            raise SettingsError(words, fix=f"unset {name}_BASE_URL here, or set it to your provider's address")
        values = {"base_url": url or usual, "api_key_env": f"{name}_API_KEY", **settings}
        where = f"model.{name.lower()}" if assignments else "policy"
        models += [f"{name.lower()}=openai"] if assignments else []
        assignments += [f"{where}.{key}={value}" for key, value in values.items()]
    if not assignments:
        raise SettingsError(
            "there is no model to serve: neither a provider in the environment, nor --model or --policy",
            fix="name your provider: export OPENAI_BASE_URL=https://api.openai.com/v1 (or ANTHROPIC_BASE_URL)\n"
            "       a model of your own: agentfw serve --model smollm2, or ORG/NAME, a folder, or a GGUF file",
        )
    return assignments, models


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
        names = [str(row.get("id") or row["name"]) for row in reply.get("data") or reply.get("models")]
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
