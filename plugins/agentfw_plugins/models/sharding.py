"""A base model that is divided among processes, so that each holds a part of its weights (FSDP2 of torch).

The whole model is in no process at any time. It is made without its weights (`hollow`), gets its adapter, and is then
filled and divided layer by layer (`divide`): the weights of one layer are read from the files, rounded to 4 bits if
asked for, and all but this process's part of them are dropped before the next layer is read.

A gradient is the sum over the processes, because losses are sums over their pieces. A process that has nothing left to
compute must go through the model all the same, with a piece of weight 0: each layer waits for all processes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from agentfw.errors import SettingsError

from .base import Precision, four_bits, prepare_libraries, torch_type, use_one_four_bit_kernel
from .checkpoint import OWN_CODE

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of glibc's mallopt


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The whole of a tensor that may be divided. All processes must ask for it together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part_like(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A whole tensor, divided as another one is. Every process has the whole already, so nothing is sent."""
    if not isinstance(like, DTensor) or isinstance(tensor, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def here(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that is in this process."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@contextmanager
def gathered(root: nn.Module) -> Iterator[None]:
    """Keep the weights whole that stand outside of the layers, for a computation that doesn't go through the root."""
    if isinstance(root, FSDPModule):
        root.unshard()
        yield
        root.reshard()
    else:
        yield


def hollow(folder: Path, precision: Precision, device: str, *, attention: str | None) -> PreTrainedModel:
    """The model of a folder whose weights have no values yet, and take no memory until they are written."""
    prepare_libraries()
    import transformers
    from accelerate import init_empty_weights  # type: ignore[import-untyped]

    config = transformers.AutoConfig.from_pretrained(folder, **OWN_CODE)
    computing = torch_type(precision, device)
    with init_empty_weights(include_buffers=False):  # buffers are computed from the config, so they have values
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=computing)
    if precision == "nf4":
        from transformers.integrations.bitsandbytes import replace_with_bnb_linear

        head = [name for name, part in model.named_modules() if part is model.get_output_embeddings()]
        replace_with_bnb_linear(model, head, four_bits(computing, stored_in=computing))
        use_one_four_bit_kernel(model)
    for part in list(model.modules()):
        for key, weight in list(part.named_parameters(recurse=False)):
            # A process gets pages of memory when they are first written.
            part.register_parameter(key, _of_kind(weight, torch.empty(weight.shape, dtype=computing)))
    model.tie_weights()
    return model.eval()


def divide(root: nn.Module, base: PreTrainedModel, folder: Path, precision: Precision, device: str) -> FSDPModule:
    """Fill the weights of a hollow base from the folder's files, and divide it among all processes of the group.

    `root` is the module that is called. It has the base in it, with its adapter.
    """
    if device == "cpu":
        # Freed blocks of memory go at once. The C library would keep those of layers that are whole for a moment.
        with suppress(OSError, AttributeError):  # only glibc has this, and only it needs it
            ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 16)
    mesh = init_device_mesh(device.partition(":")[0], (torch.distributed.get_world_size(),))
    opened: list[Any] = [safe_open(path, framework="pt") for path in sorted(folder.glob("*.safetensors"))]
    files = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 - it is no mapping
    # The layers of an adapter stand around those of the base, which the files name without them.
    names = {
        weight: name.replace(".base_layer.", ".") for name, weight in base.named_parameters() if ".lora_" not in name
    }
    if unknown := sorted(name for name in names.values() if name not in files):
        raise SettingsError(
            f"{folder} can't be divided among processes: its files name weights differently than the model does "
            f"({unknown[0]} isn't in them)",
            fix="leave learner.sharded out, or save the model again with save_pretrained",
        )
    filled: dict[nn.Parameter, nn.Parameter] = {}
    """The new weights by the hollow ones. Two layers may share one."""
    count = base.config.get_text_config().num_hidden_layers
    layers = next(part for part in base.modules() if isinstance(part, nn.ModuleList) and len(part) == count)
    for module in [*layers, root]:
        for part in module.modules():
            for key, weight in list(part.named_parameters(recurse=False)):
                if weight in names:
                    if weight not in filled:
                        value = files[names[weight]].get_tensor(names[weight]).to(torch_type(precision, device))
                        filled[weight] = _of_kind(weight, value).to(device)  # in 4 bits, this rounds it
                    part.register_parameter(key, filled[weight])
        module.to(device)  # buffers, and the adapter
        fully_shard(module, mesh=mesh)
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
        if module is not root:
            filled.clear()
    return root


def _of_kind(weight: torch.Tensor, value: torch.Tensor) -> nn.Parameter:
    """A frozen weight with this value, of the same kind as another: plain, or one that is rounded when it is moved."""
    if type(weight) is nn.Parameter:
        return nn.Parameter(value, requires_grad=False)
    kept = {key: getattr(weight, key) for key in ("quant_type", "quant_storage", "compress_statistics", "module")}
    return type(weight)(value, requires_grad=False, **kept)
