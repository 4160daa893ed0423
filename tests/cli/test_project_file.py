"""agentfw.toml through the commands: what is a project's own, which plugins it takes, and what a spec requires."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

Install = Callable[..., None]

NOTES = """
from agentfw import Component, Memory, hookimpl
class Notes(Memory):
    async def recall(self, query): return []
@hookimpl
def agentfw_memories(): return [Component("notes", f"{__name__}:Notes", "Keeps notes")]
"""
NIGHTLY = 'environment = "guessing"\npolicy = "hashing"\nepisodes = 2\n'


def about(folder: Path = Path("runs")) -> dict[str, object]:
    (run,) = folder.iterdir()
    spec = json.loads((run / "run.json").read_text())["spec"]
    assert isinstance(spec, dict)
    return spec


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

    assert answer.code == 0, answer.err
    assert Path(answer.json["folder"]).parent == file.parent / "kept" / "here"
    assert project("runs", "list", "--json").json[0]["environment"] == "guessing"
    spec = about(file.parent / "kept" / "here")
    assert (spec["seed"], spec["episodes"]) == (11, 2)
    assert [memory["name"] for memory in spec["memories"]] == ["notes"]  # type: ignore[attr-defined]
    assert f"folders of specs {file.parent / 'shared'}" in told
    assert "defaults seed = 11, memories = ['notes']" in told


def test_a_project_pins_its_plugins(project: Agentfw) -> None:
    pins = '[plugins]\nallow = ["agentfw-laboratory=={}"]\n'
    Path("agentfw.toml").write_text(pins.format("1.0.0"))
    taken = project("run", "guessing", "--policy", "hashing", "--episodes", "1")
    Path("agentfw.toml").write_text(pins.format("2.0.0"))

    refused = project("run", "guessing")

    assert (taken.code, refused.code) == (0, 2)
    assert "isn't the version 2.0.0 that" in refused.err
    assert project("run", "--plugin", "agentfw-laboratory").code == 3
    listed = project("plugins", "list")
    assert "refused" in listed.out
    assert 'pip install "agentfw-laboratory==2.0.0"' in listed.out


def test_a_plugin_that_the_project_disables_is_not_imported(project: Agentfw) -> None:
    Path("agentfw.toml").write_text('[plugins]\ndisabled = ["agentfw-notes", "agentfw-nots"]\n')

    answer = project("run", "guessing", "--policy", "hashing", "--memory", "notes")

    wanted = project("run", "guessing", "--policy", "hashing", "--plugin", "agentfw-notes")

    assert answer.code == 2
    assert "is disabled by" in answer.err
    assert wanted.code == 3
    assert "remove it from [plugins] disabled there" in wanted.err
    assert 'plugins.disabled agentfw-nots: no such plugin; did you mean "agentfw-notes"?' in answer.err


@pytest.mark.parametrize(
    ("text", "told"),
    [('specs = ["shard"]\n', "shard is no folder"), ('defualt = "nightly"', 'did you mean "default"?')],
)
def test_what_is_wrong_in_the_file_of_a_project_is_told(project: Agentfw, text: str, told: str) -> None:
    Path("agentfw.toml").write_text(text)

    answer = project("run", "nightly")

    assert (answer.code, told in answer.err) == (2, True), answer.err


def test_a_spec_names_all_plugins_that_it_requires_and_that_are_not_there(project: Agentfw) -> None:
    requires = 'requires = ["agentfw-notes>=1", "agentfw-notes>=2", "agentfw-tea>=1.2"]\n'
    Path("shared/nightly.toml").write_text(requires + NIGHTLY)

    answer = project("run", "nightly")

    assert answer.code == 3
    assert "plugin notes of agentfw-notes 1.0.0 is installed, and >=2 is asked for" in answer.err
    assert 'no plugin "agentfw-tea" is installed' in answer.err
    assert "pip install 'agentfw-tea>=1.2'" in answer.err
    assert not Path("runs").exists()


def test_a_spec_whose_requirements_are_met_runs_and_resumes(project: Agentfw) -> None:
    Path("shared/nightly.toml").write_text('requires = ["agentfw-notes>=1,<2"]\n' + NIGHTLY)

    assert project("run", "nightly").code == 0

    assert about()["requires"] == ["agentfw-notes>=1,<2"]
    assert project("runs", "resume", "last").code == 0
