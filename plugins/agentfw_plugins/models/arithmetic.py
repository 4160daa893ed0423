"""Makes a processor compute a token the same way whatever else is computed beside it, with and without gradients.

Libraries choose among kernels that round differently. Two of their choices would break what agentfw promises:

- MKL chooses by the shape of a matrix product, so that an answer would depend on how many others share its batch.
  Its strict mode keeps one order of adding for every shape.
- bitsandbytes has a bf16 kernel for four-bit weights, which it takes on processors with AVX-512 BF16 where no gradient
  is asked for. The policy would then answer with other numbers than the learner trains.

On processors without MKL (ARM, for example) or without AVX-512 BF16 these functions change nothing.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["fix_order_of_adding", "quiet_bitsandbytes", "use_one_four_bit_kernel"]


def fix_order_of_adding() -> None:
    """Ask MKL for one order of adding.

    MKL reads this at its first use, so a process that has used it before keeps its own order.

    `MKL_CBWR` in the environment takes precedence.
    """
    os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")


def quiet_bitsandbytes() -> None:
    """Hide a warning at the import of bitsandbytes: it is about the kernel that isn't used here."""
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def use_one_four_bit_kernel(model: nn.Module) -> None:
    """Let four-bit layers compute without gradients as they do with them: unpack the weights, then multiply."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
