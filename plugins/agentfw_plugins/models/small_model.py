"""The small included models without transformers: their tokenizer and chat format, and a Llama in numpy.

`SmallChat` gives exactly the tokens that `Chat` gives from the same folder. `NumpyLlama` computes the same as
transformers, and an answer is the same to the last bit whatever else is in the batch, and however many threads there
are. For that, products are computed in blocks of eight rows and on one thread, and attention row by row.

    model = NumpyLlama.load(folder)
    row = model.read(prompt_ids)                  # a row: the tokens read so far, and the logits of the next token
    model.step([row], [token])                    # one more token for each row

Shapes: T tokens, D width, H heads, K heads of keys and values, E width of a head, V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from threading import RLock
from typing import Any, ParamSpec, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from agentfw import Message, Request
from agentfw.errors import SettingsError
from agentfw.request import CallsInText

from .conversation import CallTokens, pieces, remembered, short_memory_of

END = "<|end|>"
ROLES = {"user": "<|user|>", "assistant": "<|assistant|>"}
"""The control tokens. A message is its role, its text and the end token."""


class SmallChat:
    """The tokenizer of a model with a short memory."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        memory = short_memory_of(folder)
        if memory is None:
            wrong = f"the policy tiny can't use the model in {folder}: it has another chat template"
            raise SettingsError(wrong, fix="use --policy transformers for other models")
        self._memory = memory
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # A user who writes <|end|> writes plain text.
        self._tokenizer.encode_special_tokens = True
        vocabulary = self._tokenizer.get_vocab()
        if missing := [token for token in (END, *ROLES.values()) if token not in vocabulary]:
            wrong = f"the tokenizer in {folder} has no {missing[0]}"
            raise SettingsError(wrong, fix="restore the folder from a backup")
        self._control = {token: vocabulary[token] for token in (END, *ROLES.values())}
        self.end_ids = frozenset({self._control[END]})
        self._calls = CallTokens("<tool_call>", vocabulary, CallsInText(follows_anything=True))

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        ids: list[int] = []
        for message in remembered(messages, self._memory):
            own = message.role == "assistant"
            parts = [message.content] if own else self._calls.apart(message.content)
            said = [token for part in parts for token in self._tokens(part)]
            ids += [self._control[ROLES[message.role]], *said, self._control[END]]
        return (*ids, self._control[ROLES["assistant"]])

    def prompt_of(self, request: Request) -> tuple[int, ...]:
        return tuple(self._tokens(request.messages[-1].content)) if request.plain else self.prompt(request.messages)

    def answer(self, text: str) -> tuple[int, ...]:
        """The tokens that the model would have sampled for this text."""
        return (*self._tokens(text), self._control[END])

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        decode = self._tokenizer.decode
        return pieces(ids, lambda some: decode(list(some), skip_special_tokens=True), self.end_ids)

    def in_text(self, ids: Sequence[int], pieces: Sequence[str]) -> CallsInText:
        return self._calls.in_text(ids, pieces)

    def _tokens(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# The limit belongs to the process: if two threads set and restored it in turn, one would compute without it.
_ALONE = RLock()
_controller = cache(ThreadpoolController)


def single_threaded(compute: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function that computes with one BLAS thread, and by itself in this process.

    With several threads OpenBLAS divides a product among them, and the kernels of some processors then add up in
    another order. For matrices as small as those of `tiny` one thread is also faster.
    """

    @wraps(compute)
    def limited(*values: Parameters.args, **named: Parameters.kwargs) -> Result:
        with _ALONE, _controller().limit(limits=1, user_api="blas"):
            return compute(*values, **named)

    return limited


Floats = np.ndarray[Any, np.dtype[np.float32]]

_BLOCK = 8  # OpenBLAS's order of addition depends on the number of rows; with eight it is always the same
_ROOM = 64  # tokens by which a row's keys and values grow


@dataclass(slots=True)
class _Layer:
    into: Floats  # [D, (H + 2K) E]: queries, keys and values in one product
    out: Floats  # [H E, D]
    up: Floats  # [D, 2F]: gate and up
    down: Floats  # [F, D]
    before_attention: Floats
    before_feed: Floats


class Row:
    """One conversation, as far as it was read."""

    __slots__ = ("keys", "length", "logits", "values")

    def __init__(self, layers: int, heads: int, width: int, room: int) -> None:
        self.length = 0
        self.keys: Floats = np.zeros((layers, heads, room, width), np.float32)
        self.values: Floats = np.zeros((layers, heads, room, width), np.float32)
        self.logits: Floats = np.zeros(0, np.float32)


class NumpyLlama:
    """The weights in memory."""

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Floats]) -> None:
        self.heads: int = config["num_attention_heads"]
        self.key_heads: int = config["num_key_value_heads"]
        self.width: int = config["head_dim"]
        self.context: int = config["max_position_embeddings"]
        self._epsilon = np.float32(config["rms_norm_eps"])
        self._embedding = weights["model.embed_tokens.weight"]
        self._norm = weights["model.norm.weight"]
        self._layers = [_layer(weights, number) for number in range(config["num_hidden_layers"])]
        self._scale = np.float32(self.width**-0.5)
        rope = config.get("rope_parameters") or {}
        theta = rope.get("rope_theta", config.get("rope_theta", 10000.0))
        frequencies = 1.0 / theta ** (np.arange(0, self.width, 2, dtype=np.float32) / self.width)
        angles = np.outer(np.arange(self.context), frequencies).astype(np.float32)
        self._cosine = np.cos(np.concatenate([angles, angles], 1)).astype(np.float32)
        self._sine = np.sin(np.concatenate([angles, angles], 1)).astype(np.float32)

    @property
    def vocabulary(self) -> int:
        return len(self._embedding)

    @classmethod
    def load(cls, folder: Path, adapter: Path | None = None) -> NumpyLlama:
        """Load the model of a folder. The weights of a LoRA adapter (a PEFT folder) are added to its own."""
        from safetensors.numpy import load_file

        config = json.loads((folder / "config.json").read_text("utf-8"))
        turned = config.get("rope_parameters") or config.get("rope_scaling") or {}
        config["turning"] = turned.get("rope_type", turned.get("type", "default"))
        wrong = [
            words
            for key, fine, words in (
                ("model_type", "llama", f"it is a {config.get('model_type')}"),
                ("tie_word_embeddings", True, "its output weights are not tied"),
                ("attention_bias", False, "its attention has biases"),
                ("mlp_bias", False, "its feed-forward part has biases"),
                ("hidden_act", "silu", f"its activation is {config.get('hidden_act')}"),
                ("turning", "default", f"its positions are scaled ({config['turning']})"),
            )
            if config.get(key, fine) != fine
        ]
        if wrong:
            raise SettingsError(
                f"the policy tiny can't compute the model in {folder}: {', '.join(wrong)}",
                fix="use --policy transformers for models other than small Llamas with tied embeddings",
            )
        loaded = load_file(folder / "model.safetensors")
        weights = {name: np.ascontiguousarray(value, np.float32) for name, value in loaded.items()}
        if adapter is not None:
            _add(adapter, weights)
        if not all(np.isfinite(value).all() for value in weights.values()):
            broken = f"the weights in {adapter or folder} contain NaN or infinity"
            raise SettingsError(broken, fix="restore the folder from a backup, or use an earlier version")
        return cls(config, weights)

    # -- reading and writing -------------------------------------------------------------------------------------------

    @single_threaded
    def read(self, ids: Sequence[int]) -> Row:
        """A new row that has read these tokens."""
        row = Row(len(self._layers), self.key_heads, self.width, -(-(len(ids) + _ROOM) // _ROOM) * _ROOM)
        hidden = self._through(row, ids)
        row.logits = self._logits(hidden[-1:])[0]
        return row

    @single_threaded
    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Floats:
        """The logprobs of these tokens after this prompt."""
        row = Row(len(self._layers), self.key_heads, self.width, len(prompt_ids) + len(token_ids))
        hidden = self._through(row, [*prompt_ids, *token_ids])
        logits = self._logits(hidden[len(prompt_ids) - 1 : -1])
        found: Floats = log_softmax(logits)[np.arange(len(token_ids)), list(token_ids)]
        return found

    @single_threaded
    def step(self, rows: Sequence[Row], tokens: Sequence[int]) -> None:
        """Add one token to each row, and compute the logits of the next."""
        count = len(rows)
        hidden = np.zeros((-(-count // _BLOCK) * _BLOCK, self._embedding.shape[1]), np.float32)
        hidden[:count] = self._embedding[list(tokens)]
        for row in rows:
            if row.length == row.keys.shape[2]:
                wider = ((0, 0), (0, 0), (0, _ROOM), (0, 0))
                row.keys, row.values = np.pad(row.keys, wider), np.pad(row.values, wider)

        def attend(number: int, queries: Floats, keys: Floats, values: Floats) -> Floats:
            attended = np.zeros((len(hidden), self.heads * self.width), np.float32)
            for index, row in enumerate(rows):
                end = row.length + 1
                row.keys[number, :, row.length], row.values[number, :, row.length] = keys[index], values[index]
                asked = queries[index].reshape(self.key_heads, -1, self.width)
                scores = asked @ row.keys[number, :, :end].transpose(0, 2, 1)
                attended[index] = (_softmax(scores) @ row.values[number, :, :end]).reshape(-1)
            return attended

        places = np.zeros(len(hidden), np.int64)
        places[:count] = [row.length for row in rows]
        logits = _blocks(self._normed(self._layered(hidden, places, _blocks, attend), self._norm), self._embedding.T)
        for index, row in enumerate(rows):
            row.length += 1
            row.logits = logits[index]

    def _through(self, row: Row, ids: Sequence[int]) -> Floats:
        """All tokens of a new row at once: [T, D] after the last layer."""
        count, group = len(ids), self.heads // self.key_heads
        later: Floats = np.triu(np.full((count, count), -np.inf, np.float32), 1)

        def attend(number: int, queries: Floats, keys: Floats, values: Floats) -> Floats:
            keys, values = keys.transpose(1, 0, 2), values.transpose(1, 0, 2)
            row.keys[number, :, :count], row.values[number, :, :count] = keys, values
            scores: Floats = queries.transpose(1, 0, 2) @ keys.repeat(group, 0).transpose(0, 2, 1) + later
            attended: Floats = _softmax(scores) @ values.repeat(group, 0)
            return attended.transpose(1, 0, 2).reshape(count, -1)

        row.length = count
        return self._layered(self._embedding[list(ids)], np.arange(count), np.matmul, attend)

    # -- parts of it ---------------------------------------------------------------------------------------------------

    def _layered(self, hidden: Floats, places: Any, product: Any, attend: Callable[..., Floats]) -> Floats:
        """Tokens [T, D] at these places after the last layer. `attend` gets the layer's number, and [T, heads, E]."""
        cosine, sine = self._cosine[places][:, None], self._sine[places][:, None]
        turning = self.heads + self.key_heads  # queries and keys are turned by their places, and values aren't
        for number, layer in enumerate(self._layers):
            # Attention: what each token takes from the others.
            joined = product(self._normed(hidden, layer.before_attention), layer.into)
            joined = joined.reshape(len(hidden), turning + self.key_heads, self.width)
            turned, values = _turned(joined[:, :turning], cosine, sine), joined[:, turning:]
            queries, keys = turned[:, : self.heads] * self._scale, turned[:, self.heads :]
            hidden = hidden + product(attend(number, queries, keys, values), layer.out)
            # Feed-forward: each token by itself.
            both = product(self._normed(hidden, layer.before_feed), layer.up)
            gate, up = both[:, : len(layer.down)], both[:, len(layer.down) :]
            hidden = hidden + product(gate / (1 + np.exp(-gate)) * up, layer.down)
        return hidden

    def _normed(self, hidden: Floats, weight: Floats) -> Floats:
        squares: Floats = np.add.reduce(hidden * hidden, -1, keepdims=True)
        spread = squares / np.float32(hidden.shape[-1])
        normed: Floats = hidden / np.sqrt(spread + self._epsilon) * weight
        return normed

    def _logits(self, hidden: Floats) -> Floats:
        logits: Floats = self._normed(hidden, self._norm) @ self._embedding.T
        return logits


def log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(-1, keepdims=True)
    found: Floats = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found


def _add(adapter: Path, weights: dict[str, Floats]) -> None:
    """W + (alpha / rank) B A for each weight W that the adapter changes."""
    from safetensors.numpy import load_file

    about = json.loads((adapter / "adapter_config.json").read_text("utf-8"))
    others = [name for name in ("use_dora", "rank_pattern", "alpha_pattern", "modules_to_save") if about.get(name)]
    if others or about.get("bias", "none") != "none":
        raise SettingsError(
            f"{adapter} is not a plain LoRA adapter", fix=f"train it without {', '.join(others) or 'biases'}"
        )
    scale = np.float32(about["lora_alpha"] / (about["r"] ** 0.5 if about.get("use_rslora") else about["r"]))
    found = load_file(adapter / "adapter_model.safetensors")
    for name, first in found.items():
        if name.endswith(".lora_A.weight"):
            target = name.removeprefix("base_model.model.").replace(".lora_A.weight", ".weight")
            second = found[name.replace(".lora_A.", ".lora_B.")]
            if target not in weights or (second.shape[0], first.shape[1]) != weights[target].shape:
                wrong = f"the adapter {adapter} is for another model: {target} doesn't fit"
                raise SettingsError(wrong, fix="use the model that the adapter was trained on")
            weights[target] = weights[target] + scale * (second.astype(np.float32) @ first.astype(np.float32))


def _layer(weights: Mapping[str, Floats], number: int) -> _Layer:
    start = f"model.layers.{number}."

    def of(*names: str) -> Floats:
        """Concatenate and transpose, so that the product of rows needs no transposition."""
        return np.ascontiguousarray(np.concatenate([weights[f"{start}{name}.weight"] for name in names]).T)

    return _Layer(
        into=of("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        out=of("self_attn.o_proj"),
        up=of("mlp.gate_proj", "mlp.up_proj"),
        down=of("mlp.down_proj"),
        before_attention=weights[f"{start}input_layernorm.weight"],
        before_feed=weights[f"{start}post_attention_layernorm.weight"],
    )


def _turned(vectors: Floats, cosine: Floats, sine: Floats) -> Floats:
    """Apply rotary position embeddings."""
    half = vectors.shape[-1] // 2
    crossed = np.empty_like(vectors)
    np.negative(vectors[..., half:], out=crossed[..., :half])
    crossed[..., half:] = vectors[..., :half]
    crossed *= sine
    turned: Floats = vectors * cosine
    turned += crossed
    return turned


def _softmax(scores: Floats) -> Floats:
    """Softmax in place: the scores are not used elsewhere."""
    scores -= np.maximum.reduce(scores, -1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, -1, keepdims=True)
    return scores


def _blocks(rows: Floats, weight: Floats) -> Floats:
    """rows @ weight, block by block. The number of rows must be a multiple of a block."""
    if len(rows) == _BLOCK:
        return rows @ weight
    product: Floats = rows.reshape(-1, _BLOCK, rows.shape[-1]) @ weight
    return product.reshape(len(rows), -1)
