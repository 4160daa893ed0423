"""What `agentfw serve` begins with where nothing else is asked for, and what it says of itself at the start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from agentfw.errors import MissingExtraError, SettingsError
from agentfw.printing.out import counted, shown_path
from agentfw.runs import LiveRun

from ..memories import translated_errors
from ..models.checkpoint import version_name
from .answering import version_folder
from .live import Limits
from .provider import check_address, look, providers

_MEMORY = "skillgraph"
_FILE = "memory.db"


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
        found = providers(os.environ, host, port)
        given |= {"policy": found.policy, "models": [*found.models, *given["models"]]}
        assignments = [*found.assignments, *assignments]
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
        folder = version_folder(choice)
        if folder is None:
            return choice.name
        run = next((parent.name for parent in folder.parents if (parent / "run.json").is_file()), "")
        return f"{choice.name}, version {version_name(folder)}" + (f" of {run}" if run else "")

    def programs(self, url: str) -> Iterator[str]:
        """What a program has to be told."""
        protocols = {getattr(choice.checked, "protocol", "chat") for choice in self._choices}
        if protocols != {"messages"}:
            yield f"export OPENAI_BASE_URL={url}/v1"
        if "messages" in protocols:
            yield f"export ANTHROPIC_BASE_URL={url}"

    @property
    def _choices(self) -> list[Any]:
        return [self.live.assembly.spec.policy, *self.live.assembly.spec.models]

    def notes(self, remembered: str) -> Iterator[str]:
        """What whoever starts it has to know."""
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
        """How much is remembered, in words."""
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
