"""How many tokens are computed at once, where the settings leave it open: as many as share what can be shared."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from agentfw.optimizer import Loss
from agentfw.seeds import Seeds
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.learners.token_tree import TurnTokens, pack, unique_tokens

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from agentfw_plugins.learners import network  # noqa: E402
from agentfw_plugins.learners.descent import Descent  # noqa: E402
from agentfw_plugins.learners.lessons import Lesson  # noqa: E402
from agentfw_plugins.learners.network import Network  # noqa: E402


def samples_of(prompt: int, answer: int, count: int = 8) -> list[TurnTokens]:
    draw = random.Random(7)
    shown = [draw.randrange(10, 380) for _ in range(prompt)]
    return [
        TurnTokens(shown, [10 + number, *(draw.randrange(10, 380) for _ in range(answer - 1))])
        for number in range(count)
    ]


def computed(turns: list[TurnTokens], tokens: int) -> int:
    return sum(packed.computed for packed in pack(turns, tokens))


def figures_of(model: Path, turns: list[TurnTokens], **changes: Any) -> tuple[dict[str, float], Network]:
    made = Network(LoraSettings(model=str(model), device="cpu", **changes), Seeds(7))
    optimizer = torch.optim.SGD(made.parameters(), lr=1e-3)
    lessons = [Lesson(turn, 1.0, (), 0, number) for number, turn in enumerate(turns)]
    return Descent(made, optimizer, made.settings, 1e-3).learn([lessons], Loss(), 1), made


@pytest.mark.slow
def test_an_update_computes_each_unique_token_once_and_says_so(small_model: Path) -> None:
    turns = samples_of(600, 200)

    found, _ = figures_of(small_model, turns)
    small, _ = figures_of(small_model, turns, tokens=900)

    assert found["tokens_computed"] == found["tokens_unique"] == unique_tokens(turns)
    assert small["tokens_unique"] == found["tokens_unique"] < small["tokens_computed"]


@pytest.mark.slow
def test_little_memory_makes_small_pieces(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plenty, made = figures_of(small_model, samples_of(600, 250))
    monkeypatch.setattr(network, "machine_memory", lambda: 10 << 20)

    found, _ = figures_of(small_model, samples_of(600, 250))

    assert made.room() < plenty["tokens_unique"]
    assert found["tokens_computed"] > plenty["tokens_computed"]


@pytest.mark.slow
def test_a_long_conversation_is_computed_twice_rather_than_once_a_turn(
    small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it can't be stored as a whole, but would be computed again for each turn of its second half."""
    draw = random.Random(1)
    said = [draw.randrange(10, 380) for _ in range(2000)]
    turns = [TurnTokens(said[: 200 * turn], said[200 * turn : 200 * turn + 20]) for turn in range(1, 10)]
    short = samples_of(100, 20, count=4)
    before, made = figures_of(small_model, turns, tokens=4000)
    assert not made.checkpointing
    monkeypatch.setattr(network, "machine_memory", lambda: 40 << 20)

    stored, never = figures_of(small_model, turns, checkpointing=False)
    found, made = figures_of(small_model, turns)

    assert stored["tokens_computed"] > 2 * stored["tokens_unique"]
    assert made.checkpointing
    assert found["tokens_computed"] == found["tokens_unique"]
    assert found["gradient_norm"] == pytest.approx(before["gradient_norm"], rel=1e-6)
    made.pack(short)
    never.pack(short)
    assert made.piece_size == never.piece_size  # a training that goes on here cuts what comes in the same way
