"""An error about a missing extra says what to install, from where agentfw was installed."""

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
