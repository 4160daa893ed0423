"""Policies that are programs, the linear learner, the protocol's figures also of simple players, and rewards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Agentfw

from agentfw import Engagement, Generation, PolicyAgent, Request
from agentfw.episode import Call, Episode, Event, Measure, Task, Turn
from agentfw.errors import UnknownNameError
from agentfw.runs.records.folder import RunFolder
from agentfw_plugins.worlds.calendar.baselines import (
    RULE_TITLES,
    CalendarDecision,
    CalendarFormat,
    CalendarHub,
    CalendarHubSettings,
    CalendarRanking,
    average_errors,
    error_reduction,
    quarters,
    rank_distance,
)
from agentfw_plugins.worlds.calendar.choice_model import ChoiceLearner, Prior, matrix
from agentfw_plugins.worlds.calendar.dataset import Calendar
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings
from agentfw_plugins.worlds.calendar.event_attributes import RULES
from agentfw_plugins.worlds.calendar.policies import (
    LinearPolicy,
    LinearSettings,
    RulesPolicy,
    RulesSettings,
    fitted_prior,
)


def role_of(calendar: Calendar) -> str:
    return f"{calendar.user.organisation.schema.archetype}/{calendar.user.role.title}"


def learned(calendar: Calendar, prior: Prior) -> list[float]:
    learner = ChoiceLearner(prior)
    errors = []
    for shown in calendar.rounds:
        rows = matrix(shown.tags)
        errors.append(float(learner.values(rows).argmax() != shown.accepted))
        learner.observe(rows, shown.accepted)
    return errors


@pytest.fixture(scope="module")
def errors(calendars: list[Calendar]) -> Any:
    """Of half of the held-out users, those of both organisations."""
    return np.array([learned(calendar, fitted_prior().of(role_of(calendar))) for calendar in calendars[::2]])


def test_linear_learns_its_user_over_the_year(errors: Any) -> None:
    """The bounds are wider than docs/results/calendar.md (0.12, 0.29, 0.89), so that they hold for any world."""
    parts = np.array([quarters(row) for row in errors]).mean(axis=0)
    assert 0.07 < errors.mean() < 0.18
    assert 0.20 < parts[0] < 0.38
    assert (parts[0] - parts[-1]) / parts[0] > 0.75
    # Not one user is left behind.
    assert errors.mean(axis=1).max() < 0.3


def test_through_the_engagement_linear_is_the_learner_itself(errors: Any) -> None:
    (task,) = CalendarConflicts().tasks(1, 7, "test")

    episode = asyncio.run(Engagement(CalendarConflicts(), PolicyAgent(LinearPolicy())).run(task))

    assert episode.series("error") == errors[0].tolist()
    assert episode.outcome["invalid"] == 0.0


class Waiting(LinearPolicy):
    async def generate(self, request: Request) -> Generation:
        await asyncio.sleep(0)  # then others ask in between
        return await super().generate(request)


def test_linear_keeps_users_apart_and_an_episode_again_is_the_same() -> None:
    settings = CalendarSettings(rounds=12, users_each=1, validation_organisations=2)
    tasks = CalendarConflicts(settings).tasks(3, 7, "validation")  # two users, and another year of one
    policy = Waiting(LinearSettings(prior="flat"))

    async def together() -> list[Episode]:
        worlds = [CalendarConflicts(settings) for _ in tasks]
        runs = [Engagement(world, PolicyAgent(policy)).run(task) for world, task in zip(worlds, tasks, strict=True)]
        return list(await asyncio.gather(*runs))

    first, second = asyncio.run(together()), asyncio.run(together())
    for task, one, again in zip(tasks, first, second, strict=True):
        own = LinearPolicy(LinearSettings(prior="flat"))
        world = CalendarConflicts(settings)
        alone = asyncio.run(Engagement(world, PolicyAgent(own)).run(task))
        assert one.series("error") == again.series("error") == alone.series("error")


def _event(letter: str, **tags: str) -> dict[str, str]:
    plain = {
        "start": "10:00", "min": "30", "by": "peer", "who": "peer", "size": "2", "topic": "admin", "urgency": "normal",
        "due": "none", "place": "room", "series": "none", "notice": "planned", "hold": "none",
    }  # fmt: skip
    return {"letter": letter, **plain, **tags}


@pytest.mark.parametrize(
    ("rule", "events", "order"),
    [
        ("earliest", [_event("A"), _event("B", start="09:45"), _event("C", start="10:15")], "BAC"),
        ("most_attendees", [_event("A"), _event("B", size="12"), _event("C", size="9")], "BCA"),
        ("most_urgent", [_event("A", due="today"), _event("B", urgency="high"), _event("C", urgency="low")], "BAC"),
        ("most_senior", [_event("A"), _event("B", who="superior,vendor"), _event("C", who="client")], "BCA"),
        ("regular_first", [_event("A"), _event("B", series="monthly"), _event("C")], "BAC"),
        ("first_shown", [_event("A"), _event("B", urgency="high"), _event("C")], "ABC"),
    ],
)
def test_a_rule_ranks_by_what_it_says(rule: str, events: list[dict[str, str]], order: str) -> None:
    assert "".join(RULES[rule](events)) == order
    with pytest.raises(UnknownNameError, match='did you mean "earliest"'):
        RulesPolicy(RulesSettings(rule="earlyest"))


def test_figures_by_hand() -> None:
    errors = [1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert quarters(errors) == [1.0, 0.5, 0.0, 0.5]
    assert error_reduction(errors) == 0.5
    assert average_errors([1.0] * 25 + [0.0] * 79)["aer@104"] == pytest.approx(25 / 104)
    assert average_errors([1.0] * 25 + [0.0] * 25) == {"aer@1": 1.0, "aer@25": 1.0, "aer@50": 0.5, "aer": 0.5}
    assert [rank_distance("B", order, 5) for order in ("BACDE", "ABCDE", "ACDEB", "", "ACDE")] == [1.0, 0.75, 0, 0, 0]
    assert error_reduction([0.0] * 8) == 0.0
    assert error_reduction([0.0] * 6 + [1.0] * 2) == -1.0
    assert error_reduction([]) == 0.0
    assert error_reduction([1.0]) == 0.0


def recorded() -> Episode:
    """Three rounds: right with an update; wrong with a refused update; invalid with a list."""
    episode = Episode(Task(0, 7), rounds=3)
    for number, (error, distance, form) in enumerate([(0.0, 1.0, 1.0), (1.0, 0.75, 1.0), (1.0, 0.0, 0.0)], 1):
        episode.measures += [
            Measure("error", error, 0, number),
            Measure("ord", distance, 0, number),
            Measure("format", form, 0, number),
        ]
    for number, action, well in ((1, "update", True), (2, "update", False), (3, "list", True)):
        call = Call("strategy_hub", {"action": action}, f"{number}.0")
        episode.turns.append(Turn(number - 1, 0, 1, number, calls=(call,)))
        episode.events.append(Event(0, "observation", "answer", {"well": well, "call": call.id}))
    return episode


@pytest.mark.parametrize(
    ("model", "track", "values"),
    [
        (CalendarFormat(), "base", [1.0, 1.0, 0.0]),
        (CalendarDecision(), "personal", [1.0, 0.0, 0.0]),
        (CalendarRanking(), "personal", [1.0, 0.75, 0.0]),
        (CalendarHub(), "base", [1.0, 0.0, 0.0]),
        (CalendarHub(CalendarHubSettings(actions=())), "base", [1.0, 0.0, 1.0]),
        (CalendarHub(CalendarHubSettings(tools=("other",))), "base", [0.0, 0.0, 0.0]),
    ],
)
def test_each_round_gets_its_score(model: CalendarFormat | CalendarHub, track: str, values: list[float]) -> None:
    scores = asyncio.run(model.score([recorded()]))
    assert [score.value for score in scores] == values
    assert [score.round for score in scores] == [1, 2, 3]
    assert {score.track for score in scores} == {track}


@pytest.mark.parametrize("rule", ["earliest", "most_urgent"])
def test_a_reference_is_what_the_policy_of_that_rule_reaches(rule: str) -> None:
    environment = CalendarConflicts(CalendarSettings(rounds=30))
    (task,) = environment.tasks(1, 7, "test")

    episode = asyncio.run(Engagement(environment, PolicyAgent(RulesPolicy(RulesSettings(rule=rule)))).run(task))

    assert environment.references(task)[RULE_TITLES[rule]] == pytest.approx(episode.outcome)


def test_a_run_shows_them_beside_its_own_figures(agentfw: Agentfw, tmp_path: Path) -> None:
    words = ["--episodes", "2", "--set", "environment.rounds=25", "--memory", "strategyhub"]
    code, out, err = agentfw("run", "calendar", *words)
    assert code == 0
    (folder,) = (tmp_path / "runs").iterdir()

    assert err.startswith("calendar   2 users   25 rounds of 5 events   policy linear   memory strategyhub   seed 7\n")
    rows = [line for line in out.splitlines() if line.startswith(("linear", "random", *RULE_TITLES.values()))]
    assert rows[0].startswith("linear + strategyhub")
    assert len(rows) == 7
    assert all(len(line) <= 80 for line in rows)
    means = [float(row[22:].split()[1]) for row in rows[1:]]
    assert means == sorted(means), "the best of them first"

    assert "most urgent first" in (folder / "report.html").read_text()
    record = json.loads((folder / "summary.json").read_text())
    assert set(record["references"]) == {"random", *RULE_TITLES.values()}
    assert RunFolder.open(folder).columns["aer@25"] == "@25"
