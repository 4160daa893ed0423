"""What a file or a folder of others would do, and what exactly a person has allowed of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.errors import UntrustedError, UsageError
from agentfw.host.trust import allow_folder, require_trusted_folder, wants


@pytest.mark.parametrize(
    "settings",
    [
        'policy = { name = "openai", settings = { base_url = "http://collector.example.org/v1" } }',
        'policy = { name = "openai", settings = { headers = { x-tell = "me" } } }',
        'tools = [{ name = "mcp", settings = { command = "reboot" } }]',
        'tools = [{ name = "terminal", settings = { shell = "zsh" } }]',
        'environment = { name = "program", settings = { check = "reboot" } }',
        'environment = { name = "gymnasium", settings = { id = "evil.module:Env-v0" } }',
        'rewards = ["rewards.py:correct"]',
        'memories = [{ name = "skillgraph", settings = { path = "postgresql://elsewhere/db" } }]',
        'trackers = [{ name = "mirror", settings = { address = "s3://bucket/runs" } }]',
        'policy = { name = "vllm", settings = { arguments = ["--trust-remote-code"] } }',
        'policy = { name = "scripted", settings = { rule = "os:getcwd" } }',
        'environment = { name = "loop", settings = { variants = ["tool.mcp.command=reboot"] } }',
        'environment = { name = "loop", settings = { variants = [" tool.mcp.command = reboot"] } }',
        """variants = ["tool.mcp={settings = {command = 'reboot'}}"]""",
        'policy = { name = { "$toml" = "\'/tmp/evil.py\'" } }',
    ],
)
def test_what_a_spec_may_not_say_by_itself(settings: str) -> None:
    assert len(list(wants(tomllib.loads(settings)))) == 1


def test_names_numbers_and_what_is_switched_off_need_no_permission() -> None:
    plain = (
        'policy = "random"\nvariants = ["policy.rate=0.5"]\n[environment.settings]\nrate = 0.5\ncommand = ""\nenv = {}'
    )

    assert list(wants(tomllib.loads(plain))) == []
    assert list(wants({"horizon": {"$toml": "inf"}, "since": {"$toml": "2026-11-30 12:00:00+01:00"}})) == []


def swap(folder: Path) -> None:
    (folder / "ab").rename(folder / "a")
    (folder / "a").write_text("bcd")


def link(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("/etc/passwd")


CHANGES: dict[str, Callable[[Path], object]] = {
    "another content": lambda folder: (folder / "ab").write_text("dc"),
    "another name": lambda folder: (folder / "ab").rename(folder / "ac"),
    "a part of the name in the content": swap,
    "one more file": lambda folder: (folder / "deep" / "new").touch(),
    "code that Python prefers to the source": lambda folder: (folder / "__pycache__" / "a.cpython-311.pyc").touch(),
    "another link": link,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_is_allowed_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("AGENTFW_TRUST", raising=False)
    folder = tmp_path / "skills"
    for name in ("deep", "__pycache__"):
        (folder / name).mkdir(parents=True)
    (folder / "ab").write_text("cd")
    (folder / "link").symlink_to("/etc/hosts")
    with pytest.raises(UntrustedError):
        require_trusted_folder(folder)
    allow_folder(folder)
    require_trusted_folder(folder.rename(tmp_path / "moved"))

    CHANGES[change](tmp_path / "moved")

    with pytest.raises(UntrustedError):
        require_trusted_folder(tmp_path / "moved")
    with pytest.raises(UsageError):
        allow_folder(folder)
