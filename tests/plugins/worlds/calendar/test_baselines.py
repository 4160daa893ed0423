"""What simple players reach stands beside a run: in its table, its JSON and its report, on the very same rounds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw import Engagement, PolicyAgent
from agentfw.runs.records.folder import RunFolder
from agentfw_plugins.worlds.calendar.baselines import RULE_TITLES
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings
from agentfw_plugins.worlds.calendar.policies import RulesPolicy, RulesSettings


@pytest.mark.parametrize("rule", RULE_TITLES)
def test_a_reference_is_what_the_policy_of_that_rule_reaches(rule: str) -> None:
    environment = CalendarConflicts(CalendarSettings(rounds=30))
    (task,) = environment.tasks(1, 7, "test")

    episode = asyncio.run(Engagement(environment, PolicyAgent(RulesPolicy(RulesSettings(rule=rule)))).run(task))

    assert environment.references(task)[RULE_TITLES[rule]] == pytest.approx(episode.outcome)


@pytest.mark.slow
def test_a_run_shows_them_beside_its_own_figures(agentfw: Agentfw, tmp_path: Path) -> None:
    words = ["--episodes", "2", "--set", "environment.rounds=25", "--memory", "strategyhub"]
    code, out, err = agentfw("run", "calendar", *words)
    assert code == 0
    (folder,) = (tmp_path / "runs").iterdir()

    assert (
        err.splitlines()[0]
        == "calendar   2 users   25 rounds of 5 events   policy linear   memory strategyhub   seed 7"
    )
    assert "next: agentfw view 2" in err
    rows = [line for line in out.splitlines() if line.startswith(("linear", "random", *RULE_TITLES.values()))]
    assert rows[0].startswith("linear + strategyhub")
    assert len(rows) == 7
    heading = next(line for line in out.splitlines() if "AER@1" in line)
    assert heading.split() == ["AER@1", "@25", "ORD", "reduction", "95%", "of", "error"]
    assert all(len(line) <= 80 for line in [heading, *rows])
    means = [float(row[22:].split()[1]) for row in rows[1:]]
    assert means == sorted(means), "the best of them first"

    page = (folder / "report.html").read_text()
    assert "Compared with simple players" in page
    assert "most urgent first" in page
    record = json.loads((folder / "summary.json").read_text())
    assert set(record["references"]) == {"random", *RULE_TITLES.values()}
    random = record["references"]["random"]["aer@25"]
    assert random["low"] <= random["mean"] <= random["high"]
    assert RunFolder.open(folder).columns["aer@25"] == "@25"
