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

from .arithmetic import fix_order_of_adding, quiet_bitsandbytes, use_one_four_bit_kernel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Device", "Precision", "choose_device", "has_weights", "load_base"]

Device = Literal["auto", "cpu", "cuda"]

Precision = Literal["auto", "fp32", "bf16", "nf4"]


def choose_device(device: Device) -> str:
    """Resolve `auto`: a GPU if there is one."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device is cuda, but torch finds no GPU", fix="set device to auto or cpu")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def has_weights(folder: Path) -> bool:
    """Whether the folder has weights. A folder with only config.json just defines the model's size."""
    return any(folder.glob("*.safetensors"))


def load_base(
    folder: Path, precision: Precision, device: str, *, attention: str = "sdpa", seed: int | None = None
) -> PreTrainedModel:
    """Load the model of a folder. `attention` is the name of an attention implementation in transformers.

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
    # PEFT uses a deprecated name of transformers; users can't do anything about that warning.
    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
    computing = torch.float32 if precision == "fp32" or (precision != "bf16" and device == "cpu") else torch.bfloat16
    if not has_weights(folder):
        if seed is None:
            raise SettingsError(
                f"the model folder {folder} has no weights (no .safetensors file)",
                fix="train it first, or use a folder with weights",
            )
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        return model.to(device=device, dtype=computing).eval()
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
