"""Faults of plugins that once were told as bugs of agentfw, or not at all, through the commands that a user types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from command_line import Agentfw

Install = Callable[..., None]

HEAD = "import agentfw\nfrom agentfw import Component, hookimpl\n"

WORLD = """
from agentfw import Environment, action
class Odd(Environment):
    headline = "poured"
    columns = {"poured": "cups", "spilt": "spilt"}
    def begin(self, world, task):
        self.world = world
        world.observe("thirsty")
    @action
    def pour(self) -> None:
        "Pour a cup."
        self.world.finish(spilt=1.0)
    def references(self, task): return {"nobody": {"poured": 0.0}}
    def demonstrate(self, moment): return [agentfw.Intervention("pour")]
@hookimpl
def agentfw_environments(): return [Component("odd", "agentfw_world:Odd", "Odd")]
"""


def test_a_headline_that_is_not_in_the_outcome_is_left_blank(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-world", "[agentfw]\nworld = agentfw_world\n", HEAD + WORLD)

    answer = agentfw("run", "odd", "--episodes", "2")

    assert answer.code == 0, answer.err
    cells = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines() if line}
    assert cells["scripted"] == ["1.00"]
    assert cells["nobody"][0] == "0.00"
    assert (next(Path("runs").iterdir()) / "report.html").is_file()
    assert "bug" not in answer.err


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


AUTHORED = """
from agentfw import Environment, RewardModel, Score
from agentfw.tool import tool

@tool
def now() -> str:
    "The time."
    return "noon"

class Ours(RewardModel):
    components = ("utility",)
    async def score(self, group): return [Score(each.id, "utility", 1.0) for each in group]

@hookimpl
def agentfw_tools(): return [Component("now", f"{__name__}:now", "The time")]
@hookimpl
def agentfw_reward_models(): return [Component("ours", f"{__name__}:Ours", "Ours")]
"""


def test_a_function_marked_as_a_tool_is_a_component(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-authored", "[agentfw]\nauthored = agentfw_authored\n", HEAD + AUTHORED)

    run, check = agentfw("run", "inbox", "--tool", "now", "--episodes", "1"), agentfw("plugins", "check", "now")

    assert run.code == 0, run.err
    assert check.code == 0, check.out


def test_two_rewards_that_share_a_component_are_refused_before_anything_is_played(
    agentfw: Agentfw, install: Install
) -> None:
    install("agentfw-authored", "[agentfw]\nauthored = agentfw_authored\n", HEAD + AUTHORED)

    answer = agentfw("run", "inbox", "--reward", "utility", "--reward", "ours", "--episodes", "1")

    assert answer.code == 2
    assert 'the reward models "utility" and "ours" both give a component "utility"' in answer.err
    assert not Path("runs").exists()


def test_the_author_of_a_plugin_that_fails_in_a_run_is_told_where_to_mend_it(
    agentfw: Agentfw, install: Install, tmp_path: Path
) -> None:
    code = "@hookimpl\ndef agentfw_memories(): return [Component('dust', __name__ + ':Dust', '')]\n"
    code += (
        "from agentfw import Memory\nclass Dust(Memory):\n    async def recall(self, query): raise ValueError('x')\n"
    )
    install("agentfw-saw", "[agentfw]\nsaw = agentfw_saw\n", HEAD + code)
    origin = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    (tmp_path / "site" / "agentfw_saw-1.0.0.dist-info" / "direct_url.json").write_text(json.dumps(origin))

    run = agentfw("run", "inbox", "--memory", "dust", "--episodes", "1")

    assert f"fix it in {tmp_path}; use --debug" in run.err
    assert "authors" not in run.err
