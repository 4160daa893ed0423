"""Settings of the learners. This module doesn't import torch.

All defaults work on a laptop with the included model.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from agentfw import Settings

from ..models.base import Precision

__all__ = ["LoraSettings", "SftSettings"]

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class TrainableSettings(Settings):
    """Settings that both learners share."""

    model: str = Field("tiny", min_length=1, description="Base model: a Hugging Face model folder, or tiny.")
    adapter: str = Field("", description="Adapter of this base to start from. Default: none.")
    name: str = Field("policy", pattern=r"^[\w.-]+$", description="Prefix of version names: NAME@1, NAME@2 and so on.")
    weights: Literal["lora", "all"] = Field(
        "lora",
        description="What to train: an adapter, or all weights. Missing weights are initialised randomly.",
    )
    precision: Precision = Field(
        "auto", description="Precision of the base. `nf4` is 4-bit. `auto` is fp32 on a CPU and bf16 on a GPU."
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Device. `auto` uses a GPU if there is one.")
    seed: int = Field(7, ge=0, description="Random seed.")

    rank: int = Field(8, ge=1, le=1024, description="Rank of the adapter.")
    alpha: float = Field(16.0, gt=0, description="Scaling of the adapter: alpha / rank.")
    modules: tuple[str, ...] = Field(
        _PROJECTIONS, min_length=1, description="Layers with an adapter, by the end of their names."
    )

    packing: Literal["tree", "plain"] = Field(
        "tree", description="`tree` computes shared prefixes of turns once; `plain` puts each turn in its own row."
    )
    tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum number of tokens computed at once. Lower values need less memory. "
        "Default: chosen from the shared prefixes of the batch and the available memory.",
    )
    offload: bool = Field(
        False,
        description="Move weights and optimizer state to main memory while the policy works, if both share one GPU.",
    )
    checkpointing: bool | None = Field(
        None, description="Recompute activations instead of storing them. Default: on a GPU only."
    )

    optimizer: Literal["adamw", "adamw_8bit"] = Field(
        "adamw", description="Optimizer. The 8-bit one needs a quarter of the memory."
    )
    weight_decay: float = Field(0.0, ge=0, le=1)
    gradient_clip: float = Field(1.0, gt=0, description="Maximum gradient norm.")
    warmup: int = Field(0, ge=0, description="Number of steps of linear warm-up.")
    decay: int = Field(
        0, ge=0, description="Number of steps, with warm-up, until the rate is down to a tenth. 0: constant rate."
    )
    minibatches: int = Field(1, ge=1, description="Number of minibatches, and so of steps, per batch.")

    @model_validator(mode="after")
    def _fits_together(self) -> TrainableSettings:
        if self.weights == "all" and self.precision not in ("auto", "fp32"):
            raise ValueError(f"weights = all needs precision fp32, not {self.precision}")
        if self.weights == "all" and self.adapter:
            raise ValueError("weights = all can't start from an adapter: set model to a full model instead")
        if self.decay and self.decay <= self.warmup:
            raise ValueError("decay includes the warm-up, so it must be larger")
        return self


class LoraSettings(TrainableSettings):
    learning_rate: float = Field(
        2e-5, ge=1e-8, le=1e-1, description="Learning rate of AdamW. Useful values for policies: 1e-6 to 1e-3."
    )
    steps: int = Field(1, ge=1, description="Number of epochs per batch. More than one needs clipped ratios.")


class SftSettings(TrainableSettings):
    learning_rate: float = Field(2e-4, ge=1e-8, le=1e-1, description="Of AdamW.")
    epochs: int = Field(1, ge=1, description="Number of epochs per batch of demonstrations.")
