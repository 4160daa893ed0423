"""Loads the weights of a model folder.

Policies and learners load the base with this function, so that both use the same weights in the same precision, and
their logprobs can be compared.

    model = load_base(folder, "nf4", "cuda")

`auto` is fp32 on a CPU and bf16 on a GPU. `nf4` uses 4-bit weights (bitsandbytes) and computes in the precision of
`auto`. It works on both.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentfw.errors import MissingExtraError, SettingsError

from .adapter import count_weights
from .arithmetic import fix_order_of_adding, quiet_bitsandbytes, use_one_four_bit_kernel
from .room import require_room
from .shared_weights import twin_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = [
    "Device",
    "Precision",
    "choose_device",
    "computed_in",
    "has_weights",
    "load_base",
    "own_attention",
    "require_loadable",
    "require_trainable",
]

Device = Literal["auto", "cpu", "cuda"]

Precision = Literal["auto", "fp32", "bf16", "nf4"]

_BYTES = {"nf4": 0.6, "bf16": 2.0, "fp32": 4.0}
"""Bytes of a weight. Four bits have scales beside them, and embeddings have more bits."""

_TRAINED = 16.0
"""Bytes of a weight that is trained: itself, its gradient and Adam's two moments, in fp32. In bf16, the weight that
the model computes with comes on top."""


def choose_device(device: Device) -> str:
    """Resolve `auto`: a GPU if there is one."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device is cuda, but torch finds no GPU", fix="set device to auto or cpu")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def has_weights(folder: Path) -> bool:
    """Whether the folder has weights. A folder with only config.json just defines the model's size."""
    return any(folder.glob("*.safetensors"))


def computed_in(precision: Precision, device: str) -> Literal["fp32", "bf16"]:
    """The precision that a model computes in: of `auto` and `nf4` that of the device."""
    if precision in ("fp32", "bf16"):
        return precision
    return "fp32" if device == "cpu" else "bf16"


def require_loadable(folder: Path, precision: Precision, device: str) -> None:
    """Raise if the folder has no weights, or more than the memory has room for. Nothing is loaded for that."""
    if not has_weights(folder):
        raise SettingsError(
            f"the model folder {folder} has no weights (no .safetensors file)",
            fix="train it first, or use a folder with weights",
        )
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
    folder: Path, precision: Precision, device: str, *, all_weights: bool, processes: int = 1
) -> None:
    """Raise if the device has no room to train a model. Nothing is loaded for that, and the folder needs no weights.

    On a CPU, so many processes share the memory, of which each holds the whole model.
    """
    weights = count_weights(folder) if has_weights(folder) else _weights_of_config(folder)
    size = _BYTES["nf4" if precision == "nf4" else computed_in(precision, device)]
    how = f"to train an adapter of {weights / 1e9:.3g} billion weights"
    fix = "use a smaller model"
    if all_weights:
        size = _TRAINED + (_BYTES["bf16"] if precision == "bf16" else 0)
        how = f"to train all of its {weights / 1e9:.3g} billion weights"
        fix += ", or train an adapter (learner.weights=lora)"
    elif precision != "nf4":
        fix += ", or learner.precision=nf4 (4-bit weights)"
    if device == "cpu" and processes > 1:
        size, how = size * processes, f"{how} in {processes} processes"
        fix += ", or fewer processes (learner.workers)"
    fix += "; a model isn't divided among GPUs or machines (FSDP)"
    require_room(folder, int(weights * size), how, fix, device=device)


def _weights_of_config(folder: Path) -> int:
    """The number of weights of a model that isn't made yet."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    with torch.device("meta"):
        return int(transformers.AutoModelForCausalLM.from_config(config).num_parameters())


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
    fix_order_of_adding()
    quiet_bitsandbytes()
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError("a language model in this process", "train", module=error.name or "") from None

    transformers.utils.logging.disable_progress_bar()  # agentfw has its own progress display
    # PEFT uses a deprecated name of transformers, and names patterns of experts that it made itself; users can't do
    # anything about these warnings.
    warnings.filterwarnings("ignore", message=".*_pattern keys did not match any targeted module")
    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
    computing = torch.float32 if computed_in(precision, device) == "fp32" else torch.bfloat16
    if seed is not None and not has_weights(folder):
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        return model.to(device=device, dtype=computing).eval()
    require_loadable(folder, precision, device)
    if seed is not None:
        return _loaded(folder, precision, computing, device, attention)
    files = tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.iterdir()))
    model = twin_of(
        (folder.resolve(), files, precision == "nf4", computing, device),
        lambda: _loaded(folder, precision, computing, device, attention),
    )
    model.set_attn_implementation(attention or own_attention(model))
    return model


def _loaded(folder: Path, precision: Precision, computing: Any, device: str, attention: str | None) -> PreTrainedModel:
    import transformers

    options: dict[str, Any] = {}
    if precision == "nf4":
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=computing,
        )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=computing,
        device_map={"": device},
        attn_implementation=attention,
        local_files_only=True,
        use_safetensors=True,
        **options,
    ).eval()
    use_one_four_bit_kernel(model)
    return model
