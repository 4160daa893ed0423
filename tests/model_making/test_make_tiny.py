"""The maker of the small model: one command, one folder, which the policy reads; and the optimizer it trains with."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

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
def test_muon_steps_as_far_in_every_direction_of_a_matrix() -> None:
    torch = pytest.importorskip("torch")
    from agentfw_plugins.models.making import orthogonal

    torch.manual_seed(1)
    for shape in ((32, 64), (64, 32), (48, 48)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(*shape) * 10 ** random.Random(3).uniform(-3, 3)))
        assert values.min() > 0.3
        assert values.max() < 1.3
