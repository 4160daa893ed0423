"""What an error says to install: an extra from where agentfw came from, or a plugin that another plugin knows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentfw.errors
import agentfw_memory
import agentfw_rewardmodels
from agentfw.errors import UnknownNameError
from agentfw.host import Host

MakePlugin = Callable[..., str]
ELSEWHERE = (
    "install agentfw-tea from where agentfw-shop came from, or say where that is: plugins.package_index in agentfw.toml"
)
"""The fix where only a name is known: pip would take whatever has that name in the public index."""
ERRORS: list[Callable[[str, str], Any]] = [
    agentfw.errors.MissingExtraError,
    agentfw_memory.MissingExtraError,
    agentfw_rewardmodels.MissingExtraError,
]


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Installs a distribution agentfw of its own, with a direct_url.json of this content."""

    def install(content: object) -> None:
        about = tmp_path / "site" / "agentfw-9.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: agentfw\nVersion: 9\n")
        if content is not None:
            (about / "direct_url.json").write_text(content if isinstance(content, str) else json.dumps(content))
        monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])

    return install


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("options", "flag"), [({}, ""), ({"editable": True}, "-e ")])
def test_a_checkout_is_named(
    error: Callable[[str, str], Any], options: Any, flag: str, origin: Callable[[object], None], tmp_path: Path
) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    origin({"url": checkout.as_uri(), "dir_info": options})

    assert error("the gateway", "web").fix == f'pip install {flag}"{checkout}[web]"'


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "content",
    [None, "", "no json", [], {"url": 3}, {"url": "https://shop.example/agentfw.whl", "archive_info": {}}],
)
def test_anything_else_comes_from_an_index(
    error: Callable[[str, str], Any], content: object, origin: Callable[[object], None]
) -> None:
    origin(content)

    assert error("the gateway", "web").fix == 'pip install "agentfw[web]"'


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
