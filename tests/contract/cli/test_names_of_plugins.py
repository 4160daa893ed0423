"""Two plugins that offer one name: what agentfw itself offers wins, and a qualified name selects either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

Install = Callable[..., None]

ACME = """
import click
from pathlib import Path
from agentfw import Component, Generation, Policy, RewardModel, Score, hookimpl
from agentfw.hookspecs import NamedSpec

SPEC = Path(__file__).with_suffix(".toml")
SPEC.write_text('environment = "inbox"\\npolicy = "random"\\nepisodes = 2\\nseed = 11\\n')

class Silent(Policy):
    is_program = True
    async def generate(self, request): return Generation("", version="acme")
class Utility(RewardModel):
    async def score(self, group): return [Score(each.id, "utility", 7.0) for each in group]

@hookimpl
def agentfw_policies(): return [Component("scripted", f"{__name__}:Silent", "Says nothing")]
@hookimpl
def agentfw_reward_models(): return [Component("utility", f"{__name__}:Utility", "Always 7")]
@hookimpl
def agentfw_specs(): return [NamedSpec("any", str(SPEC), "Ours")]

@click.command()
def brew(): print("brewed")
"""
ENTRY_POINTS = "[agentfw]\nacme = agentfw_acme\n[agentfw.commands]\n{}"


@pytest.fixture
def acme(install: Install) -> None:
    install("agentfw-acme", ENTRY_POINTS.format("chat = agentfw_acme:brew\nrun = agentfw_acme:brew\n"), ACME)


@pytest.mark.usefixtures("acme")
def test_a_plugin_with_the_name_of_a_built_in_changes_nothing_but_a_warning(agentfw: Agentfw) -> None:
    answer = agentfw("run", "guessing", "--policy", "scripted", "--episodes", "2", "--json")

    assert answer.code == 2, "the built-in, which needs a demonstration"
    assert "no demonstration for the scripted policy" in answer.err
    assert 'policy "scripted" is built in, and agentfw-acme 1.0.0 offers one, too' in answer.err
    assert "agentfw-acme:scripted" in answer.err
    assert 'spec "any" is built in' in answer.err


@pytest.mark.usefixtures("acme")
def test_a_qualified_name_selects_and_shows_the_other_component(agentfw: Agentfw) -> None:
    answer = agentfw(
        "run", "inbox", "--policy", "agentfw-acme:scripted", "--reward", "Agentfw_Acme:utility",
        "--episodes", "2", "--json",
    )  # fmt: skip

    assert answer.code == 0, answer.err
    assert answer.json["figures"]["reward"]["mean"] == 7.0
    (folder,) = Path("runs").iterdir()
    assert '"agentfw-acme==1.0.0"' in (folder / "run.json").read_text()
    assert "Says nothing" in agentfw("plugins", "show", "agentfw-acme:scripted").out


@pytest.mark.usefixtures("acme")
def test_a_qualified_name_selects_a_spec(agentfw: Agentfw) -> None:
    assert agentfw("run", "agentfw-acme:any", "--json").code == 0

    (folder,) = Path("runs").iterdir()
    assert '"seed": 11' in (folder / "run.json").read_text()


@pytest.mark.usefixtures("acme")
def test_a_command_with_the_name_of_a_built_in_is_there_by_its_qualified_name(agentfw: Agentfw) -> None:
    listed, own, other = agentfw("--help"), agentfw("chat", "--help"), agentfw("agentfw-acme:chat")

    assert "agentfw-acme:chat" in listed.out
    assert "agentfw-acme:run" in listed.out
    assert own.code == 0
    assert "Usage: agentfw chat" in own.out
    assert 'the command "chat" is built in, and agentfw-acme 1.0.0 offers one, too' in own.err
    assert other.out == "brewed\n"
    assert agentfw("agentfw-acme:run").out == "brewed\n"
    assert "uninstall agentfw" not in listed.err + own.err + other.err


def test_a_command_that_two_plugins_offer_is_an_error_that_names_both(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-acme", ENTRY_POINTS.format("brew = agentfw_acme:brew\n"), ACME)
    install("agentfw-bean", "[agentfw.commands]\nbrew = agentfw_bean:brew\n", "from agentfw_acme import brew\n")

    answer = agentfw("brew")

    assert answer.code == 3
    assert 'the command "brew" is offered twice: by agentfw-acme 1.0.0 and agentfw-bean 1.0.0' in answer.err
    assert "agentfw agentfw-acme:brew" in answer.err
    assert agentfw("agentfw-bean:brew").out == "brewed\n"
