"""A run folder can be played again, here or where it was copied to, and what differs is named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from command_line import SITE, Agentfw

POLICY = """
from agentfw import Component, hookimpl
from agentfw.policy import Policy
from agentfw.request import Generation

class Fixed(Policy):
    version = "1"

    async def generate(self, request):
        return Generation(text="{answer}")

@hookimpl
def agentfw_policies():
    return [Component("fixed", f"{{__name__}}:Fixed", "")]
"""
TOOL = """
from agentfw.tool import tool

@tool
def note(text: str) -> str:
    '''Note a text.'''
    return "noted"
"""
FIXED = ("run", "guessing", "--policy", "fixed", "--episodes", "2")
TRAIN = (
    *("train", "bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "2"),
    *("--set", "tasks=2", "--set", "samples=3", "--set", "evaluation.tasks=2", "--set", "environment.rounds=1"),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def only_run() -> Path:
    (found,) = Path("runs").iterdir()
    return found


GROUPS = ("run", "guessing", "--policy", "hashing", "--episodes", "2", "--set", "samples=3")


@pytest.mark.parametrize(
    "words",
    [(*GROUPS, "--memory", "scratch", "--tool", "./notes.py"), TRAIN],
    ids=["groups with a memory and a tool of one file", "training"],
)
def test_a_run_that_was_copied_elsewhere_is_equal_when_played_again(agentfw: Agentfw, words: tuple[str, ...]) -> None:
    Path("notes.py").write_text(TOOL, "utf-8")
    assert agentfw(*words).code == 0
    Path("notes.py").unlink()
    if words is TRAIN:  # twice it was given more updates
        for number in "34":
            assert agentfw("runs", "resume", "last", "--set", f"updates={number}").code == 0
    copy = Path("elsewhere").resolve() / only_run().name
    copy.parent.mkdir()
    shutil.move(only_run(), copy)
    answer = agentfw("reproduce", str(copy), "--json")
    assert (answer.code, answer.json["equal"], answer.json["installation"]) == (0, True, [])
    assert answer.json["compared"] >= 2


def test_another_version_of_the_code_is_named_and_so_is_the_first_episode_that_differs(
    agentfw: Agentfw, install: Callable[..., None]
) -> None:
    install("agentfw-fixed", "[agentfw]\nfixed = agentfw_fixed\n", POLICY.format(answer="1"))
    assert agentfw(*FIXED).code == 0
    # Of another length: Python takes the bytecode of a file that has the same size and was written in the same second.
    (Path("site") / "agentfw_fixed.py").write_text(POLICY.format(answer="another"), "utf-8")
    path = os.pathsep.join([str(Path("site").resolve()), str(SITE)])
    # In a process of its own: this one has imported the code as it was.
    command, variables = [sys.executable, "-m", "agentfw", "reproduce", "last"], {**os.environ, "PYTHONPATH": path}
    again = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert again.returncode == 1
    assert "not equal: episode 00000-0: turns[0].text" in again.stdout
    assert "agentfw-fixed 1.0.0 has other files here, in the same version" in again.stderr


def test_a_run_that_was_resumed_with_another_version_says_so(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    assert agentfw(*quick).code == 0
    file = only_run() / "run.json"
    (only_run() / "summary.json").unlink()
    text = file.read_text("utf-8")
    about = json.loads(text)
    for name in ("environment guessing", "policy hashing", "reward utility"):
        file.write_text(json.dumps({**about, "components": {**about["components"], name: "other==0.9"}}), "utf-8")
        assert f"{name} came from other==0.9 and now comes from" in agentfw("runs", "resume", "last").told(2)
    file.write_text(text.replace("agentfw-laboratory==1.0.0", "agentfw-laboratory==0.9"), "utf-8")
    assert agentfw("runs", "resume", "last", "--with-changed").code == 0

    again = agentfw("reproduce", "last", "--json")

    assert any("was resumed with something else, after 3 episodes" in line for line in again.json["installation"])


def test_what_no_index_has_is_packed_as_a_wheel_and_what_a_component_needs_is_locked(
    agentfw: Agentfw, install: Callable[..., None]
) -> None:
    code = POLICY.format(answer="1").replace('"")', '"", extra="fast", needs=("needed_library",))')
    needs = "Fixed\nProvides-Extra: fast\nRequires-Dist: needed-library; extra == 'fast'"
    install("agentfw-fixed", "[agentfw]\nfixed = agentfw_fixed\n", code, summary=needs)
    install("needed-library", "", "raise SystemExit('imported')")
    assert agentfw(*FIXED).code == 0
    lines = agentfw("runs", "export", "last", "--lock").out.splitlines()
    (wheel,) = [line for line in lines if "agentfw_fixed-1.0.0-py3-none-any.whl" in line]
    assert {"agentfw_fixed.py", "agentfw_fixed-1.0.0.dist-info/METADATA"} <= set(ZipFile(wheel).namelist())
    assert any(line.startswith("numpy==") for line in lines)
    lock = json.loads((only_run() / "package" / "lock.json").read_text("utf-8"))
    assert "needed-library" in lock["distributions"]


def test_the_spec_of_a_run_is_a_file_and_can_be_started_from_by_the_name_of_the_run(agentfw: Agentfw) -> None:
    settings = "--set", "environment.rate=0.5", "--set", "horizon=null"
    assert agentfw("run", "inbox", "--episodes", "2", *settings).code == 0
    Path("agentfw.toml").write_text("[defaults]\nhorizon = 3\n")  # is younger than the run
    first = only_run().name
    spec = agentfw("runs", "export", "last", "--toml").out
    Path("again.toml").write_text(spec, "utf-8")
    for file in ("again.toml", first):
        assert agentfw("run", "--spec", file).code == 0
    found = [json.loads((run / "run.json").read_text("utf-8"))["spec"] for run in Path("runs").iterdir()]
    assert found[0] == found[1] == found[2]
    assert "are equal, to the last digit" in agentfw("compare", first, "last").err


def test_what_cannot_be_played_again_says_why(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    assert agentfw(*quick).code == 0
    run = only_run()
    shutil.rmtree(run / "package")
    gone = agentfw("reproduce", str(run))
    assert gone.code == 2
    assert "has no package, so what it was played with isn't known" in gone.err
    (run / "package").mkdir()
    (run / "package" / "lock.json").write_text("{", "utf-8")
    assert "lock.json can't be read" in agentfw("reproduce", str(run)).err


@pytest.mark.nightly
def test_a_package_that_no_index_has_any_more_is_named(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    assert agentfw(*quick).code == 0
    file = only_run() / "package" / "lock.json"
    lock = json.loads(file.read_text("utf-8"))
    lock["distributions"]["agentfw-that-is-gone"] = {"version": "1.0", "digest": "", "wheel": "", "left_out": ""}
    file.write_text(json.dumps(lock), "utf-8")
    answer = agentfw("reproduce", "last", "--env")
    assert answer.code == 1
    assert "agentfw-that-is-gone" in answer.err


@pytest.mark.nightly
def test_an_environment_of_its_own_plays_the_same(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    assert agentfw("run", "inbox", "--episodes", "2").code == 0
    assert agentfw("reproduce", "last", "--env", "--no-plugin", "agentfw-noisy").code == 0
