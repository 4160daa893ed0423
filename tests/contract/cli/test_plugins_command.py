"""`agentfw plugins` lists hooks, checks whole distributions, and uninstalls; runs pin and name their plugins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw import __version__

Install = Callable[..., None]
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


def test_hooks_are_listed_with_the_plugins_that_implement_them(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-watch", "[agentfw]\nwatch = agentfw_watch\n", WATCH)

    hooks = {row["hook"]: row["plugins"] for row in agentfw("plugins", "list", "--hooks", "--json").json}

    assert "agentfw-watch:watch" in hooks["agentfw_episode_done"]
    assert "agentfw-watch:watch" not in hooks["agentfw_turn"]
    assert "agentfw:builtin" in hooks["agentfw_memories"]


def test_a_pinned_plugin_must_have_that_version(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    fits = agentfw(*quick, "--plugin", "agentfw-laboratory==1.0.0")
    differs = agentfw(*quick, "--plugin", "agentfw-laboratory==2.0")

    assert fits.code == 0
    assert differs.code == 3
    assert 'pip install "agentfw-laboratory==2.0"' in differs.err


def test_all_components_of_a_plugin_are_checked_together(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-dice", "[agentfw]\nnil = agentfw_dice\n", DICE)

    for name in ("agentfw-dice", "nil"):  # the plugin has the name of one of its components
        answer = agentfw("plugins", "check", name, "--json")
        assert answer.code == 0, answer.err
        assert {row["component"] for row in answer.json} == {"none", "nil"}


def test_what_cannot_be_checked_is_no_fault_of_a_component(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-watch", "[agentfw]\nwatch = agentfw_watch\n", WATCH)

    nothing = agentfw("plugins", "check", "agentfw-watch")
    wrong = agentfw("plugins", "check", "environment:guessing", "--set", "foo=1")

    assert (nothing.code, "plugins list --hooks" in nothing.err) == (2, True)
    assert (wrong.code, "foo: no such key" in wrong.err) == (2, True)


@pytest.mark.slow
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
