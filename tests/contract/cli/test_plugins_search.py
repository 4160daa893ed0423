"""`agentfw plugins search` finds plugins that are installed, known, or in a team's list."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from command_line import Agentfw

Install = Callable[..., None]
TOML = """
[[plugins]]
name = "agentfw-teahouse"
summary = "Impatient guests"
components = { environment = ["tea"], reward = ["promptness"] }
install = "pip install agentfw-teahouse --index-url https://packages.example.org/simple"

[[plugins]]
name = "agentfw-laboratory"
summary = "The one that is installed"
"""


def _list(folder: Path, content: str, name: str = "plugins.toml") -> None:
    (folder / name).write_text(content, "utf-8")
    (folder / "agentfw.toml").write_text(f'[plugins]\nindex = "{name}"\n', "utf-8")


@contextmanager
def _served(content: bytes, status: int = 200) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/plugins.json"
        server.shutdown()


def test_what_is_installed_is_found_by_its_components(agentfw: Agentfw) -> None:
    found = agentfw("plugins", "search", "guessing", "environment", "--json").json

    assert [each["name"] for each in found] == ["agentfw-laboratory"]
    assert found[0]["version"] == "1.0.0"
    assert "guessing" in found[0]["components"]["environment"]
    assert found[0]["install"] == ""


def test_a_teams_list_says_how_to_install(agentfw: Agentfw, tmp_path: Path) -> None:
    _list(tmp_path, TOML)

    answer = agentfw("plugins", "search", "TEA", "guests")

    assert answer.out.splitlines() == [
        "agentfw-teahouse   not installed   Impatient guests",
        "  environment: tea",
        "  reward: promptness",
        "  pip install agentfw-teahouse --index-url https://packages.example.org/simple",
    ]


def test_what_is_installed_is_found_once(agentfw: Agentfw, tmp_path: Path) -> None:
    _list(tmp_path, TOML)

    found = agentfw("plugins", "search", "laboratory", "--json").json

    assert [(each["version"], each["source"]) for each in found] == [("1.0.0", "installed, agentfw-laboratory 1.0.0")]


def test_all_words_must_occur(agentfw: Agentfw, tmp_path: Path) -> None:
    _list(tmp_path, TOML)

    answer = agentfw("plugins", "search", "tea", "zeppelin")

    assert (answer.code, answer.out) == (0, "")
    assert "no plugin has tea and zeppelin in its name" in answer.err


def test_plugins_that_others_know_are_found(agentfw: Agentfw, install: Install) -> None:
    code = (
        "from agentfw import hookimpl\nfrom agentfw.hookspecs import KnownPlugin\n\n"
        "@hookimpl\ndef agentfw_known_plugins():\n    return [KnownPlugin('agentfw-far', {'memory': ('faraway',)})]\n"
    )
    install("agentfw-shop", "[agentfw]\nshop = agentfw_shop\n", code)

    found = agentfw("plugins", "search", "faraway", "--json").json

    assert [(each["name"], each["source"]) for each in found] == [("agentfw-far", "agentfw-shop")]
    assert found[0]["install"].startswith("install agentfw-far from where agentfw-shop came from")


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_list_may_be_json_at_a_url(agentfw: Agentfw, tmp_path: Path, wrapped: bool) -> None:
    plugins = [{"name": "agentfw-oolong", "components": {"tool": ["steep"]}}]

    with _served(json.dumps({"plugins": plugins} if wrapped else plugins).encode()) as url:
        (tmp_path / "agentfw.toml").write_text(f'[plugins]\nindex = "{url}"\n')
        found = agentfw("plugins", "search", "steep", "--json").json

    assert [(each["install"], each["source"]) for each in found] == [("pip install agentfw-oolong", url)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[[plugins]\n", "isn't valid TOML"),
        ("{", "isn't valid JSON"),
        ("", "plugins: is required"),
        ("[[plugins]]\nsummary = 'nameless'\n", "plugins.0.name: is required"),
        ("[[plugins]]\nname = 'a'\nsumary = ''\n", 'did you mean "summary"?'),
        ("[[plugins]]\nname = 'a'\ncomponents = { teapot = ['b'] }\n", "components of the kind teapot"),
        ("[[plugins]]\nname = 'a'\ncomponents = 3\n", "must be a table"),
    ],
)
def test_a_broken_list_says_what_is_wrong(agentfw: Agentfw, tmp_path: Path, content: str, said: str) -> None:
    _list(tmp_path, content)

    answer = agentfw("plugins", "search", "tea")

    assert answer.code == 2
    assert said in answer.err
    assert "plugins.toml" in answer.err


def test_a_list_that_is_not_there_is_named(agentfw: Agentfw, tmp_path: Path) -> None:
    (tmp_path / "agentfw.toml").write_text('[plugins]\nindex = "gone.toml"\n')

    answer = agentfw("plugins", "search", "tea")

    assert answer.code == 2
    assert "gone.toml can't be read: No such file or directory" in answer.err
    assert "fix: correct plugins.index in agentfw.toml" in answer.err


def test_a_list_that_cannot_be_reached_is_named(agentfw: Agentfw, tmp_path: Path) -> None:
    with _served(b"", 404) as url:
        (tmp_path / "agentfw.toml").write_text(f'[plugins]\nindex = "{url}"\n')
        refused = agentfw("plugins", "search", "tea")
    silent = agentfw("plugins", "search", "tea")

    assert (refused.code, silent.code) == (1, 1)
    assert f"{url} can't be read: 404 Not Found" in refused.err
    assert f"{url} can't be reached" in silent.err


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" + b" " * 5_000_001])
def test_a_list_that_is_none_is_refused(agentfw: Agentfw, tmp_path: Path, content: bytes) -> None:
    with _served(content) as url:
        (tmp_path / "agentfw.toml").write_text(f'[plugins]\nindex = "{url}"\n')
        answer = agentfw("plugins", "search", "tea")

    assert answer.code == 2
    assert url in answer.err


def test_an_index_that_is_no_text_is_an_error_of_the_project(agentfw: Agentfw, tmp_path: Path) -> None:
    (tmp_path / "agentfw.toml").write_text("[plugins]\nindex = 3\n")

    answer = agentfw("plugins", "search", "tea")

    assert answer.code == 2
    assert "plugins.index: must be a path or a URL in quotes (got 3)" in answer.err


def test_doctor_shows_the_list(agentfw: Agentfw, tmp_path: Path) -> None:
    _list(tmp_path, TOML)

    assert str(tmp_path / "plugins.toml") in agentfw("doctor").out
