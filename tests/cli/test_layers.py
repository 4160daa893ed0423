"""agentfw.toml: what a project has of its own, which plugins it takes, and defaults in layers.

These are of a distribution, the user and the project, then of the spec, environment variables and the command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw, Answer

Install = Callable[..., None]

DEPOT = """
from pathlib import Path
from agentfw import Component, Memory, hookimpl
from agentfw.hookspecs import KnownPlugin, NamedSpec
class Notes(Memory):
    async def recall(self, query): return []
@hookimpl
def agentfw_memories(): return [Component("depot-notes", f"{__name__}:Notes", "Keeps notes")]
@hookimpl
def agentfw_specs(): return [NamedSpec("depot", str(Path(__file__).parent / "depot_agents" / "depot.toml"), "Ours")]
@hookimpl
def agentfw_known_plugins(): return [KnownPlugin("depot-more", {"environment": ["warehouse"]})]
"""
ENTRY_POINTS = "[agentfw]\ndepot = agentfw_depot\n[agentfw.defaults]\ndepot = depot_agents\n"
SPEC = 'environment = "guessing"\npolicy = "hashing"\nepisodes = 2\nretries = 4\nrecall = 4\nmax_turns = 4\n'
SHIPPED = """
default = "depot"
[defaults]
seed = 1
horizon = 1
window = 1
retries = 1
recall = 1
max_turns = 1
updates = 9
[plugins]
package_index = "https://packages.depot.example/simple"
"""


@pytest.fixture
def depot(agentfw: Agentfw, install: Install, tmp_path: Path) -> Path:
    """The folder of a team's package, which ships a spec and defaults."""
    install("agentfw-depot", ENTRY_POINTS, DEPOT)
    folder = tmp_path / "site" / "depot_agents"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('imported')\n")
    (folder / "depot.toml").write_text(SPEC)
    (folder / "agentfw.toml").write_text(SHIPPED)
    return folder


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def spec_of(answer: Answer) -> Any:
    assert answer.code == 0, answer.err
    return json.loads((Path(answer.json["folder"]) / "run.json").read_text())["spec"]


@pytest.mark.usefixtures("depot")
def test_each_layer_wins_over_those_before(agentfw: Agentfw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / "config" / "agentfw" / "agentfw.toml"
    write(user, "[defaults]\nhorizon = 2\nwindow = 2\nretries = 2\nrecall = 2\nmax_turns = 2\n")
    write(Path("agentfw.toml"), "[defaults]\nwindow = 3\nretries = 3\nrecall = 3\nmax_turns = 3\n")
    monkeypatch.setenv("AGENTFW_RECALL", "5")
    monkeypatch.setenv("AGENTFW_MAX_TURNS", "5")

    spec = spec_of(agentfw("run", "--set", "max_turns=6", "--json"))
    origins = {row["key"]: (row["value"], row["from"]) for row in agentfw("doctor", "--settings", "--json").json}

    wanted = {"seed": 1, "horizon": 2, "window": 3, "retries": 4, "recall": 5, "max_turns": 6}
    assert {key: spec[key] for key in wanted} == wanted
    assert origins["seed"] == (1, "agentfw.toml of agentfw-depot")
    assert origins["horizon"] == (2, str(user))
    assert origins["window"] == (3, str(Path("agentfw.toml").absolute()))
    assert origins["retries"] == (4, "spec depot")
    assert origins["recall"] == (5, "AGENTFW_RECALL")
    assert "updates" not in origins  # this is no training
    without = agentfw("doctor", "--settings", "--no-plugin", "agentfw-depot", "--json").json
    assert not [row for row in without if "depot" in row["from"]]


def test_defaults_that_cannot_be_used_are_a_problem_of_their_distribution(agentfw: Agentfw, depot: Path) -> None:
    (depot / "agentfw.toml").write_text('runs = "/theirs"\n[plugins]\nallow = []\n')

    listed = agentfw("plugins", "list")

    assert listed.code == 0
    assert "plugin depot of agentfw-depot 1.0.0 ships defaults that can't be used" in listed.err
    assert "runs: no such key" in listed.err
    assert "plugins.allow: no such key" in listed.err


def test_a_default_of_a_component_holds_beside_what_the_spec_says_of_it(agentfw: Agentfw, depot: Path) -> None:
    hashing = '[defaults.policy]\nname = "hashing"\nsettings = { pause = 0.001, user = "depot" }\n'
    (depot / "agentfw.toml").write_text("[defaults.sampling]\ntop_p = 0.5\n" + hashing)
    write(Path("my.toml"), SPEC + "[sampling]\ntemperature = 0.0\n")

    rows = {row["key"]: row["value"] for row in agentfw("doctor", "--settings", "my.toml", "--json").json}
    other = {row["key"]: row["value"] for row in agentfw("doctor", "--settings", "inbox", "--json").json}

    assert (rows["policy"], rows["policy.pause"]) == ("hashing", 0.001)
    assert (rows["sampling.temperature"], rows["sampling.top_p"]) == (0.0, 0.5)
    assert "policy.pause" not in other


@pytest.mark.usefixtures("depot")
def test_a_variable_sets_the_component_that_is_chosen(agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFW_ENVIRONMENT", "inbox")  # another is typed
    monkeypatch.setenv("AGENTFW_POLICY__PAUSE", "0.001")
    monkeypatch.setenv("AGENTFW_REWARD__UTILITY__WEIGHT", "2")
    monkeypatch.setenv("AGENTFW_REWARD__FORMAT__WEIGHT", "3")  # isn't chosen here
    monkeypatch.setenv("AGENTFW_POLCY__PAUSE", "1")

    answer = agentfw("run", "guessing", "--policy", "hashing", "--reward", "utility", "--json")

    spec = spec_of(answer)
    assert spec["environment"]["name"] == "guessing"
    assert spec["policy"]["settings"] == {"pause": 0.001}
    assert [(reward["name"], reward["weight"]) for reward in spec["rewards"]] == [("utility", 2)]
    assert "AGENTFW_POLCY__PAUSE: a spec has no key polcy; did you mean AGENTFW_POLICY__PAUSE?" in answer.err


def test_a_wrong_value_says_what_layer_it_is_of(agentfw: Agentfw, depot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (depot / "agentfw.toml").write_text("[defaults]\nseed = 1.5\n")
    monkeypatch.setenv("AGENTFW_POLICY__PAUS", "1")

    answer = agentfw("run", "depot", "--set", "episodes=0")

    assert "seed: must be a whole number (got 1.5), from agentfw.toml of agentfw-depot" in answer.err
    assert 'policy.paus: no such key; did you mean "pause"?, from AGENTFW_POLICY__PAUS' in answer.err
    assert "episodes: must be at least 1 (got 0)\n" in answer.err


@pytest.mark.usefixtures("depot")
def test_a_private_plugin_is_only_ever_looked_for_in_the_teams_index(agentfw: Agentfw, depot: Path) -> None:
    index = "--index-url https://packages.depot.example/simple"

    known = agentfw("run", "warehouse")
    wanted = agentfw("run", "--plugin", "depot-gates>=2")
    (depot / "agentfw.toml").write_text("")
    nowhere = agentfw("run", "warehouse")

    assert f"pip install {index} depot-more" in known.err
    assert f"pip install {index} 'depot-gates>=2'" in wanted.err
    assert "pip install" not in nowhere.err
    assert "install depot-more from where agentfw-depot came from" in nowhere.err


@pytest.mark.usefixtures("depot")
def test_a_typing_slip_lists_nothing_of_what_an_allow_list_leaves_out(agentfw: Agentfw) -> None:
    write(Path("agentfw.toml"), "[plugins]\nallow = []\n")

    slip = agentfw("run", "guesing")
    near = agentfw("run", "inbox", "--memory", "depo")

    assert "failed" not in slip.err
    assert "agentfw-depot" not in slip.err
    assert "are left out, see: agentfw plugins list" in slip.err
    assert "plugin depot of agentfw-depot 1.0.0 isn't allowed by" in near.err


# -- a project ---------------------------------------------------------------------------------------------------------

NOTES = """
from agentfw import Component, Memory, hookimpl
class Notes(Memory):
    async def recall(self, query): return []
@hookimpl
def agentfw_memories(): return [Component("notes", f"{__name__}:Notes", "Keeps notes")]
"""
NIGHTLY = 'environment = "guessing"\npolicy = "hashing"\nepisodes = 2\n'


@pytest.fixture
def project(agentfw: Agentfw, install: Install) -> Agentfw:
    """A project with a plugin and a shared spec."""
    install("agentfw-notes", "[agentfw]\nnotes = agentfw_notes\n", NOTES)
    Path("shared").mkdir()
    Path("shared/nightly.toml").write_text(NIGHTLY)
    Path("agentfw.toml").write_text(
        'specs = ["shared"]\n[defaults]\nseed = 11\nmemories = ["notes"]\n[plugins]\ndisabled = []\n'
    )
    return agentfw


def test_a_project_has_its_own_specs_defaults_and_folder_from_any_folder_below(project: Agentfw) -> None:
    file = Path("agentfw.toml").absolute()
    file.write_text(f'default = "nightly"\nruns = "kept/here"\n{file.read_text()}')
    told = " ".join(project("doctor").out.split())
    Path("deep/er").mkdir(parents=True)
    os.chdir("deep/er")

    answer = project("run", "--json")

    spec = spec_of(answer)
    assert Path(answer.json["folder"]).parent == file.parent / "kept" / "here"
    assert project("runs", "list", "--json").json[0]["environment"] == "guessing"
    assert (spec["seed"], spec["episodes"]) == (11, 2)
    assert [memory["name"] for memory in spec["memories"]] == ["notes"]
    assert f"folders of specs {file.parent / 'shared'}" in told
    assert "defaults seed = 11, memories = ['notes']" in told


def test_a_spec_names_all_plugins_that_it_requires_and_runs_once_they_are_there(project: Agentfw) -> None:
    spec = Path("shared/nightly.toml")
    spec.write_text('requires = ["agentfw-notes>=1", "agentfw-notes>=2", "agentfw-tea>=1.2"]\n' + NIGHTLY)
    refused = project("run", "nightly")
    assert not Path("runs").exists()
    spec.write_text('requires = ["agentfw-notes>=1,<2"]\n' + NIGHTLY)

    taken = spec_of(project("run", "nightly", "--json"))

    assert refused.code == 3
    assert "plugin notes of agentfw-notes 1.0.0 is installed, and >=2 is asked for" in refused.err
    assert 'no plugin "agentfw-tea" is installed' in refused.err
    assert "pip install 'agentfw-tea>=1.2'" in refused.err
    assert taken["requires"] == ["agentfw-notes>=1,<2"]
    assert project("runs", "resume", "last").code == 0
