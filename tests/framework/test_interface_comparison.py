"""Interfaces side by side: the same tasks, for anybody's environment, with the same result however many processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import PluginError, UnknownNameError, UsageError
from agentfw.host import Host, HostOptions
from agentfw.runs.results.interface_comparison import compare_interfaces
from agentfw.runs.spec.run_spec import RunSpec, parse_spec

KETTLE = """
@hookimpl
def agentfw_environments():
    return [Component("kettle", "{package}.world:Kettle", ""), Component("broken", "{package}.world:Broken", "")]


@hookimpl
def agentfw_policies():
    return [Component("cook", "{package}.world:Cook", "")]


@hookimpl
def agentfw_memories():
    return [Component("diary", "{package}.world:Diary", "")]
"""

WORLD = '''
from agentfw import Environment, Generation, Memory, Policy, action
from agentfw.episode import Call


class Kettle(Environment):
    """Write, and take the kettle off in time."""

    headline = "late"
    lower_is_better = True

    def begin(self, world, task):
        self.world, self.late = world, float("nan")
        self.boils = world.random("kettle").uniform(2, 8)
        print("the kettle is on")
        world.at(self.boils, lambda: world.observe("boils"))

    @action(takes=10)
    def write(self):
        """Write a letter."""

    @action
    def pour(self):
        """Pour the tea."""
        self.late = self.world.now - self.boils
        self.world.finish(late=self.late)

    def outcome(self):
        return {"late": self.late}


class Broken(Kettle):
    def begin(self, world, task):
        super().begin(world, task)
        world.utility(float("inf"), "a slip")


class Cook(Policy):
    async def generate(self, request):
        name = "pour" if request.moment.of("boils") else "write"
        return Generation(calls=(Call(name),))


class Diary(Memory):
    async def recall(self, query):
        return []
'''


@pytest.fixture
def stranger(make_plugin: Callable[..., str]) -> Host:
    """Somebody's plugin with a world and a policy; agentfw's own can't be seen."""
    make_plugin("agentfw-kettle", KETTLE, files={"world.py": WORLD})
    return Host.load(HostOptions(strict=True))


def spec(**values: Any) -> RunSpec:
    return parse_spec({"environment": "kettle", "policy": "cook", "episodes": 6, "horizon": 60, **values})


INTERFACES = ["step_loop", "polling:4", "event_driven"]


def test_hearing_later_costs_what_it_costs(stranger: Host) -> None:
    found = compare_interfaces(spec(), stranger, interfaces=INTERFACES, processes=1)
    row = found.rows()[0]
    assert (row.figure, row.runs) == ("late", tuple(INTERFACES))
    loop, polling, events = (interval.estimate for interval in row.intervals)
    assert loop > polling > events == 0
    assert row.differences[0] is None
    assert row.differences[2] is not None
    assert row.differences[2].difference.estimate == pytest.approx(-loop)


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(stranger: Host) -> None:
    alone, together = (
        compare_interfaces(spec(), stranger, interfaces=INTERFACES, seeds=[1, 2, 3], processes=processes)
        for processes in (1, 3)
    )
    assert alone.played == together.played
    assert alone.to_record() == together.to_record()
    assert list(alone.played["step_loop"]) == [1, 2, 3]
    assert alone.played["step_loop"][1] != alone.played["step_loop"][2]


def test_what_is_written_holds_every_episode(stranger: Host, tmp_path: Path) -> None:
    found = compare_interfaces(spec(), stranger, interfaces=INTERFACES, seeds=[5], processes=1)
    files = found.write(tmp_path / "there" / "comparison")
    assert [file.name for file in files] == ["comparison.json", "comparison.png", "comparison.svg"]
    record = json.loads(files[0].read_text("utf-8"))
    assert len(record["played"]["polling:4"]["5"]) == 6
    assert record["figures"][0]["interfaces"][0]["interface"] == "step_loop"
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert "the lower, the better" in files[2].read_text("utf-8")


def test_without_a_choice_the_usual_interfaces_are_compared_and_a_reflex_where_there_is_one(stranger: Host) -> None:
    found = compare_interfaces(spec(episodes=2), stranger, processes=1)
    assert list(found.played) == ["step_loop", "polling:45", "polling:15", "polling:5", "event_driven"]


@pytest.mark.slow
def test_what_an_environment_prints_does_not_come_between_the_answers(
    stranger: Host, capfd: pytest.CaptureFixture[str]
) -> None:
    compare_interfaces(spec(episodes=1), stranger, interfaces=INTERFACES, processes=2)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("the kettle is on") == 3


def test_one_interface_is_no_comparison_and_a_slip_is_told(stranger: Host) -> None:
    for wrong in (["event_driven"], ["event_driven", "event_driven"]):
        with pytest.raises(UsageError, match="two different interfaces"):
            compare_interfaces(spec(), stranger, interfaces=wrong)
    with pytest.raises(UnknownNameError, match="event_drivn"):
        compare_interfaces(spec(), stranger, interfaces=["event_drivn", "step_loop"])
    found = compare_interfaces(spec(episodes=1), stranger, interfaces=INTERFACES, processes=1)
    with pytest.raises(UnknownNameError, match="figure"):
        found.rows(["speed"])


def test_a_memory_is_refused_because_it_would_learn_on_the_way(stranger: Host) -> None:
    with pytest.raises(UsageError, match="without memories"):
        compare_interfaces(spec(memories=["diary"]), stranger)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_figure_that_is_none_is_blamed_on_the_environment(stranger: Host, processes: int) -> None:
    with pytest.raises(Exception, match=r'"broken" of agentfw-kettle 1\.0\.0 gave inf as "utility"') as caught:
        compare_interfaces(spec(environment="broken"), stranger, interfaces=INTERFACES[:2], processes=processes)
    assert getattr(caught.value, "exit_code", None) == PluginError.exit_code
