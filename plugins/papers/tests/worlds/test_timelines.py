"""Worlds with explicit time: the patrol hears of alarms when its interface says, and thinking takes its time.

Tables learn what pays in them from what is on record. In the world of the machine what is known is Bayes' rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw import Episode, Intervention, Moment, PolicyAgent, Task
from agentfw.agent import Agent
from agentfw.environment import Environment, World, action
from agentfw.episode import Event
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven, Interface, Polling, StepLoop
from agentfw.learner import Batch
from agentfw.optimizer import Loss
from agentfw_papers.tables import table_training
from agentfw_papers.tables.value_table import QTablePolicy, QTableSettings, Table, TabularLearner
from agentfw_papers.worlds.deliberation.environment import Deliberation, DeliberationSettings
from agentfw_papers.worlds.machine.environment import Machine, MachineSettings, Rates
from agentfw_papers.worlds.machine.rule_policy import MachineKeeper, MachineKeeperSettings, Plan
from agentfw_papers.worlds.patrol.environment import Patrol, situation
from agentfw_papers.worlds.patrol.patrol_settings import PatrolSettings
from agentfw_papers.worlds.patrol.rule_policy import ControllerSettings, PatrolController

from .playing import Rule, Ruled, observed, refusals
from .playing import play as play_in

RESPOND = Intervention("respond")


def play(agent: Agent, interface: Interface | None = None, seed: int = 3, **settings: Any) -> Episode:
    return play_in(Patrol(PatrolSettings(**settings)), agent, Task(0, seed=seed), interface)


def controlled(name: str, interface: Interface | None = None, seed: int = 3, **settings: Any) -> Episode:
    policy = PatrolController(ControllerSettings.model_validate({"controller": name}))
    return play(PolicyAgent(policy, window=1), interface, seed, **settings)


def idle(moment: Moment) -> Iterable[Intervention]:
    return []


def always(moment: Moment) -> Iterable[Intervention]:
    return [RESPOND] if situation(moment) else []


def works(episode: Episode, *states: str) -> list[Event]:
    return [event for event in episode.events if event.kind == "work" and event.data["state"] in states]


def paid(episode: Episode, reason: str) -> list[float]:
    return [event.data["value"] for event in episode.events if event.kind == "utility" and event.name == reason]


def test_the_round_goes_on_by_itself_and_an_alarm_that_is_left_alone_expires_and_costs() -> None:
    calm = play(Ruled(idle), rate=1e-9, horizon=108)
    # Four checkpoints, each 20 ticks of handling and 7 of walking to the next.
    assert (calm.outcome["handled"], calm.utility, len(calm.turns)) == (4, 40, 1)

    episode = play(Ruled(idle), horizon=200)
    assert episode.outcome["resolved"] == 0
    assert paid(episode, "alarm expired") == [-20] * int(episode.outcome["expired"])
    for alarm, end in zip(observed(episode, "alarm"), observed(episode, "expired"), strict=False):
        assert end.time - alarm.time == alarm.data["remaining"]


def test_who_responds_walks_there_stays_and_goes_back_to_where_the_work_was_left() -> None:
    episode = play(Ruled(always), horizon=1000)
    aside = next(event for event in works(episode, "interrupted") if event.data["spent"] > 0)
    after = [event for event in episode.events if event.kind == "work" and event.time >= aside.time]
    began = [event.name for event in after if event.data["state"] == "started"]
    assert began[:3] == ["to the alarm", "resolve", "walk"]
    again = next(event for event in after if event.data["state"] == "resumed")
    assert (again.name, again.data["spent"]) == ("handle", aside.data["spent"])


def test_a_phase_that_is_broken_off_begins_anew_and_costs() -> None:
    episode = play(Ruled(always), depth=2)
    assert not works(episode, "interrupted")
    broken = [event for event in works(episode, "cancelled") if event.name in ("observe", "commit")]
    prices = {"observe": -1.0, "commit": -6.0}
    assert paid(episode, "left in the middle") == [prices[one.name] for one in broken if one.data["spent"] > 0]
    assert episode.outcome["cost"] == -sum(paid(episode, "left in the middle"))

    between = controlled("loop", StepLoop(), depth=3)
    assert between.outcome["resolved"] > 0
    assert between.outcome["cost"] == 0, "between two phases leaving costs nothing"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_loop_hears_of_alarms_only_between_two_pieces_of_work(depth: int) -> None:
    heard: list[float] = []

    def watching(moment: Moment) -> Iterable[Intervention]:
        heard.extend([moment.now] if situation(moment) else [])
        return always(moment)

    episode = play(Ruled(watching), StepLoop(), depth=depth)
    assert heard
    assert set(heard) <= {event.time for event in works(episode, "finished")}


def test_responding_to_nothing_or_twice_is_refused() -> None:
    def twice(moment: Moment) -> Iterable[Intervention]:
        return [RESPOND] if moment.now == 0 and moment.woken else [RESPOND, RESPOND] if moment.of("alarm") else []

    assert set(refusals(play(Ruled(twice)))) == {"there is no alarm", "you are on your way already"}


def test_looking_again_tells_how_things_stand_then() -> None:
    def look(moment: Moment) -> Iterable[Intervention]:
        return [Intervention("look_again", {"after": 4}) for _ in moment.of("alarm")]

    episode = play(Ruled(look), rate=0.01, deadline=(20, 20), seed=5)
    alarm, seen = observed(episode, "alarm")[0], observed(episode, "look")[0]
    assert (seen.time - alarm.time, seen.data["remaining"]) == (4, 16)


@pytest.mark.parametrize(
    ("depth", "controller", "interface"),
    [(1, "greedy", Polling(7)), (2, "patchpro", EventDriven()), (3, "loop", StepLoop())],
)
def test_two_levels_as_modules_come_to_the_same(depth: int, controller: str, interface: Interface) -> None:
    for seed in range(5):
        plain = controlled(controller, interface, seed, depth=depth)
        composed = controlled(controller, interface, seed, depth=depth, modules=True)
        assert composed.outcome == plain.outcome
        assert composed.utility == plain.utility
        both = ([turn for turn in episode.turns if not turn.seat] for episode in (plain, composed))
        first, second = ([(turn.started, turn.calls) for turn in turns] for turns in both)
        assert first == second
        assert {event.seat for event in composed.events} == {"", "rounds"}
        assert not any(turn.calls for turn in composed.turns if turn.seat)
        assert {event.seat for event in composed.events if event.kind == "work" and event.name != "round"} == {"rounds"}


# -- deliberation: late is late ----------------------------------------------------------------------------------------


def deliberate(rule: Rule, seed: int = 3, **settings: Any) -> Episode:
    return play_in(Deliberation(DeliberationSettings(**settings)), Ruled(rule), Task(0, seed=seed))


def think(mode: int) -> Rule:
    """Think about each question in this mode."""
    return lambda moment: [Intervention("think", {"mode": mode}) for _ in moment.of("question")]


def test_an_answer_is_in_time_when_it_is_due_and_later_costs_the_penalty_at_its_deadline_and_only_once() -> None:
    assert deliberate(think(2), gaps=(2.0,), qualities=(1, 1, 1, 1, 1), toll=0).utility == 4
    episode = deliberate(think(3), gaps=(3.0,), qualities=(1, 1, 1, 1, 1), toll=0)
    assert [(event.time, event.data["value"]) for event in episode.events if event.kind == "utility"] == [(3, -2)]
    assert episode.outcome == {"success": 0, "timeout": 1, "deepest": 0}


def test_in_a_chain_thinking_long_makes_the_next_questions_late_and_who_never_answers_pays_for_each() -> None:
    deep, quick = (deliberate(think(mode), setting="chain") for mode in (5, 1))
    idle = deliberate(lambda moment: [], setting="chain")
    assert deep.outcome["timeout"] >= 0.9
    assert quick.outcome["timeout"] == 0
    assert (deep.ended, quick.ended) == (120, 10)
    assert (idle.utility, idle.outcome["timeout"]) == (-20, 1)


def test_both_worlds_ask_the_same_questions_one_at_a_time() -> None:
    def questions(instant: bool, mode: int) -> list[tuple[float, str]]:
        asked = observed(deliberate(think(mode), setting="chain", instant=instant), "question")
        return [(event.data["due"], event.data["difficulty"]) for event in asked]

    assert questions(False, 1) == questions(False, 4) == questions(True, 5)
    assert len(questions(True, 5)) == 10
    assert refusals(deliberate(lambda moment: [*think(1)(moment)] * 2)) == ["you are thinking already"]


# -- tables learn what pays --------------------------------------------------------------------------------------------


class Corridor(Environment):
    """Three doors: `back` pays 1 and ends it; `on` leads to the next; behind the last there is 10, two ticks later."""

    def begin(self, world: World, task: Task) -> None:
        self.world, self.door = world, 0
        self._tell()

    def _tell(self) -> None:
        self.world.observe("door", {"state": f"door {self.door}"})

    @action
    def back(self) -> None:
        """Leave."""
        self.world.utility(1.0, "back")
        self.world.finish()

    @action(takes=1)
    def on(self) -> None:
        """Go on."""
        self.door += 1
        if self.door < 3:
            self._tell()
        else:
            self.world.after(2, self._through)

    def _through(self) -> None:
        self.world.utility(10.0, "through")
        self.world.finish()


CHOICES = [Intervention("back"), Intervention("on")]


def test_a_table_finds_what_pays_in_the_end() -> None:
    table = table_training.train(Corridor, CHOICES, episodes=400, seed=1)
    for door in range(3):
        assert table.best(f"door {door}") == 1
    # Door 2 is five ticks before the ten: one to go on, two to wait, and 0.99 off each tick.
    assert table.values["door 2"][1] == pytest.approx(10 * 0.99**3)
    assert table.worth("door 0") == pytest.approx(10 * 0.99**5, rel=0.03)


def test_a_table_comes_back_from_its_file(tmp_path: Path) -> None:
    table = table_training.train(Corridor, [None, *CHOICES], episodes=30)
    table.save(tmp_path / "doors.json")
    policy = QTablePolicy(QTableSettings(table=str(tmp_path / "doors.json")))
    assert policy.table.to_record() == table.to_record()
    assert policy.version == "doors"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"choices": [["on"]], "states": {}}',
        '{"choices": [null], "states": {"a": {"values": [1, 2], "visits": [1, 2]}}}',
        '{"choices": [null], "states": {"a": {"values": ["much"], "visits": [1]}}}',
    ],
)
def test_a_file_that_is_no_table_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text, "utf-8")
    with pytest.raises(SettingsError, match="not a value table"):
        Table.load(tmp_path / "table.json")
    with pytest.raises(SettingsError, match="can't read"):
        Table.load(tmp_path / "elsewhere.json")


def test_the_learner_goes_on_with_a_table_and_writes_it_down(tmp_path: Path) -> None:
    explorer, tasks = QTablePolicy.of(Table(CHOICES), explore=1.0), Corridor().tasks(100, 3, "train")
    episodes = list(table_training.play(Corridor, explorer, tasks))
    learner = TabularLearner()
    update = learner.update(Batch(episodes, [], Loss(), tmp_path / "1"))
    assert update.metrics["states"] == 3
    # Which choices there are it reads off the record.
    learned = Table.load(update.adapter)
    assert {choice.name for choice in learned.choices if choice} == {"back", "on"}
    again = TabularLearner()
    again.restore(learner.state())
    batch = Batch(episodes[:10], [], Loss(), tmp_path / "2")
    assert Table.load(again.update(batch).adapter).to_record() == Table.load(learner.update(batch).adapter).to_record()


# -- the machine: the plan is worth what it promises -------------------------------------------------------------------


probabilities = st.floats(0.01, 0.99)
rates = st.builds(Rates, probabilities, probabilities, probabilities)


def played(count: int, interface: Interface | None = None, seed: int = 5, **policy: object) -> list[Episode]:
    keeper = MachineKeeper(MachineKeeperSettings.model_validate(policy))
    return list(table_training.play(Machine, keeper, Machine().tasks(count, seed, "test"), interface or EventDriven()))


def posterior(rates: Rates, noises: Sequence[bool]) -> float:
    """The probability that the machine is broken at the end, by adding up every way in which it can have gone."""
    total = broken_at_end = 0.0
    for states in product((False, True), repeat=len(noises)):
        likely, before = 1.0, False
        for broken, noise in zip(states, noises, strict=True):
            likely *= float(broken) if before else (rates.breaks if broken else 1 - rates.breaks)
            often = rates.rattles if broken else rates.hums
            likely *= often if noise else 1 - often
            before = broken
        total += likely
        broken_at_end += likely * before
    return broken_at_end / total


@settings(deadline=None, max_examples=80)
@given(rates, st.lists(st.booleans(), min_size=1, max_size=7))
def test_a_belief_is_the_posterior_of_a_hidden_markov_model(rates: Rates, noises: Sequence[bool]) -> None:
    """Appendix B.4: with one observation at each tick, it is the belief of a POMDP. Silence is an observation too."""
    belief = 0.0
    for noise in noises:
        belief = rates.after(belief, noise=noise)

    assert belief == pytest.approx(posterior(rates, noises), abs=1e-9)


def test_the_world_tells_the_belief_of_whoever_hears_all_and_a_repair_takes_its_time() -> None:
    listened, repaired = played(1, rule="never")[0], played(1, rule="noise")[0]

    rates, belief, since = MachineSettings().rates, 0.0, 0.0
    noises = observed(listened, "noise")
    for event in noises:
        belief = rates.after(rates.after_silence(belief, int(event.time - since) - 1), noise=True)
        assert event.data["belief"] == pytest.approx(belief)
        since = event.time
    assert len(noises) > 4
    repairs = [event.time for event in repaired.events if event.kind == "intervention"]
    back = observed(repaired, "repaired")
    assert [event.time - begun for begun, event in zip(repairs, back, strict=False)] == [3] * len(back)
    assert {event.data["belief"] for event in back} == {0.0}
    assert repaired.outcome["repairs"] == len(repairs) > 3


@pytest.mark.parametrize(
    ("every", "interface"), [(1, EventDriven()), pytest.param(10, Polling(10), marks=pytest.mark.nightly)]
)
def test_the_plan_is_worth_what_it_promises(every: int, interface: Interface) -> None:
    """The mean return of 100 episodes is the value at the start: within four standard errors."""
    promised = Plan(MachineSettings(), every).worth(0.0, 200)
    returns = [episode.utility for episode in played(100, interface, every=every)]

    mean = math.fsum(returns) / len(returns)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in returns)) / len(returns)
    assert abs(mean - promised) < 4 * error
    assert error < 0.1 * abs(promised)
