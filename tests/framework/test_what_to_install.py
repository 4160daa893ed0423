"""What an error says to install: an extra from where agentfw came from, or a plugin that another plugin knows."""

from __future__ import annotations

import json
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


@pytest.fixture(params=[agentfw.errors, agentfw_memory, agentfw_rewardmodels], ids=lambda module: module.__name__)
def fix(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], str]:
    """The fix of each library's error where agentfw is installed with a direct_url.json of this content."""

    def found(content: str | None) -> str:
        about = tmp_path / "site" / "agentfw-9.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: agentfw\nVersion: 9\n")
        if content is not None:
            (about / "direct_url.json").write_text(content)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        error: agentfw.errors.MissingExtraError = request.param.MissingExtraError("the gateway", "web")
        return error.fix

    return found


@pytest.mark.parametrize(("options", "flag"), [({}, ""), ({"editable": True}, "-e ")])
def test_a_checkout_is_named(fix: Callable[[str], str], options: Any, flag: str, tmp_path: Path) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()

    assert fix(json.dumps({"url": checkout.as_uri(), "dir_info": options})) == f'pip install {flag}"{checkout}[web]"'


@pytest.mark.parametrize(
    "content", [None, "no json", "[]", '{"url": 3}', '{"url": "https://shop.example/a.whl", "archive_info": {}}']
)
def test_anything_else_comes_from_an_index(fix: Callable[[str | None], str], content: str | None) -> None:
    assert fix(content) == 'pip install "agentfw[web]"'


def knowing(distribution: str, folder: str = "") -> str:
    offers = "{'environment': ('teahouse',), 'command': ('brew',)}"
    known = f"KnownPlugin({distribution!r}, {offers}, {folder!r})"
    return f"from agentfw.hookspecs import KnownPlugin\n@hookimpl\ndef agentfw_known_plugins(): return [{known}]\n"


def missing(name: str) -> UnknownNameError:
    with pytest.raises(UnknownNameError) as caught:
        Host.load().find("environment", name)
    return caught.value


def test_a_missing_name_names_the_distribution_that_has_it_unless_that_is_installed(make_plugin: MakePlugin) -> None:
    make_plugin("agentfw-shop", knowing("agentfw-tea"))

    error, host = missing("teahouse"), Host.load()

    assert error.message == 'no environment is called "teahouse"; agentfw-tea has it and isn\'t installed'
    assert error.fix == ELSEWHERE
    assert host.installable("brew", command=True) == ("agentfw-tea", ELSEWHERE)
    assert host.installable("teahouse", command=True) is None
    assert missing("brew").message == 'no environment is called "brew"'
    make_plugin("agentfw-tea", "")
    assert "isn't installed" not in missing("teahouse").message


def test_it_is_installed_from_the_sources_that_are_there(make_plugin: MakePlugin, site: Path, tmp_path: Path) -> None:
    make_plugin("agentfw-shop", knowing("agentfw-tea", "plugins/tea"))
    tea = tmp_path / "my shop" / "plugins" / "tea"
    tea.mkdir(parents=True)
    (tea / "pyproject.toml").touch()
    origin = {"url": (tmp_path / "my shop").as_uri(), "dir_info": {"editable": True}}
    (site / "agentfw_shop-1.0.0.dist-info" / "direct_url.json").write_text(json.dumps(origin))

    assert missing("teahouse").fix == f"pip install '{tea}'"

    (tea / "pyproject.toml").unlink()
    assert missing("teahouse").fix == ELSEWHERE
