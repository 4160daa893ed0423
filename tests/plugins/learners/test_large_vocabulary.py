"""With a large vocabulary, logits are what needs the most memory: they exist for a few tokens at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw.learner import Batch
from agentfw.optimizer import Loss
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.models import locate

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from agentfw_plugins.learners.model_learner import LoraLearner  # noqa: E402
from agentfw_plugins.policies.local.sampling import draw  # noqa: E402

VOCABULARY = 262_144
ROWS = 64
PROMPT = tuple(range(1000, 1400))


class Largest(TorchDispatchMode):  # type: ignore[misc]  # mypy does not follow torch
    """The most bytes of a tensor that any operation makes."""

    bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        made = function(*arguments, **(options or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.bytes = max(self.bytes, tensor.nbytes)
        return made


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    shape = {"vocab_size": VOCABULARY, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "sliding_window": 64}
    folder = tmp_path_factory.mktemp("large") / "model"
    config = transformers.Gemma3TextConfig(**shape, **heads, layer_types=["sliding_attention"])
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    shutil.copyfile(locate("tiny") / "tokenizer.json", folder / "tokenizer.json")
    return folder


@pytest.mark.parametrize("weights", ["lora", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.nightly
def test_a_tree_never_has_all_its_logits(model: Path, make_batch: Callable[..., Batch], weights: str) -> None:
    learner = LoraLearner(LoraSettings(model=str(model), weights=weights, learning_rate=1e-3))
    episodes = [[(PROMPT, tuple(range(5000 + n, 5100 + n)), 1.0 - n % 3)] for n in range(4)]

    with Largest() as largest:
        update = learner.update(make_batch(*episodes, loss=Loss(kl=0.1)))

    assert update is not None
    assert update.metrics["tokens_computed"] < 400 + 400
    assert largest.bytes <= ROWS * VOCABULARY * 4


def test_answers_are_drawn_few_at_a_time_and_each_as_if_alone() -> None:
    logits = torch.randn(ROWS, VOCABULARY, generator=torch.Generator().manual_seed(0)) * 3
    temperatures, top_ps, numbers = ([0.7, 1.0, 0.0, 1.3] * 16, [0.9, 1.0] * 32, [n / 64 for n in range(64)])

    with Largest() as largest:
        tokens, logprobs = draw(logits, temperatures, top_ps, numbers)

    assert largest.bytes < ROWS * VOCABULARY * 4
    for row in (0, 1, 2, 63):
        alone = draw(logits[row : row + 1], temperatures[row : row + 1], top_ps[row : row + 1], numbers[row : row + 1])
        assert alone == ([tokens[row]], [logprobs[row]])
