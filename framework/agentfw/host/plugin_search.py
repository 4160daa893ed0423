"""Searches plugins: those that are installed, those that they know of, and those of a team's own list. No server.

A team's list is a file or a URL that an agentfw.toml names, in JSON or TOML:

    [[plugins]]
    name = "agentfw-tea"
    summary = "A teahouse with impatient guests"
    components = { environment = ["tea"], reward = ["tea-promptness"] }
    install = "pip install agentfw-tea --index-url https://packages.example.org/simple"

    for found in search(host, ["tea"]):
        print(found.name, found.install)
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from ..boundary.metadata import normalise, version_of
from ..boundary.settings_input import validate
from ..component import KINDS
from ..errors import EndpointError, SettingsError
from ..settings import Settings
from .names import pip_install

if TYPE_CHECKING:
    from .host import Host

_LARGEST = 5_000_000
_PATIENCE = 10.0
"""Seconds that the server of a list may take to answer."""


class FoundPlugin(NamedTuple):
    """A distribution, installed or not."""

    name: str
    version: str
    """The one that is installed. Empty if none is."""
    summary: str
    components: Mapping[str, Sequence[str]]
    """Names by what they are: a kind of component, or spec, or command."""
    install: str
    """The command that installs it. Empty if it is installed."""
    source: str
    """Who says so: the installed distribution itself, another one, or the list."""

    def matches(self, words: Sequence[str]) -> bool:
        """Whether each of the words is in its name, its summary or the names and kinds of its components."""
        offered = (name for kind, names in self.components.items() for name in (kind, *names))
        text = " ".join((self.name, self.summary, *offered)).lower()
        return all(word.lower() in text for word in words)


class ListedPlugin(Settings):
    """One plugin of a team's list."""

    name: str = Field(min_length=1, description="Name of the distribution")
    summary: str = Field("", description="What it is, in a sentence")
    components: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description='Names of what it offers, by kind: `{ environment = ["tea"] }`'
    )
    install: str = Field("", description="Command that installs it. Default: `pip install NAME`")


class PluginList(Settings):
    """A team's list."""

    plugins: tuple[ListedPlugin, ...] = Field(description="The plugins")


def search(host: Host, words: Sequence[str]) -> list[FoundPlugin]:
    """The plugins that match all words, sorted by name. Raises if the project has a list that can't be read."""
    place = next((file.plugin_list for file in host.layers if file.plugin_list), "")
    if place and host.options.project is not None:
        host.options.project.require_trusted()
    listed = _listed(place, host.package_index) if place else []
    # Of one distribution, what is installed says most, and the team's own list knows best how to install it.
    found: dict[str, FoundPlugin] = {}
    for one in [*_installed(host), *listed, *_known(host)]:
        found.setdefault(normalise(one.name), one)
    return sorted((one for one in found.values() if one.matches(words)), key=lambda one: normalise(one.name))


def _installed(host: Host) -> Iterable[FoundPlugin]:
    offered: dict[str, dict[str, list[str]]] = {}
    summaries: dict[str, list[str]] = {}
    for each in host.components():
        if not each.record.file:
            name = each.record.distribution
            offered.setdefault(name, {}).setdefault(each.kind, []).append(each.component.name)
            summaries.setdefault(name, []).append(each.component.summary)
    for record in host.plugins:
        if not record.file:
            offered.setdefault(record.distribution, {})
    for name, components in offered.items():
        version = version_of(name)
        summary = _summary(name) or "; ".join(summaries.get(name, ()))
        yield FoundPlugin(name, version, summary, components, "", f"installed, {name} {version}")


def _summary(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        return str(metadata(distribution).json.get("summary", ""))
    except (PackageNotFoundError, ValueError):  # ValueError: METADATA that isn't UTF-8
        return ""


def _known(host: Host) -> Iterable[FoundPlugin]:
    for known, record in host.known_plugins():
        install = host.installation(known, record.distribution)
        yield FoundPlugin(known.name, "", "", known.offers, install, record.distribution)


def _listed(place: str, index: str) -> Iterable[FoundPlugin]:
    checked = validate(PluginList, _parsed(place, _read(place)), place)
    assert isinstance(checked, PluginList)
    for one in checked.plugins:
        if unknown := sorted(one.components.keys() - {*KINDS, "spec", "command"}):
            kinds = ", ".join([*KINDS, "spec", "command"])
            raise SettingsError(
                f"{place}: {one.name} has components of the kind {unknown[0]}", fix=f"use one of {kinds}"
            )
        version = version_of(one.name)
        install = "" if version else one.install or pip_install(one.name, index)
        yield FoundPlugin(one.name, version, one.summary, one.components, install, place)


def _read(place: str) -> str:
    fix = "correct plugins.index in agentfw.toml"
    if not place.startswith(("http://", "https://")):
        try:
            return Path(place).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8 text"
            raise SettingsError(f"the list of plugins {place} can't be read: {reason}", fix=fix) from error
    import httpx

    try:
        with httpx.stream("GET", place, timeout=_PATIENCE, follow_redirects=True) as answer:
            answer.raise_for_status()
            content = b""
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > _LARGEST:
                    raise SettingsError(f"the list of plugins {place} has more than {_LARGEST:,} bytes", fix=fix)
        return content.decode("utf-8")
    except httpx.HTTPStatusError as error:
        code, reason = error.response.status_code, error.response.reason_phrase
        raise EndpointError(f"the list of plugins {place} can't be read: {code} {reason}", fix=fix) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise EndpointError(
            f"the list of plugins {place} can't be reached: {reason}", fix=f"try again later, or {fix}"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"the list of plugins {place} isn't UTF-8 text", fix=fix) from error


def _parsed(place: str, text: str) -> Mapping[str, Any]:
    """The list, which is JSON where its first character says so. A JSON array is a list of plugins, too."""
    is_json = text.lstrip()[:1] in ("{", "[") and not text.lstrip().startswith("[[")
    try:
        found = json.loads(text) if is_json else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        kind = "JSON" if is_json else "TOML"
        raise SettingsError(f"the list of plugins {place} isn't valid {kind}: {error}", fix="fix that line") from error
    return {"plugins": found} if isinstance(found, list) else found
