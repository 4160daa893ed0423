"""Tables learn what pays from what is on record; and the machine, where what is known is Bayes' rule, and the plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw import Episode, Interface
from agentfw.environment import Environment, World, action
from agentfw.episode import Intervention, Task
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven, Polling
from agentfw.learner import Batch
from agentfw.optimizer import Loss
from agentfw_papers.tables.table_training import play, train
from agentfw_papers.tables.value_table import QTablePolicy, QTableSettings, Table, TabularLearner
from agentfw_papers.worlds.machine.environment import Machine, MachineSettings, Rates
from agentfw_papers.worlds.machine.rule_policy import MachineKeeper, MachineKeeperSettings, Plan


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
    table = train(Corridor, CHOICES, episodes=400, seed=1)
    for door in range(3):
        assert table.best(f"door {door}") == 1
    # Door 2 is five ticks before the ten: one to go on, two to wait, and 0.99 off each tick.
    assert table.values["door 2"][1] == pytest.approx(10 * 0.99**3)
    assert table.worth("door 0") == pytest.approx(10 * 0.99**5, rel=0.03)


def test_a_table_comes_back_from_its_file(tmp_path: Path) -> None:
    table = train(Corridor, [None, *CHOICES], episodes=30)
    table.save(tmp_path / "doors.json")
    policy = QTablePolicy(QTableSettings(table=str(tmp_path / "doors.json")))
    assert policy.table.to_record() == table.to_record()
    assert policy.version == "doors"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"choices": 3, "states": {}}',
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
    episodes = list(play(Corridor, QTablePolicy.of(Table(CHOICES), explore=1.0), Corridor().tasks(100, 3, "train")))
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
    return list(play(Machine, keeper, Machine().tasks(count, seed, "test"), interface or EventDriven()))


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


def test_the_world_tells_the_belief_of_whoever_hears_all() -> None:
    episode = played(1, rule="never")[0]
    told = [event for event in episode.events if event.kind == "observation"]

    belief, since = 0.0, 0.0
    for event in told[1:]:
        assert event.name == "noise"
        belief = MachineSettings().rates.after_silence(belief, int(event.time - since) - 1)
        belief = MachineSettings().rates.after(belief, noise=True)
        assert event.data["belief"] == pytest.approx(belief)
        since = event.time
    assert len(told) > 5


def test_a_repair_takes_its_time_and_leaves_a_sound_machine() -> None:
    episode = played(1, rule="noise")[0]
    repairs = [event.time for event in episode.events if event.kind == "intervention"]
    back = [event for event in episode.events if event.kind == "observation" and event.name == "repaired"]

    assert [event.time - begun for begun, event in zip(repairs, back, strict=False)] == [3] * len(back)
    assert {event.data["belief"] for event in back} == {0.0}
    assert episode.outcome["repairs"] == len(repairs) > 3


@pytest.mark.slow
@pytest.mark.parametrize(("every", "interface"), [(1, EventDriven()), (10, Polling(10))])
def test_the_plan_is_worth_what_it_promises(every: int, interface: Interface) -> None:
    """The mean return of 100 episodes is the value at the start: within four standard errors."""
    promised = Plan(MachineSettings(), every).worth(0.0, 200)
    returns = [episode.utility for episode in played(100, interface, every=every)]

    mean = math.fsum(returns) / len(returns)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in returns)) / len(returns)
    assert abs(mean - promised) < 4 * error
    assert error < 0.1 * abs(promised)
