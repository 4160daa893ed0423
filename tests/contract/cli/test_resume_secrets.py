"""A secret is on no disk, so resuming a run needs it again. What else a resumed run may change changes no result."""

from __future__ import annotations

from pathlib import Path

import click.termui
import pytest
from command_line import Agentfw, Install

SECRETIVE = """
from pathlib import Path
from typing import Annotated
from pydantic import SecretStr
from agentfw import Component, Memory, Settings, hookimpl
from agentfw.settings import OPERATIONAL

class VaultSettings(Settings):
    key: SecretStr
    address: Annotated[str, OPERATIONAL] = "here"
    limit: int = 3

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
    return [Component("my.vault", f"{__name__}:Vault", "", settings=f"{__name__}:VaultSettings")]
"""


@pytest.fixture
def interrupted(agentfw: Agentfw, install: Install) -> str:
    """A run that failed on the way and can be resumed."""
    install("agentfw-vault", "[agentfw]\nvault = agentfw_vault\n", SECRETIVE)
    words = ("guessing", "--policy", "hashing", "--memory", "my.vault", "--set", "memory.my.vault.key=s3cret")

    told = agentfw("run", *words).told(3)

    assert "s3cret" not in told
    Path("open").touch()
    return told.rpartition("runs resume ")[2].split()[0]


@pytest.mark.slow
@pytest.mark.parametrize("given", ["key=s3cret", "key.env=VAULT_KEY"])
def test_it_is_set_again_or_comes_from_a_variable(
    agentfw: Agentfw, interrupted: str, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("VAULT_KEY", "s3cret")

    assert "--set memory.my.vault.key=VALUE" in agentfw("runs", "resume", interrupted).told(2)
    assert agentfw("runs", "resume", interrupted, "--set", f"memory.my.vault.{given}").ok
    assert Path("used").read_text() == "s3cret"


@pytest.mark.slow
def test_a_person_at_a_terminal_is_asked(agentfw: Agentfw, interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(['sëcret "typed"'])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click.termui, "hidden_prompt_func", lambda prompt: next(typed))

    assert agentfw("runs", "resume", interrupted).ok
    assert Path("used").read_text() == 'sëcret "typed"'


@pytest.mark.slow
def test_an_address_may_change_and_a_limit_may_not(agentfw: Agentfw, interrupted: str) -> None:
    resume = ("runs", "resume", interrupted, "--set", "memory.my.vault.key=s3cret", "--set")

    other = agentfw(*resume, "memory.my.vault.limit=5").told(2)
    assert agentfw(*resume, "memory.my.vault.address=there", "--set", "deadline=60").ok

    changeable = other.partition("what can be changed: ")[2].strip().split(", ")
    assert {"deadline", "memory.my.vault.address"} <= set(changeable)
    assert not {"memory.my.vault.limit", "seed", "keep", "concurrency"} & set(changeable)
    settings = agentfw("runs", "show", "last", "--json").json["about"]["settings"]
    assert (settings["memory.my.vault"]["limit"], settings["memory.my.vault"]["address"]) == (3, "there")
