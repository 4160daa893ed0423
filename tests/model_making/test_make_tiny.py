"""The maker of the small model: one command, one folder, which the policy reads; and the optimizer it trains with."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from calendar_teacher import read_weights
from tiny_lessons import play

from agentfw.turns.parsing import parse_calls
from agentfw_plugins.models.making import Lesson
from agentfw_plugins.models.small_model import SmallChat
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings

MAKER = Path(__file__).parents[2] / "model_making" / "make_tiny.py"


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


@pytest.mark.slow
def test_in_some_years_the_hub_is_meddled_with() -> None:
    years = list(play("train", 4, processes=1))

    def jumps(lessons: list[Lesson]) -> int:
        """Rounds before which the hub was not as the teacher had left it."""
        shown = [read_weights([messages[-1].content]) for messages, _ in lessons]
        calls = [parse_calls(answer, {"strategy_hub"}).calls for _, answer in lessons]
        written = [read_weights(each[0].arguments["strategies"]) if each else {} for each in calls]
        left = [update or hub for update, hub in zip(written, shown, strict=True)]
        return sum(before != now for before, now in zip(left, shown[1:], strict=False))

    assert jumps(years[3]) == 0
    assert jumps(years[0]) > 5


@pytest.mark.slow
@pytest.mark.parametrize("attention", [0.0, 0.55, 1.0])
def test_an_inattentive_teacher_learns_from_so_many_feedbacks(attention: float) -> None:
    """Of four years of 103 feedbacks each; at 0.55 three standard deviations are 0.07."""
    years = list(play("train", 4, processes=2, attention=attention))

    learns = [answer.startswith("named: ") for year in years for _, answer in year[1:]]

    assert len(learns) == 4 * 103
    assert sum(learns) / len(learns) == pytest.approx(attention, abs=0.07 if 0 < attention < 1 else 0)
    assert all('"decide"' in answer for year in years for _, answer in year)


@pytest.mark.slow
def test_muon_steps_as_far_in_every_direction_of_a_matrix() -> None:
    torch = pytest.importorskip("torch")
    from agentfw_plugins.models.making import orthogonal

    torch.manual_seed(1)
    for shape in ((32, 64), (64, 32), (48, 48)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(*shape) * 10 ** random.Random(3).uniform(-3, 3)))
        assert values.min() > 0.3
        assert values.max() < 1.3


@pytest.mark.slow
def test_muon_fits_a_matrix_whose_directions_matter_unequally() -> None:
    torch = pytest.importorskip("torch")
    from agentfw_plugins.models.making import Muon

    torch.manual_seed(2)
    wanted, inputs = torch.randn(16, 16), torch.randn(256, 16) * torch.logspace(0, -1, 16)
    matrix = torch.zeros(16, 16, requires_grad=True)
    muon, losses = Muon([matrix]), []
    for step in range(150):
        matrix.grad = None
        loss = ((inputs @ (matrix - wanted)) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
        muon.step(0.1 * (1 - step / 150))

    assert losses[-1] < 0.01 * losses[0]
