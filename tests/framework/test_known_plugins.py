"""Plugins that name distributions which aren't installed: an error about a missing name says what to install."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.errors import UnknownNameError
from agentfw.host import Host

MakePlugin = Callable[..., str]
ELSEWHERE = (
    "install agentfw-tea from where agentfw-shop came from, or say where that is: plugins.package_index in agentfw.toml"
)
"""The fix where only a name is known: pip would take whatever has that name in the public index."""


def knowing(distribution: str, folder: str = "") -> str:
    offers = "{'environment': ('teahouse',), 'command': ('brew',)}"
    known = f"KnownPlugin({distribution!r}, {offers}, {folder!r})"
    return f"from agentfw.hookspecs import KnownPlugin\n@hookimpl\ndef agentfw_known_plugins(): return [{known}]\n"


def missing(name: str) -> UnknownNameError:
    with pytest.raises(UnknownNameError) as caught:
        Host.load().find("environment", name)
    return caught.value


def test_a_missing_environment_names_the_distribution_that_has_it(make_plugin: MakePlugin) -> None:
    make_plugin("agentfw-shop", knowing("agentfw-tea"))

    error = missing("teahouse")

    assert error.message == 'no environment is called "teahouse"; agentfw-tea has it and isn\'t installed'
    assert error.fix == ELSEWHERE


def test_it_is_installed_from_the_sources_that_are_there(make_plugin: MakePlugin, site: Path, tmp_path: Path) -> None:
    make_plugin("agentfw-shop", knowing("agentfw-tea", "plugins/tea"))
    source = tmp_path / "my shop"
    (source / "plugins" / "tea").mkdir(parents=True)
    (source / "plugins" / "tea" / "pyproject.toml").touch()
    origin = site / "agentfw_shop-1.0.0.dist-info" / "direct_url.json"
    origin.write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))

    assert missing("teahouse").fix == f"pip install '{source / 'plugins' / 'tea'}'"

    (source / "plugins" / "tea" / "pyproject.toml").unlink()
    assert missing("teahouse").fix == ELSEWHERE


def test_what_is_installed_is_not_suggested(make_plugin: MakePlugin) -> None:
    make_plugin("agentfw-shop", knowing("agentfw-tea"))
    make_plugin("agentfw-tea", "")

    assert "isn't installed" not in missing("teahouse").message


def test_a_command_is_suggested_where_a_command_is_missing(make_plugin: MakePlugin) -> None:
    make_plugin("agentfw-shop", knowing("agentfw-tea"))
    host = Host.load()

    assert host.installable("brew", command=True) == ("agentfw-tea", ELSEWHERE)
    assert host.installable("teahouse", command=True) is None
    assert missing("brew").message == 'no environment is called "brew"'
