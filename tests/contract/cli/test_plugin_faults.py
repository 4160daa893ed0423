"""Faults of plugins, and of other code that is imported, are told with the name of who can mend them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Agentfw, Install

HEAD = "import agentfw\nfrom agentfw import Component, hookimpl\n"


def test_a_broken_plugin_ends_with_3_when_selected(agentfw: Agentfw, quick: tuple[str, ...], install: Install) -> None:
    install("agentfw-broken", "[agentfw]\nbroken = agentfw_broken\n", "raise SystemExit(0)")

    unselected = agentfw(*quick)
    selected = agentfw(*quick, "--plugin", "agentfw-broken")
    as_component = agentfw(*quick, "--memory", "broken")

    assert "plugin: plugin broken of agentfw-broken 1.0.0" in unselected.told(0)
    assert "error: plugin broken of agentfw-broken 1.0.0" in selected.told(3)
    assert "agentfw-broken 1.0.0 tried to end Python" in as_component.told(3)
    assert agentfw(*quick, "--strict-plugins").code == 3
    assert agentfw(*quick, "--strict-plugins", "--no-plugin", "broken").ok
    listed = agentfw("plugins", "list").ok
    assert "failed" in listed.out
    assert "broken" not in listed.err, "the table says it already"


def test_a_failing_plugin_ends_with_3_says_how_to_go_on_and_is_traced(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    fails = (*quick, "--set", "environment.outcome=raise")

    answer = agentfw(*fails)
    with pytest.raises(Exception, match="out of joint") as caught:
        agentfw(*fails, "--runs", "others", "--debug")

    run = next(Path("runs").iterdir()).name
    assert answer.out == ""
    assert "ValueError: the world is out of joint" in answer.told(3)
    assert f"then resume: agentfw runs resume {run}" in answer.err
    assert isinstance(caught.value.__cause__, ValueError)


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

    answer = agentfw("run", "odd", "--episodes", "2").ok

    cells = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines() if line}
    assert cells["scripted"] == ["1.00"]
    assert cells["nobody"][0] == "0.00"
    assert (next(Path("runs").iterdir()) / "report.html").is_file()
    assert ", which no episode has" in answer.err
    assert "bug" not in answer.err


CLOCK = """
from agentfw import RewardModel, Score
from agentfw.tool import Toolbox, tool
@tool
def now() -> str:
    "The time."
    return "noon"
class Clocks(Toolbox):
    async def open(self): return [now]
class Stopped(Toolbox):
    async def open(self): raise ValueError("wound down")
class Ours(RewardModel):
    components = ("utility",)
    async def score(self, group): return [Score(each.id, "utility", 1.0) for each in group]
@hookimpl
def agentfw_tools(): return [
    Component("clock", "agentfw_clock:Clocks", "Clocks"),
    Component("stopped", "agentfw_clock:Stopped", "Clocks"),
    Component("now", "agentfw_clock:now", "The time"),
]
@hookimpl
def agentfw_reward_models(): return [Component("ours", "agentfw_clock:Ours", "Ours")]
"""


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("--tool clock=one --tool clock=two", 2, "two tools are called now"),
        ("--tool stopped=one", 3, 'tool "stopped" of agentfw-clock 1.0.0 as "one" failed in open(): ValueError: wound'),
        ("--tool now", 0, ""),
    ],
    ids=["two tools of one name", "an alias", "a function marked as a tool"],
)
def test_offers_are_taken_or_refused(agentfw: Agentfw, install: Install, words: str, code: int, told: str) -> None:
    install("agentfw-clock", "[agentfw]\nclock = agentfw_clock\n", HEAD + CLOCK)

    answer = agentfw("run", "inbox", "--episodes", "1", *words.split())

    assert told in answer.told(code)
    assert code != 2 or "runs resume" not in answer.err, "resuming can't mend it"


def test_two_rewards_that_share_a_component_are_refused_before_a_start(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-clock", "[agentfw]\nclock = agentfw_clock\n", HEAD + CLOCK)

    answer = agentfw("run", "inbox", "--reward", "utility", "--reward", "ours", "--episodes", "1")

    assert 'the reward models "utility" and "ours" both give a component "utility"' in answer.told(2)
    assert not Path("runs").exists()


DUST = """
class Dust(agentfw.Memory):
    async def recall(self, query): raise ValueError("x")
@hookimpl
def agentfw_memories(): return [Component("dust", "agentfw_saw:Dust", "")]
"""


def test_a_maker_is_told_where_to_mend_a_plugin_that_fails(agentfw: Agentfw, install: Install, tmp_path: Path) -> None:
    install("agentfw-saw", "[agentfw]\nsaw = agentfw_saw\n", HEAD + DUST)
    origin = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    (tmp_path / "site" / "agentfw_saw-1.0.0.dist-info" / "direct_url.json").write_text(json.dumps(origin))

    run = agentfw("run", "inbox", "--memory", "dust", "--episodes", "1")

    assert f"fix it in {tmp_path}; use --debug" in run.err
    assert "authors" not in run.err


ENDS_PYTHON = "import sys\nsys.exit('enough')\n"


def test_no_plugin_moves_the_runs(agentfw: Agentfw, install: Install, quick: tuple[str, ...], tmp_path: Path) -> None:
    here, elsewhere = Path.cwd(), tmp_path / "elsewhere"
    elsewhere.mkdir()
    install("agentfw-mover", "[agentfw]\nmover = agentfw_mover\n", f"import os\nos.chdir({str(elsewhere)!r})\n")

    answer = agentfw(*quick, "--json").ok

    assert Path(answer.json["folder"]).parent == here / "runs"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "culprit"),
    [
        ("plugins check tool.py", 3, "tool.py"),
        ("train --from tapes://archive", 3, 'the recordings "tapes" of agentfw-tapes 1.0.0'),
        ("run --policy scripted --set policy.rule=agentfw_tapes:rule", 2, "agentfw_tapes:rule"),
    ],
    ids=["file", "recordings", "policy.rule"],
)
def test_an_import_may_end_python(agentfw: Agentfw, install: Install, words: str, code: int, culprit: str) -> None:
    install("agentfw-tapes", "[agentfw.recordings]\ntapes = agentfw_tapes:copied\n", ENDS_PYTHON)
    Path("tool.py").write_text(ENDS_PYTHON)

    told = agentfw(*words.split()).told(code)

    assert f"{culprit} tried to end Python when it was imported" in " ".join(told.split())


def test_with_debug_an_import_that_fails_is_traced_to_its_cause(agentfw: Agentfw) -> None:
    Path("tool.py").write_text("from agentfw.errors import UsageError\nraise UsageError('tea') from OSError()\n")

    with pytest.raises(Exception, match="tea") as caught:
        agentfw("plugins", "check", "tool.py", "--debug")

    assert isinstance(caught.value.__cause__, OSError)


def test_a_setting_may_name_a_function_of_the_current_directory_that_is_in_no_others_place(
    agentfw: Agentfw, install: Install
) -> None:
    rule = "def rule(moment):\n    return ['Hello.']\n"
    install("agentfw-rules", "", rule)
    Path("agentfw_rules.py").write_text("raise OSError")
    Path("our_rules.py").write_text(rule)

    for module in ("our_rules", "agentfw_rules"):
        scripted = ("--policy", "scripted", "--set", f"policy.rule={module}:rule")
        assert agentfw("run", "guessing", *scripted, "--episodes", "1").ok
