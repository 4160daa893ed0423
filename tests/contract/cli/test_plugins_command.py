"""`agentfw plugins` lists hooks and checks whole distributions; runs pin and name their plugins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw, Install

from agentfw import __version__

WATCH = "from agentfw import hookimpl\n\n@hookimpl\ndef agentfw_episode_done(episode): pass\n"
DICE = """
from agentfw import Component, Memory, hookimpl

class Nothing(Memory):
    async def recall(self, query):
        return []

@hookimpl
def agentfw_memories():
    return [Component("none", f"{__name__}:Nothing", ""), Component("nil", f"{__name__}:Nothing", "")]
"""


def test_a_pinned_plugin_must_have_that_version(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    assert agentfw(*quick, "--plugin", "agentfw-laboratory==1.0.0").ok
    differs = agentfw(*quick, "--plugin", "agentfw-laboratory==2.0")
    assert 'pip install "agentfw-laboratory==2.0"' in differs.told(3)


def test_all_components_of_a_plugin_are_checked_together(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-dice", "[agentfw]\nnil = agentfw_dice\n", DICE)

    for name in ("agentfw-dice", "nil"):  # the plugin has the name of one of its components
        rows = agentfw("plugins", "check", name, "--json").ok.json
        assert {row["component"] for row in rows} == {"none", "nil"}


def test_what_cannot_be_checked_is_no_fault_of_a_component(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-watch", "[agentfw]\nwatch = agentfw_watch\n", WATCH)

    nothing = agentfw("plugins", "check", "agentfw-watch")
    wrong = agentfw("plugins", "check", "environment:guessing", "--set", "foo=1")

    assert "plugins list --hooks" in nothing.told(2)
    assert "foo: no such key" in wrong.told(2)


def test_what_took_part_in_a_run_is_recorded_and_what_differs_is_told(
    agentfw: Agentfw, install: Install, quick: tuple[str, ...], later: Callable[[], None]
) -> None:
    install("agentfw-watch", "[agentfw]\nwatch = agentfw_watch\n", WATCH)
    install("agentfw-idle", "[agentfw]\nidle = agentfw_idle\n", DICE)

    runs = []
    for code, words in ((WATCH, ()), (f"{WATCH}\nCHANGED = True\n", ()), (WATCH, ("--no-plugin", "watch"))):
        Path("site", "agentfw_watch.py").write_text(code)
        later()
        runs.append(agentfw(*quick, *words, "--json").json["run"])
    about = json.loads(Path("runs", runs[0], "run.json").read_text())
    changed, without = agentfw("compare", *runs[:2]), agentfw("compare", runs[0], runs[2])
    resumed = agentfw("runs", "resume", runs[0], "--no-plugin", "watch")

    pins = {f"agentfw=={__version__}", "agentfw-watch==1.0.0", "agentfw-laboratory==1.0.0"}
    assert set(about["plugins"].values()) == pins, "and none that only could have"
    assert set(about["distributions"]) == {"agentfw", "agentfw-watch", "agentfw-laboratory"}
    assert about["distributions"]["agentfw"]["requires"]["pydantic"]
    assert "agentfw-watch has other files in" in changed.err
    assert "agentfw-laboratory has other files" not in changed.err
    assert f"plugin watch was agentfw-watch==1.0.0 in {runs[0]} and is not there in" in without.err
    assert "plugin watch was agentfw-watch==1.0.0 when the run began and is not there now" in resumed.err


def test_all_that_a_plugin_brings_is_listed_and_the_doctor_knows_its_needs(agentfw: Agentfw, install: Install) -> None:
    needs = "Pour\nProvides-Extra: cups\nRequires-Dist: no-such-cups; extra == 'cups'"
    install("agentfw-pour", "[agentfw.commands]\npour = agentfw_pour:pour [cups]\n", "", summary=needs)
    install("agentfw-watch", "[agentfw]\nwatch = agentfw_watch\n", WATCH)

    listed, rows = agentfw("plugins", "list").out, agentfw("plugins", "list", "--json").json
    hooks = {row["hook"]: row["plugins"] for row in agentfw("plugins", "list", "--hooks", "--json").json}
    missing = agentfw("doctor", "--json").json["missing"]

    assert "agentfw-watch:watch" in hooks["agentfw_episode_done"]
    assert "agentfw-watch:watch" not in hooks["agentfw_turn"]
    assert "agentfw:builtin" in hooks["agentfw_memories"]
    for words in ("agentfw-pour 1.0.0 the package index agentfw pour", "the hook agentfw_episode_done"):
        assert words in " ".join(listed.split())
    assert {"agentfw-pour", "agentfw-watch"} <= {row["distribution"] for row in rows}
    assert {"kind": "command", "name": "pour", "extra": "cups", "distribution": "agentfw-pour"} in missing


# -- two plugins that offer one name: what agentfw itself offers wins, and a qualified name selects either -------------

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
def acme(agentfw: Agentfw, install: Install) -> Agentfw:
    install("agentfw-acme", ENTRY_POINTS.format("chat = agentfw_acme:brew\nrun = agentfw_acme:brew\n"), ACME)
    return agentfw


def test_a_plugin_with_the_name_of_a_built_in_changes_nothing_but_a_warning(acme: Agentfw) -> None:
    told = acme("run", "guessing", "--policy", "scripted", "--episodes", "2", "--json").told(2)

    assert "no demonstration for the scripted policy" in told, "the built-in, which needs one"
    assert 'policy "scripted" is built in, and agentfw-acme 1.0.0 offers one, too' in told
    assert "agentfw-acme:scripted" in told
    assert 'spec "any" is built in' in told


def test_a_qualified_name_selects_and_shows_the_other_component_or_spec(acme: Agentfw) -> None:
    chosen = ("--policy", "agentfw-acme:scripted", "--reward", "Agentfw_Acme:utility")
    answer = acme("run", "inbox", *chosen, "--episodes", "2", "--json").ok.json

    assert answer["figures"]["reward"]["mean"] == 7.0
    assert '"agentfw-acme==1.0.0"' in Path(answer["folder"], "run.json").read_text()
    assert "Says nothing" in acme("plugins", "show", "agentfw-acme:scripted").out
    folder = acme("run", "agentfw-acme:any", "--json").ok.json["folder"]
    assert '"seed": 11' in Path(folder, "run.json").read_text()


def test_a_command_with_the_name_of_a_built_in_is_there_by_its_qualified_name(acme: Agentfw) -> None:
    listed, own, other = acme("--help"), acme("chat", "--help"), acme("agentfw-acme:chat")

    assert "agentfw-acme:chat" in listed.out
    assert "agentfw-acme:run" in listed.out
    assert "Usage: agentfw chat" in own.ok.out
    assert 'the command "chat" is built in, and agentfw-acme 1.0.0 offers one, too' in own.err
    assert other.out == "brewed\n"
    assert acme("agentfw-acme:run").out == "brewed\n"
    assert "uninstall agentfw" not in listed.err + own.err + other.err


def test_a_command_that_two_plugins_offer_is_an_error_that_names_both(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-acme", ENTRY_POINTS.format("brew = agentfw_acme:brew\n"), ACME)
    install("agentfw-bean", "[agentfw.commands]\nbrew = agentfw_bean:brew\n", "from agentfw_acme import brew\n")

    told = agentfw("brew").told(3)

    assert 'the command "brew" is offered twice: by agentfw-acme 1.0.0 and agentfw-bean 1.0.0' in told
    assert "agentfw agentfw-acme:brew" in told
    assert agentfw("agentfw-bean:brew").out == "brewed\n"
