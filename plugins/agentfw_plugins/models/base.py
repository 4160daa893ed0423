"""Loads the weights of a model folder.

Policies and learners load the base with this function, so that both use the same weights in the same precision, and
their logprobs can be compared. Whether a model fits into the memory is checked from its files before anything is
loaded, because a process that runs out of memory is often killed without a message.

All who read the same weights in this process share one copy of the numbers. Each has a model of its own, with its own
attention, adapters and hooks. Nobody may write into shared weights: an adapter is merged into copies.
"""

from __future__ import annotations

import copy
import logging
import os
import threading
import warnings
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from weakref import WeakValueDictionary

from pydantic import StringConstraints

from agentfw.boundary.gate import needing
from agentfw.engine import found_cards
from agentfw.errors import SettingsError

from .checkpoint import OWN_CODE, count_weights

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel

# It warns of a kernel that isn't used here as soon as anything imports it, PEFT included.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

Device = Annotated[str, StringConstraints(pattern=r"^(auto|cpu|cuda(:\d+)?)$")]
"""`cuda:1` is the second GPU that this process sees."""

Precision = Literal["auto", "fp32", "bf16", "nf4"]

_BYTES = {"nf4": 0.6, "bf16": 2.0, "fp32": 4.0}
"""Bytes of a weight. Four bits have scales beside them, and embeddings have more bits."""

_TRAINED = 16.0
"""Bytes of a weight that is trained: itself, its gradient and Adam's two moments, in fp32. In bf16, the weight that
the model computes with comes on top."""


def choose_device(device: Device) -> str:
    """Resolve `auto`: a GPU if there is one. Raises if there is one that torch can't use."""
    import torch

    if device == "cpu":
        return device
    if torch.cuda.is_available():
        return "cuda" if device == "auto" else device
    if there := found_cards():
        built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPUs alone"
        raise SettingsError(
            f"this machine has a GPU, but torch can't use it: torch {torch.__version__} is built for {built}, and the "
            f"driver is {there[0].driver or 'unknown'}",
            fix="install a torch for this driver (https://pytorch.org/get-started/locally), or set device to cpu",
        )
    if device == "auto":
        return "cpu"
    raise SettingsError(f"device is {device}, but torch finds no GPU", fix="set device to auto or cpu")


def has_weights(folder: Path) -> bool:
    """Whether the folder has weights. A folder with only config.json just defines the model's size."""
    return any(folder.glob("*.safetensors"))


def computed_in(precision: Precision, device: str) -> Literal["fp32", "bf16"]:
    """The precision that a model computes in: of `auto` and `nf4` that of the device."""
    if precision in ("fp32", "bf16"):
        return precision
    return "fp32" if device == "cpu" else "bf16"


def torch_type(precision: Precision, device: str) -> torch.dtype:
    import torch

    return torch.float32 if computed_in(precision, device) == "fp32" else torch.bfloat16


def require_loadable(folder: Path, precision: Precision, device: str) -> None:
    """Raise if the folder has no weights, or more than the memory has room for. Nothing is loaded for that."""
    if not has_weights(folder):
        wrong = f"the model folder {folder} has no weights (no .safetensors file)"
        raise SettingsError(wrong, fix="train it first, or use a folder with weights")
    weights = count_weights(folder)
    lower = "" if precision == "nf4" else ", or precision=nf4 (4-bit weights)"
    require_room(
        folder,
        int(weights * _BYTES["nf4" if precision == "nf4" else computed_in(precision, device)]),
        f"for {weights / 1e9:.3g} billion weights",
        f"use a smaller model{lower}",
        device=device,
    )


def require_trainable(
    folder: Path, precision: Precision, device: str, *, all_weights: bool, processes: int = 1, sharded: bool = False
) -> None:
    """Raise if the device has no room to train a model. Nothing is loaded for that, and the folder needs no weights.

    So many processes train, each with the whole model or with a part of it. On a CPU they share the memory.
    """
    if has_weights(folder):
        weights = count_weights(folder)
    else:
        import torch
        import transformers

        config = transformers.AutoConfig.from_pretrained(folder, **OWN_CODE)
        with torch.device("meta"):
            weights = int(transformers.AutoModelForCausalLM.from_config(config).num_parameters())
    size = _BYTES["nf4" if precision == "nf4" else computed_in(precision, device)]
    how = f"to train an adapter of {weights / 1e9:.3g} billion weights"
    fix = "use a smaller model"
    if all_weights:
        size = _TRAINED + (_BYTES["bf16"] if precision == "bf16" else 0)
        how = f"to train all of its {weights / 1e9:.3g} billion weights"
        fix += ", or train an adapter (learner.weights=lora)"
    elif precision != "nf4":
        fix += ", or learner.precision=nf4 (4-bit weights)"
    if processes > 1 and (device == "cpu") != sharded:
        size, how = size / processes if sharded else size * processes, f"{how} in {processes} processes"
        fix += f", or {'more' if sharded else 'fewer'} processes (learner.workers)"
    if not sharded and not all_weights:
        fix += "; or divide it among processes (learner.sharded=true, and learner.workers)"
    require_room(folder, int(weights * size), how, fix, device=device)


def own_attention(model: PreTrainedModel) -> str:
    """The attention of transformers that a model is computed with: sdpa, or eager where its scores are capped."""
    return "sdpa" if model._supports_sdpa else "eager"


def load_base(
    folder: Path, precision: Precision, device: str, *, attention: str | None = "sdpa", seed: int | None = None
) -> PreTrainedModel:
    """Load the model of a folder. `attention` is the name of an attention implementation in transformers.

    Without a name it is sdpa, or eager for models that cap their scores. The numbers of the weights are shared with
    whoever has loaded them in this process already; with a `seed` they are not, because they will be trained.

    A folder without weights is an error. With a `seed`, its weights are initialised randomly.
    """
    prepare_libraries()
    import torch
    import transformers

    computing = torch_type(precision, device)
    if seed is not None and not has_weights(folder):
        config = transformers.AutoConfig.from_pretrained(folder, **OWN_CODE)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        return model.to(device=device, dtype=computing).eval()
    require_loadable(folder, precision, device)
    if seed is not None:
        return _loaded(folder, precision, computing, device, attention)
    files = tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.iterdir()))
    identity = (folder.resolve(), files, precision == "nf4", computing, device)
    # A policy loads while it samples, without gradients; a learner needs them for the same weights.
    with _loading, torch.inference_mode(False):
        base = _twins.get(identity)
        if base is None:
            base = _twins[identity] = _loaded(folder, precision, computing, device, attention)
        known: dict[int, Any] = {id(buffer): buffer for buffer in base.buffers()}
        for weight in base.parameters():  # one of its own with the same numbers; in four bits, also with their scales
            plain = type(weight) is torch.nn.Parameter
            own = torch.nn.Parameter(weight.data, weight.requires_grad) if plain else copy.copy(weight)
            known[id(weight)] = own
        twin: PreTrainedModel = copy.deepcopy(base, known)
    twin.__dict__[_KEPT] = base  # not as a module of it: it lives as long as a twin does
    twin.set_attn_implementation(attention or own_attention(twin))
    return twin


def prepare_libraries() -> None:
    """Set what must be set before the first model is made, and silence what users can't do anything about."""
    fix_order_of_adding()
    with needing("a language model in this process", "train"):
        import transformers
    transformers.utils.logging.disable_progress_bar()  # agentfw has its own progress display
    # PEFT uses a deprecated name of transformers, and names patterns of experts that it made itself.
    warnings.filterwarnings("ignore", message=".*_pattern keys did not match any targeted module")
    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)


def _loaded(folder: Path, precision: Precision, computing: Any, device: str, attention: str | None) -> PreTrainedModel:
    import transformers

    # Not None where there is none: that would take away the one of a model that is stored in fewer bits.
    rounded = {"quantization_config": four_bits(computing)} if precision == "nf4" else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=computing,
        device_map={"": device},
        attn_implementation=attention,
        use_safetensors=True,
        **rounded,
        **OWN_CODE,
    ).eval()
    use_one_four_bit_kernel(model)
    return model


def four_bits(computing: Any, stored_in: Any = None) -> Any:
    """The configuration of nf4. Weights to divide among processes are stored in the type that they compute in."""
    import transformers

    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=computing,
        bnb_4bit_quant_storage=stored_in,
    )


def computed_like_base(tuned: Any, adapter: str) -> list[nn.Parameter]:
    """The weights of an adapter that are to be computed in bf16, because its base is. PEFT computes them in fp32.

    None of DoRA's: the norms that it divides by would be rounded.
    """
    import torch

    if tuned.get_input_embeddings().weight.dtype != torch.bfloat16 or tuned.peft_config[adapter].use_dora:
        return []
    return [weight for name, weight in tuned.named_parameters() if f".{adapter}." in name]


def to_bf16(weights: Iterable[nn.Parameter]) -> None:
    """Round weights in place. A model's buffers stay in fp32, as when transformers loads it in bf16."""
    import torch

    for weight in weights:
        weight.data = weight.data.to(torch.bfloat16)


def use_one_four_bit_kernel(model: nn.Module) -> None:
    """Make 4-bit layers compute the same way with and without gradients: unpack the weights, then multiply.

    bitsandbytes has a bf16 kernel, which it uses on processors with AVX-512 BF16 if no gradient is needed. The policy
    would then compute other values than the learner.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory() -> int:
    """The memory of this machine, or of the container that this process runs in."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTAINER_LIMITS:
        if path.is_file() and (limit := path.read_text("utf-8").strip()).isdigit():
            memory = min(memory, int(limit))
    return memory


def require_room(model: Path, needed: int, how: str, fix: str, *, device: str = "cpu") -> None:
    """Raise if so many bytes are more than the device has at all."""
    there = machine_memory()
    if device != "cpu":
        import torch

        there = int(torch.cuda.mem_get_info(device)[1])
    if needed > there:
        where = "machine" if device == "cpu" else "GPU"
        raise SettingsError(
            f"the model {model} needs {needed / 1e9:.1f} GB {how}, and this {where} has {there / 1e9:.1f} GB", fix=fix
        )


_KEPT = "_agentfw_shared"
_twins: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
"""The weights that are loaded, by what they were loaded from. Models that share them are twins."""
_loading = threading.Lock()


def own_copies(tuned: Any) -> None:
    """Give the layers that have an adapter weights of their own, so that it can be merged into them.

    The model doesn't keep the shared weights any longer, because it has most of its own.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for layer in tuned.modules():
        if isinstance(layer, BaseTunerLayer):
            # Experts have an adapter for each of their parameters, other layers for their weight.
            weight = getattr(layer.get_base_layer(), getattr(layer, "parameter_name", "weight"))
            weight.data = weight.data.clone()
    tuned.base_model.model.__dict__.pop(_KEPT, None)


def fix_order_of_adding() -> None:
    """Set MKL to a fixed order of addition, unless `MKL_CBWR` is in the environment.

    By itself it chooses a kernel by the shape of a matrix product, so an answer would depend on the batch size. MKL
    reads the setting at its first use in a process.
    """
    os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")


_SLIDING = "sliding_attention"


def other_layers(config: Any) -> list[str]:
    """Kinds of layers that have neither full attention nor a sliding window, such as linear or chunked attention."""
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) - {"full_attention", _SLIDING}
    # The same size of chunks is kept by models that have layer_types, and then it says nothing.
    if not getattr(text, "layer_types", None) and getattr(text, "attention_chunk_size", None):
        kinds.add("chunked_attention")
    return sorted(kinds)


class LayerAttention(NamedTuple):
    """How a layer weighs what it sees, by what transformers passes to an attention function."""

    scale: float
    window: int | None = None  # number of tokens that a token sees, itself included; None for all
    cap: float | None = None  # if set, a score x is cap tanh(x / cap)
    sinks: torch.Tensor | None = None  # [heads]: one more score of each head, which belongs to no token

    @classmethod
    def of(
        cls, module: Any, query: torch.Tensor, scaling: float | None, cap: float | None, sinks: torch.Tensor | None
    ) -> LayerAttention:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        return cls(scale, window_of(module.config, module.layer_idx), cap, sinks)


def window_of(config: Any, layer: int) -> int | None:
    """Number of tokens that a layer sees, the token itself included. None if it sees all."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds and kinds[layer] != _SLIDING:
        return None
    return getattr(text, "sliding_window", None) or None
