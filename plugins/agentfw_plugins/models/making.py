"""Makes small language models from lessons, like those that ship: a tokenizer, the folder, and the training.

    write_folder(folder, word_tokenizer(lessons, r" ?\\w+|[^\\w]"), about=ABOUT)
    train(folder, lessons, Recipe(steps=1500, rate=4e-3))

A lesson is what a model is shown in a turn, and the answer that it should give. Only answers are learned, not prompts.
Such a model reads and writes like a large one, and plays a world of its own in seconds. On one machine the same lessons
make the same weights. Training needs the extra `train`.
"""

from __future__ import annotations

import json
import math
import re
import string
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentfw import Message

from .small_model import END, ROLES, SmallChat

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

__all__ = ["ABOUT", "Lesson", "Recipe", "save", "train", "word_tokenizer", "write_folder"]

Lesson = tuple[list[Message], str]
"""The messages shown in a turn, and the teacher's answer."""

PAD = 3
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "tie_word_embeddings": True,
    "initializer_range": 0.02,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": PAD,
    "dtype": "float32",
}
TOKENIZER: dict[str, Any] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "agentfw_reads": "last_answer",
    "eos_token": END,
    "pad_token": "<|pad|>",
    "model_max_length": 2048,
    "clean_up_tokenization_spaces": False,
}
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message.role + '|>' + message.content + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def write_folder(
    folder: Path, tokenizer: Tokenizer, shape: Mapping[str, Any] | None = None, about: Mapping[str, Any] | None = None
) -> None:
    """Everything but the weights; `shape` and `about` say what is to differ in the configurations of both."""
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {**CONFIG, **(shape or {}), "vocab_size": -(-tokenizer.get_vocab_size() // 32) * 32}
    of_tokenizer = {**TOKENIZER, "model_max_length": config["max_position_embeddings"], **(about or {})}
    for name, content in (("config.json", config), ("tokenizer_config.json", of_tokenizer)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, "utf-8")


def steps_of(lengths: Sequence[int], count: int, seed: int) -> Iterator[list[int]]:
    """Which lessons come together, for ever: drawn anew each time round, of like length so that little is padded."""
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(len(lengths))
        for first in range(0, len(order), count * 40):
            some = sorted(order[first : first + count * 40], key=lambda place: lengths[place])
            steps = [[int(place) for place in some[at : at + count]] for at in range(0, len(some), count)]
            generator.shuffle(steps)
            yield from steps


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained on lessons."""

    steps: int
    rate: float
    """Highest learning rate of AdamW."""
    rows: int = 16
    """Lessons in a step, of about the same length."""
    muon: bool = True
    """Whether matrices are trained by Muon, at ten times that rate."""
    seed: int = 7


def train(folder: Path, lessons: Sequence[Lesson], recipe: Recipe, start: Path | None = None) -> None:
    """Write the weights into a folder that has all the rest."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(recipe.seed)
    chat = SmallChat(folder)
    rows = [(chat.prompt(messages), chat.answer(text)) for messages, text in lessons]
    options: dict[str, Any] = {"attn_implementation": "sdpa"}
    model = (
        LlamaForCausalLM.from_pretrained(start, **options)
        if start
        else LlamaForCausalLM(LlamaConfig.from_pretrained(folder, **options))
    )
    embedding = model.get_input_embeddings().weight
    matrices = [weight for weight in model.parameters() if weight.dim() > 1 and weight is not embedding]
    vectors = [weight for weight in model.parameters() if weight.dim() == 1]
    by_muon = [(matrix, torch.zeros_like(matrix)) for matrix in matrices if recipe.muon]
    by_adam = [embedding] if recipe.muon else [embedding, *matrices]
    groups = [{"params": by_adam, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    order = steps_of([len(prompt) + len(answer) for prompt, answer in rows], recipe.rows, recipe.seed)
    began, seen = time.monotonic(), []
    for step, places in zip(range(recipe.steps), order, strict=False):
        falling = 0.05 + 0.475 * (1 + math.cos(math.pi * step / recipe.steps))
        rate = recipe.rate * min(1.0, (step + 1) / 100) * falling
        for group in adam.param_groups:
            group["lr"] = rate
        some = [rows[place] for place in places]
        longest = max(len(prompt) + len(answer) for prompt, answer in some)
        ids = torch.full((len(some), longest), PAD)
        said = torch.zeros((len(some), longest), dtype=torch.bool)
        for number, (prompt, answer) in enumerate(some):
            ids[number, : len(prompt) + len(answer)] = torch.tensor([*prompt, *answer])
            said[number, len(prompt) - 1 : len(prompt) + len(answer) - 1] = True
        hidden = model.model(ids).last_hidden_state[said]
        wanted = ids[:, 1:][said[:, :-1]]
        logits = hidden @ model.lm_head.weight.T
        loss = torch.nn.functional.cross_entropy(logits, wanted)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        muon_step(by_muon, 10 * rate)
        seen.append((loss.item(), (logits.argmax(-1) == wanted).float().mean().item()))
        if (step + 1) % 100 == 0:
            means = np.mean(seen[-100:], 0)
            minutes = (time.monotonic() - began) / 60
            print(f"{step + 1}: loss {means[0]:.4f}, right {means[1]:.4f}, {minutes:.1f} min", file=sys.stderr)
        if (step + 1) % 500 == 0:  # can be measured while the training goes on
            save(model, folder / "model.safetensors")
    save(model, folder / "model.safetensors")


def save(model: Any, path: Path) -> None:
    """The weights, without the output's: they are the embedding's."""
    from safetensors.torch import save_file

    kept = {name: value.contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    unfinished = path.with_suffix(".new")
    save_file(kept, unfinished, {"format": "pt"})
    unfinished.replace(path)


_UNKNOWN = "<|unknown|>"
ABOUT = {"agentfw_reads": "last_message", "unk_token": _UNKNOWN}
"""Entries about this tokenizer in the configuration of a model."""


def word_tokenizer(lessons: Sequence[Lesson], pieces: str) -> Tokenizer:
    """The words of the lessons, and all printable characters. `pieces` is the pattern of a word."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    controls = [END, *ROLES.values(), "<|pad|>", _UNKNOWN]
    said = {piece for messages, answer in lessons for piece in re.findall(pieces, f"{messages[-1].content}\n{answer}")}
    words = [*controls, *sorted(said | set(string.printable))]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token=_UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in controls])
    return tokenizer


_MOMENTUM = 0.95
_DECAY = 0.01


def muon_step(matrices: Iterable[tuple[Tensor, Tensor]], rate: float) -> None:
    """A step of Muon for matrices with their momenta: gradient descent by direction alone. All else goes to AdamW.

    It has the same length in every direction of a matrix. The momentum's singular values are brought near one by five
    rounds of a polynomial (the Newton-Schulz iteration with Jordan's coefficients), so rare directions are learned as
    fast as frequent ones. torch has a Muon of its own, in half precision, which is slow on processors without it.
    """
    import torch

    with torch.no_grad():
        for matrix, momentum in matrices:
            assert matrix.grad is not None
            momentum.mul_(_MOMENTUM).add_(matrix.grad)
            direction = orthogonal(matrix.grad + _MOMENTUM * momentum)
            scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
            matrix.mul_(1 - rate * _DECAY).add_(direction, alpha=-rate * scale)


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with all singular values near one."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(5):
        square = wide @ wide.T
        wide = 3.4445 * wide + (-4.7750 * square + 2.0315 * square @ square) @ wide
    return wide.T if matrix.shape[0] > matrix.shape[1] else wide
