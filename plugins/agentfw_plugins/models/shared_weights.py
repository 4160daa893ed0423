"""One copy of a base's weights for all in this process who read them, such as a policy and the learner beside it.

Each gets a model of its own, with its own attention, adapters and hooks. Only the numbers are the same, and nobody may
write into them: an adapter is merged into copies.

    model = twin_of((folder, "fp32", "cpu"), load)     # loads once, and shares as long as somebody has a twin
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["let_go", "own_copies", "twin_of"]

_KEPT = "_agentfw_shared"
_loaded: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
_loading = threading.Lock()


def twin_of(identity: Hashable, load: Callable[[], PreTrainedModel]) -> PreTrainedModel:
    """A model with the weights of this identity, which are loaded unless another twin has them."""
    import torch

    # A policy loads while it samples, without gradients; a learner needs them for the same weights.
    with _loading, torch.inference_mode(False):
        base = _loaded.get(identity)
        if base is None:
            base = _loaded[identity] = load()
        known = {id(parameter): _shared(parameter) for parameter in base.parameters()}
        twin = copy.deepcopy(base, known | {id(buffer): buffer for buffer in base.buffers()})
    twin.__dict__[_KEPT] = base  # not as a module of it: it lives as long as a twin does
    return twin


def own_copies(tuned: Any) -> None:
    """Give the layers that have an adapter weights of their own, so that it can be merged into them."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for layer in tuned.modules():
        if isinstance(layer, BaseTunerLayer):
            # Experts have an adapter for each of their parameters, other layers for their weight.
            weight = getattr(layer.get_base_layer(), getattr(layer, "parameter_name", "weight"))
            weight.data = weight.data.clone()


def let_go(twin: PreTrainedModel) -> PreTrainedModel:
    """The model, which doesn't keep the shared weights any longer, because it has most of its own."""
    twin.__dict__.pop(_KEPT, None)
    return twin


def _shared(parameter: Any) -> Any:
    """A parameter of its own with the same numbers: one that is moved elsewhere leaves the others where they are."""
    import torch

    if type(parameter) is torch.nn.Parameter:
        return torch.nn.Parameter(parameter.data, requires_grad=parameter.requires_grad)
    return copy.copy(parameter)  # in four bits, with its scales
