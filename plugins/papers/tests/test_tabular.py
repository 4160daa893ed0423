"""Tables: they learn what pays from what is on record, and one seed gives one table."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentfw.environment import Environment, World, action
from agentfw.episode import Intervention, Task
from agentfw.errors import SettingsError
from agentfw.learner import Batch
from agentfw.optimizer import Loss
from agentfw_papers.tables.table_training import play, train
from agentfw_papers.tables.value_table import QTablePolicy, QTableSettings, Table, TabularLearner


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
