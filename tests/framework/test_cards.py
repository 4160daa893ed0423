"""Which GPUs learn and which play, on machines of one to eight cards that a stand-in for nvidia-smi describes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.engine import EngineSettings, LocalEngine, Resources, make_engine
from agentfw.errors import SettingsError, UsageError

Machine = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Let this machine have cards, each of so many GB in all and free."""

    def make(*cards: tuple[int, int], visible: str | None = None) -> None:
        lines = [
            f"{number}, GPU-{number}{number}, NVIDIA H100 80GB HBM3, {total * 1024}, {free * 1024}, 575.57.08"
            for number, (total, free) in enumerate(cards)
        ]
        asked = tmp_path / "nvidia-smi"
        asked.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
        asked.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return make


@pytest.mark.parametrize(
    ("count", "wish", "learning", "playing"),
    [
        (1, "auto", "0", "0"),
        (8, "auto", "01", "234567"),
        (8, "2+2", "01", "23"),
        (4, "0+4", "0123", "0123"),
        (8, "4", "0", "123"),
    ],
)
def test_a_quarter_of_the_cards_learns_unless_a_wish_says_otherwise(
    machine: Machine, count: int, wish: str, learning: str, playing: str
) -> None:
    machine(*[(80, 79)] * count)

    plan = make_engine(EngineSettings(gpus=wish), learns=True).plan

    assert "".join(card.name for card in plan.learning) == learning
    assert "".join(card.name for card in plan.playing) == playing


def test_the_largest_cards_learn_and_one_that_another_program_fills_is_left_to_it(machine: Machine) -> None:
    machine((24, 23), (80, 10), (80, 79), (24, 23))

    plan = LocalEngine(learns=True).plan

    assert [card.name for card in plan.learning] == ["2"]
    assert [card.name for card in plan.playing] == ["0", "3"]
    assert plan.words() == "the learner on GPU 2 (H100 80GB HBM3, 80 GB); playing on GPUs 0 and 3"
    assert plan.own == "cuda:2", "as it is named among those that its process sees"


def test_a_wish_that_cant_be_met_is_refused_with_what_would_fit(machine: Machine) -> None:
    machine((80, 79), (80, 1))

    with pytest.raises(SettingsError, match=r"needs 4 GPUs, and 1 of this machine are free.*filled by another") as told:
        _ = LocalEngine("2+2", learns=True).plan

    assert told.value.fix == "set engine.gpus=1"


def test_processes_that_play_never_get_the_learner_s_card(machine: Machine) -> None:
    machine(*[(80, 79)] * 4, visible="4,5,6,7")
    engine = LocalEngine("2+2", learns=True)

    played = [
        engine.start("builtins:dict", name=f"replica {number}", resources=Resources(gpus=1.0)) for number in (0, 1)
    ]
    learned = engine.start("builtins:dict", name="worker", resources=Resources(gpus=1.0, learns=True))
    with pytest.raises(UsageError, match="no GPU has room"):
        engine.start("builtins:dict", name="replica 2", resources=Resources(gpus=1.0))

    for each in (*played, learned):
        each.ready.exception(60)  # by then it has its environment
    seen = [Path(f"/proc/{each._process.pid}/environ").read_text() for each in (*played, learned)]  # type: ignore[attr-defined]
    engine.close()
    assert [text.partition("CUDA_VISIBLE_DEVICES=")[2].partition("\0")[0] for text in seen] == ["6", "7", "5"]
    assert engine.plan.own == "cuda:0"


@pytest.mark.parametrize(("card", "packing"), [("NVIDIA H100 80GB HBM3", "plain"), ("NVIDIA A100", "tree")])
def test_what_the_doctor_found_of_this_card_takes_the_place_of_a_default(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, card: str, packing: str
) -> None:
    learners = pytest.importorskip("agentfw_plugins.learners.model_learner")
    from agentfw_plugins.learners.settings import LoraSettings

    machine((80, 79))
    monkeypatch.chdir(tmp_path)
    rows = [{"row": "card", "card": card}, {"row": "flex", "failed": "it took more than 240 s"}]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "gpu.json").write_text(json.dumps(rows))

    engine = LocalEngine(learns=True)
    learner = learners.LoraLearner(LoraSettings(), engine)

    assert learner.settings.packing == packing
    asked = learners.LoraLearner(LoraSettings(packing="tree"), engine)
    assert asked.settings.packing == "tree", "who sets it by hand knows better"
    assert ("learner.packing = plain if it isn't set, because" in engine.plan.words()) == (packing == "plain")
    assert ("it took more than 240 s" in engine.plan.words()) == (packing == "plain")
