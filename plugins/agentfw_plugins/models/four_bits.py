"""What the four bits of a model stand for, as a model folder that any program can serve.

A learner with `precision = "nf4"` trains an adapter on weights that were rounded to four bits. A sampler that serves
the original weights is another model: on small models its logprobs are half a nat away. So the rounded weights are
written once, in the precision that the learner computes in, and served from there. vLLM could also round them itself,
but on a GPU only, and not certainly in the same way.

    folder = four_bit_folder(locate("model"), "cpu")     # ~/.cache/agentfw/four-bits/model-0123456789abcdef
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentfw.errors import MissingExtraError

from .base import load_base
from .cached_folder import cached_folder
from .checkpoint import fingerprint
from .plain_folder import copy_but_weights, write_plain

__all__ = ["four_bit_folder"]


def four_bit_folder(folder: Path, device: str) -> Path:
    """The folder with a model's weights as nf4 rounds them on this device. Made at the first call, then found again."""
    try:
        import bitsandbytes
    except ImportError as error:
        raise MissingExtraError("a model in four bits", "train", module=error.name or "") from None

    # Other kernels may round a tie in another way, so that the device and the library are part of its identity.
    identity = f"{fingerprint(folder, 0)} nf4 twice {device} bitsandbytes {bitsandbytes.__version__}"
    return cached_folder("four-bits", folder.name, identity, lambda unfinished: _write(folder, device, unfinished))


def _write(folder: Path, device: str, target: Path) -> None:
    model: Any = load_base(folder, "nf4", device)
    copy_but_weights(folder, target)
    write_plain(model, {name: _unpacked(model, name) for name, _ in model.named_parameters()}, target)


def _unpacked(model: Any, name: str) -> Any:
    from bitsandbytes.functional import dequantize_4bit

    weight = model.get_parameter(name)
    state = getattr(weight, "quant_state", None)
    return (weight.data if state is None else dequantize_4bit(weight.data, state)).detach().cpu()
