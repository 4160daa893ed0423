"""Makes a processor compute a token the same way regardless of the batch, with and without gradients.

Some libraries choose between kernels that round differently. Two of these choices would break guarantees of agentfw:

- MKL chooses a kernel by the shape of a matrix product, so an answer would depend on the batch size. Its strict mode
  uses the same order of addition for every shape.
- bitsandbytes has a bf16 kernel for 4-bit weights, which it uses on processors with AVX-512 BF16 if no gradient is
  needed. The policy would then compute other values than the learner.

On processors without MKL (ARM, for example) or without AVX-512 BF16, these functions change nothing.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["fix_order_of_adding", "quiet_bitsandbytes", "use_one_four_bit_kernel"]


def fix_order_of_adding() -> None:
    """Set MKL to a fixed order of addition.

    MKL reads the setting at its first use, so it has no effect in a process that has already used MKL.

    `MKL_CBWR` in the environment takes precedence.
    """
    os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")


def quiet_bitsandbytes() -> None:
    """Hide a warning of bitsandbytes at import. It is about the kernel that isn't used here."""
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def use_one_four_bit_kernel(model: nn.Module) -> None:
    """Make 4-bit layers compute the same way with and without gradients: unpack the weights, then multiply."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
