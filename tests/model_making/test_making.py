"""What makes the small models that ship: the teacher, the organisations that are drawn, and the commands themselves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from calendar_teacher import TeacherPolicy
from drawn_organisations import write_organisations
from tiny_lessons import play

from agentfw import Engagement, PolicyAgent, Task
from agentfw.episode import Episode
from agentfw.interfaces import EventDriven
from agentfw.memory import Memory
from agentfw.report.statistics import bootstrap
from agentfw_memory.writing.kinds import KINDS, WEIGHTS, probabilities, weights_of
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.models.small_model import SmallChat
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings
from agentfw_plugins.worlds.calendar.dataset import Dataset, is_sound
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings
from agentfw_plugins.worlds.calendar.schema import load_folder

MAKER = Path(__file__).parents[2] / "model_making" / "make_tiny.py"

# -- the teacher: what it writes can be read back, and what it knows of the user it has from the conversation alone ----


def keep(rounds: int, memories: Sequence[Memory], index: int = 0, split: str = "validation") -> Episode:
    environment = CalendarConflicts(CalendarSettings(rounds=rounds))
    user = environment.settings.dataset().users(split)[index]
    agent = PolicyAgent(TeacherPolicy(), memories=memories, window=2, recall=10)
    task = Task(index, seed=index, user=user, split=split)
    return asyncio.run(Engagement(environment, agent, EventDriven()).run(task))


def hub() -> StrategyHubMemory:
    return StrategyHubMemory(StrategyHubSettings(show=True))


def test_every_answer_is_understood_and_every_update_is_taken() -> None:
    episode = keep(30, [hub()])

    assert [turn.failures for turn in episode.turns] == [()] * 30
    assert episode.series("format") == [1.0] * 30
    assert not [event for event in episode.events if event.name == "refused"]


@pytest.mark.nightly
def test_with_its_hub_it_learns_its_user_and_without_it_does_not() -> None:
    with_hub = [sum(keep(60, [hub()], index).series("error")) for index in range(8)]
    without = [sum(keep(60, [], index).series("error")) for index in range(8)]

    assert bootstrap([more - less for more, less in zip(without, with_hub, strict=True)]).low > 5


# -- drawn organisations: years can be made in each, no two share their words, and lessons are played in them ----------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    write_organisations(folder, count=5, seed=3)
    return folder


def test_a_year_can_be_made_in_each(folder: Path) -> None:
    schemas = load_folder(folder)

    assert len(schemas) == 5
    for schema in schemas:
        dataset = Dataset(9, (schema,))
        user = dataset.user(dataset.users("test")[0])
        assert all(is_sound(shown, user) for shown in dataset.calendar(user).rounds)


def test_one_seed_draws_the_same_files_and_another_seed_others(folder: Path, tmp_path: Path) -> None:
    write_organisations(tmp_path / "again", count=2, seed=3)
    write_organisations(tmp_path / "other", count=2, seed=4)

    texts = {path.read_text("utf-8") for path in folder.iterdir()}
    assert {path.read_text("utf-8") for path in (tmp_path / "again").iterdir()} <= texts
    assert not {path.read_text("utf-8") for path in (tmp_path / "other").iterdir()} & texts


def test_every_second_year_is_played_in_a_drawn_organisation(folder: Path) -> None:
    names = {schema.archetype for schema in load_folder(folder)}

    years = list(play("train", 4, processes=1, organisations=str(folder)))

    drawn = [any(name in year[0][0][-1].content for name in names) for year in years]
    assert drawn == [False, True, False, True]


# -- the weights by which a memory tells kinds of sentences apart ------------------------------------------------------


@pytest.mark.nightly
def test_training_again_gives_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    import make_memory_kinds as maker

    some = maker.sentences()[::20]
    monkeypatch.setattr(maker, "STEPS", 5)
    monkeypatch.setattr(maker, "sentences", lambda: some)
    for name in ("one", "two"):
        maker.main(["--out", str(tmp_path / name)])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.nightly
def test_what_was_learned_is_told_apart_in_every_language() -> None:
    pytest.importorskip("scipy")
    from make_memory_kinds import sentences
    from safetensors.numpy import load_file

    some = sentences()[::10]
    texts, around = [one.text for one in some], [one.around for one in some]
    found = probabilities(weights_of(load_file(WEIGHTS)), texts, around).argmax(1)
    assert (found == [one.kind for one in some]).mean() > 0.9
    assert {one.kind for one in some} == set(range(len(KINDS)))


# -- the small model: one command, one folder, which the policy reads --------------------------------------------------


@pytest.mark.nightly
def test_a_command_makes_a_folder_that_the_policy_reads(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    command = [sys.executable, str(MAKER), "--years", "1", "--steps", "1"]
    subprocess.run([*command, str(tmp_path / "one")], check=True, capture_output=True)

    TinyPolicy(TinySettings(model=str(tmp_path / "one")))
    chat = SmallChat(tmp_path / "one")
    (with_comma,) = chat.answer(", client attends")[:-1]
    (without,) = chat.answer(" client attends")[:-1]
    assert with_comma != without
