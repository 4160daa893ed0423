"""A secret is on no disk, so resuming a run needs it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click.termui
import pytest
from command_line import Agentfw

SECRETIVE = """
from pathlib import Path
from pydantic import SecretStr
from agentfw import Component, Memory, Settings, hookimpl

class VaultSettings(Settings):
    key: SecretStr

class Vault(Memory):
    def __init__(self, settings):
        self.key = settings.key.get_secret_value()

    async def recall(self, query):
        if not Path("open").exists():
            raise OSError("the vault is shut")
        Path("used").write_text(self.key)
        return []

@hookimpl
def agentfw_memories():
    return [Component("vault", f"{__name__}:Vault", "", settings=f"{__name__}:VaultSettings")]
"""


@pytest.fixture
def interrupted(agentfw: Agentfw, install: Callable[..., None]) -> str:
    """A run that failed on the way and can be resumed."""
    install("agentfw-vault", "[agentfw]\nvault = agentfw_vault\n", SECRETIVE)
    words = ("guessing", "--policy", "hashing", "--memory", "vault", "--set", "memory.vault.key=s3cret")

    answer = agentfw("run", *words)

    assert answer.code == 3
    assert "s3cret" not in answer.err
    Path("open").touch()
    return answer.err.rpartition("runs resume ")[2].split()[0]


@pytest.mark.slow
def test_it_is_set_again(agentfw: Agentfw, interrupted: str) -> None:
    refused = agentfw("runs", "resume", interrupted)
    answer = agentfw("runs", "resume", interrupted, "--set", "memory.vault.key=s3cret")

    assert refused.code == 2
    assert "--set memory.vault.key=VALUE" in refused.err
    assert answer.code == 0
    assert Path("used").read_text() == "s3cret"


@pytest.mark.slow
def test_it_comes_from_a_variable(agentfw: Agentfw, interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_KEY", "from outside")

    answer = agentfw("runs", "resume", interrupted, "--set", "memory.vault.key.env=VAULT_KEY")

    assert answer.code == 0
    assert Path("used").read_text() == "from outside"


@pytest.mark.slow
def test_a_person_at_a_terminal_is_asked(agentfw: Agentfw, interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(['sëcret "typed"'])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click.termui, "hidden_prompt_func", lambda prompt: next(typed))

    answer = agentfw("runs", "resume", interrupted)

    assert answer.code == 0
    assert Path("used").read_text() == 'sëcret "typed"'
