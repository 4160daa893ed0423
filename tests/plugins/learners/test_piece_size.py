"""How many tokens are computed at once, where the settings leave it open: as many as share what can be shared."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw.optimizer import Loss
from agentfw.seeds import Seeds
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.learners.token_tree import FEWEST, TurnTokens, choose_size, pack, unique_tokens

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from agentfw_plugins.learners import network  # noqa: E402
from agentfw_plugins.learners.descent import Descent  # noqa: E402
from agentfw_plugins.learners.lessons import Lesson  # noqa: E402
from agentfw_plugins.learners.network import Network  # noqa: E402
from agentfw_plugins.models import base  # noqa: E402


def samples_of(prompt: int, answer: int, count: int = 8) -> list[TurnTokens]:
    draw = random.Random(7)
    shown = [draw.randrange(10, 380) for _ in range(prompt)]
    return [
        TurnTokens(shown, [10 + number, *(draw.randrange(10, 380) for _ in range(answer - 1))])
        for number in range(count)
    ]


def computed(turns: list[TurnTokens], tokens: int) -> int:
    return sum(packed.computed for packed in pack(turns, tokens))


def test_eight_long_samples_share_their_prompt() -> None:
    turns = samples_of(4000, 2000)

    assert computed(turns, 4096) == 8 * 5999  # nothing is shared
    assert computed(turns, choose_size(turns, 1 << 20)) == unique_tokens(turns) == 4000 + 8 * 1999


@pytest.mark.parametrize(("prompt", "answer"), [(4000, 2000), (100, 3000), (2000, 40), (6000, 6000)])
@pytest.mark.parametrize("most", [500, 4096, 10_000, 1 << 20])
def test_a_size_fits_and_is_no_larger_than_is_useful(prompt: int, answer: int, most: int) -> None:
    turns = samples_of(prompt, answer)

    size = choose_size(turns, most)

    assert size <= most
    if size < most:
        assert computed(turns, size) <= 1.05 * unique_tokens(turns)
    if size > 4096:
        assert computed(turns, size // 2) > 1.05 * unique_tokens(turns)


def figures_of(model: Path, turns: list[TurnTokens], **changes: Any) -> tuple[dict[str, float], Network]:
    made = Network(LoraSettings(model=str(model), device="cpu", **changes), Seeds(7))
    optimizer = torch.optim.SGD(made.parameters(), lr=1e-3)
    lessons = [Lesson(turn, 1.0, (), 0, number) for number, turn in enumerate(turns)]
    return Descent(made, optimizer, made.settings, 1e-3).learn([[lessons]], Loss(), 1), made


@pytest.mark.slow
def test_an_update_computes_each_unique_token_once_and_says_so(small_model: Path) -> None:
    turns = samples_of(1200, 500)

    found, _ = figures_of(small_model, turns)
    small, _ = figures_of(small_model, turns, tokens=2000)

    assert found["tokens_computed"] == found["tokens_unique"] == unique_tokens(turns)
    assert small["tokens_unique"] == found["tokens_unique"] < small["tokens_computed"]


@pytest.mark.slow
def test_little_memory_makes_small_pieces(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plenty, made = figures_of(small_model, samples_of(1200, 500))
    monkeypatch.setattr(network, "machine_memory", lambda: 20 << 20)

    found, _ = figures_of(small_model, samples_of(1200, 500))

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


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["tree", "plain"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_what_a_token_is_said_to_keep_grows_with_what_is_computed(
    make_model: Callable[..., Path], tmp_path: Path, packing: Any, checkpointing: bool
) -> None:
    """Twice the layers keep twice as much; computing activations twice keeps much less."""
    rooms = {}
    for layers in (4, 8):
        folder = make_model(tmp_path / str(layers), num_hidden_layers=layers)
        settings = LoraSettings(model=str(folder), packing=packing, checkpointing=checkpointing, device="cpu")
        rooms[layers] = Network(settings, Seeds(7)).room()
    unkept = Network(
        LoraSettings(model=str(tmp_path / "8"), packing=packing, checkpointing=not checkpointing, device="cpu"),
        Seeds(7),
    ).room()

    assert rooms[8] < rooms[4]
    if checkpointing:
        assert rooms[8] > 3 * unkept
    else:
        assert rooms[4] / rooms[8] == pytest.approx(2, rel=0.1)


def test_what_is_kept_counts_each_tensor_once_and_no_weights() -> None:
    layer = torch.nn.Linear(100, 50, bias=False)
    given = torch.randn(10, 100, requires_grad=True)

    kept = network.kept_bytes(lambda: layer(given) * 2 + layer(given), layer.parameters())

    assert kept == given.nbytes


def test_a_container_s_limit_is_the_machine_s_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(base, "_CONTAINER_LIMITS", (tmp_path / "absent", limit))
    limit.write_text("max\n")
    whole = base.machine_memory()

    limit.write_text("1048576\n")

    assert base.machine_memory() == 1 << 20 < whole


def test_plain_rows_keep_to_the_least_size(small_model: Path) -> None:
    """Rows share nothing, so larger pieces would only take more memory."""
    _, made = figures_of(small_model, samples_of(30, 8), packing="plain")

    assert made.piece_size == FEWEST
