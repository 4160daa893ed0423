"""agentfw.toml through the commands: specs, defaults and disabled plugins of a project, and what a spec requires."""

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


def test_a_spec_of_the_project_runs_by_its_name_with_the_defaults_from_any_folder_below(project: Agentfw) -> None:
    Path("deep/er").mkdir(parents=True)
    os.chdir("deep/er")

    answer = project("run", "nightly")

    assert answer.code == 0, answer.err
    spec = about(Path("../../runs"))
    assert (spec["seed"], spec["episodes"]) == (11, 2)
    assert [memory["name"] for memory in spec["memories"]] == ["notes"]  # type: ignore[attr-defined]


def test_a_plugin_that_the_project_disables_is_not_imported(project: Agentfw) -> None:
    Path("agentfw.toml").write_text('[plugins]\ndisabled = ["agentfw-notes", "agentfw-nots"]\n')

    answer = project("run", "guessing", "--policy", "hashing", "--memory", "notes")

    wanted = project("run", "guessing", "--policy", "hashing", "--plugin", "agentfw-notes")

    assert answer.code == 2
    assert "is disabled by" in answer.err
    assert wanted.code == 3
    assert "remove it from [plugins] disabled there" in wanted.err
    assert 'plugins.disabled agentfw-nots: no such plugin; did you mean "agentfw-notes"?' in answer.err


def test_the_doctor_shows_what_the_project_file_does(project: Agentfw) -> None:
    told = " ".join(project("doctor").out.split())

    assert f"folders of specs {Path('shared').absolute()}" in told
    assert "defaults seed = 11, memories = ['notes']" in told


def test_a_folder_of_specs_that_is_not_there_is_an_error(project: Agentfw) -> None:
    Path("agentfw.toml").write_text('specs = ["shard"]\n')

    answer = project("plugins", "list")

    assert answer.code == 2
    assert "shard is no folder" in answer.err


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
