"""Faults of plugins that once were told as bugs of agentfw, or not at all, through the commands that a user types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Agentfw

Install = Callable[..., None]

HEAD = "import agentfw\nfrom agentfw import Component, hookimpl\n"


@pytest.mark.parametrize("words", [("plugins", "list"), ("doctor",), ("run",)], ids=" ".join)
def test_an_error_that_can_not_even_be_shown_is_told_with_its_plugin(
    agentfw: Agentfw, install: Install, quick: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code = "class Wordless(Exception):\n    def __str__(self): raise RuntimeError('none')\nraise Wordless()\n"
    install("agentfw-mute", "[agentfw]\nmute = agentfw_mute\n", code)

    answer = agentfw(*(quick if words == ("run",) else words))

    assert answer.code == (3 if words == ("doctor",) else 0)
    assert "agentfw-mute 1.0.0" in answer.out + answer.err
    assert "Wordless: its text can't be shown" in " ".join((answer.out + answer.err).split())


def test_lists_and_descriptions_that_lie_about_themselves_are_read_as_what_they_hold(
    agentfw: Agentfw, install: Install
) -> None:
    code = """
class Odd(Component):
    @property
    def name(self): raise KeyError("name")
    @property
    def summary(self): return 3
class Liar(list):
    def __iter__(self): raise RuntimeError("no")
    def __len__(self): return 10**9
@hookimpl
def agentfw_memories(): return Liar([Odd("notes", "agentfw_odd:Notes", "Keeps notes")])
"""
    install("agentfw-odd", "[agentfw]\nodd = agentfw_odd\n", HEAD + code)

    listed = agentfw("plugins", "list", "--json").json

    assert [(row["kind"], row["summary"]) for row in listed if row["name"] == "notes"] == [("memory", "Keeps notes")]


def test_a_memory_that_can_not_recall_is_told_what_is_missing(agentfw: Agentfw, install: Install) -> None:
    code = "class Notes(agentfw.Memory): pass\n@hookimpl\ndef agentfw_memories():\n    return [Component('notes', "
    install("agentfw-bare", "[agentfw]\nbare = agentfw_bare\n", f"{HEAD}{code}'agentfw_bare:Notes', 'Notes')]\n")

    checked = agentfw("plugins", "check", "notes")

    assert checked.code == 3
    assert "the class Notes has no method recall(), which its kind requires" in " ".join(checked.out.split())


WORLD = """
from agentfw import Environment, action
class Odd(Environment):
    headline = "poured"
    columns = {{"poured": "cups", "spilt": "spilt"}}
    def begin(self, world, task):
        self.world = world
        world.observe("thirsty")
        {begin}
    @action
    def pour(self) -> None:
        "Pour a cup."
        self.world.finish(spilt=1.0)
    def references(self, task): return {{"nobody": {{"poured": 0.0}}}}
    def demonstrate(self, moment): return [agentfw.Intervention("pour")]
@hookimpl
def agentfw_environments(): return [Component("odd", "agentfw_world:Odd", "Odd")]
"""


def test_a_headline_that_is_not_in_the_outcome_is_left_blank(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-world", "[agentfw]\nworld = agentfw_world\n", HEAD + WORLD.format(begin="pass"))

    answer = agentfw("run", "odd", "--episodes", "2")

    assert answer.code == 0, answer.err
    cells = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines() if line}
    assert cells["scripted"] == ["1.00"]
    assert cells["nobody"][0] == "0.00"
    assert (next(Path("runs").iterdir()) / "report.html").is_file()
    assert "bug" not in answer.err


def test_a_world_that_schedules_into_the_past_is_named_with_its_plugin(agentfw: Agentfw, install: Install) -> None:
    install(
        "agentfw-world", "[agentfw]\nworld = agentfw_world\n", HEAD + WORLD.format(begin="world.after(-1, self.pour)")
    )

    answer = agentfw("run", "odd", "--episodes", "2")

    assert answer.code == 3
    assert 'environment "odd" of agentfw-world 1.0.0 failed in' in answer.err
    assert "-1" in answer.err


CLOCK = """
from agentfw import Settings
from agentfw.tool import Toolbox, tool
@tool
def now() -> str:
    "The time."
    return "noon"
class Clocks(Toolbox):
    async def open(self): return [now]
@hookimpl
def agentfw_tools(): return [Component("clock", "agentfw_clock:Clocks", "Clocks")]
"""


def test_what_resuming_can_not_mend_is_not_offered_to_be_resumed(
    agentfw: Agentfw, install: Install, quick: tuple[str, ...]
) -> None:
    install("agentfw-clock", "[agentfw]\nclock = agentfw_clock\n", HEAD + CLOCK)

    answer = agentfw(*quick, "--tool", "clock=one", "--tool", "clock=two")

    assert answer.code == 2
    assert "two tools are called now" in answer.err
    assert "runs resume" not in answer.err


def test_an_alias_is_named_in_the_errors_of_a_toolbox(
    agentfw: Agentfw, install: Install, quick: tuple[str, ...]
) -> None:
    code = CLOCK.replace("return [now]", "raise ValueError('wound down')")
    install("agentfw-clock", "[agentfw]\nclock = agentfw_clock\n", HEAD + code)

    answer = agentfw(*quick, "--tool", "clock=one")

    assert answer.code == 3
    assert 'tool "clock" of agentfw-clock 1.0.0 as "one" failed in open(): ValueError: wound down' in answer.err
