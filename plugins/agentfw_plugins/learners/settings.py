"""Settings of the learners `lora` and `sft`. Importing them doesn't load torch.

The defaults work on a laptop, with the model that ships with agentfw.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, model_validator

from agentfw import Settings
from agentfw.settings import OPERATIONAL, SHARED

from ..models.base import Device, Precision
from ..models.chat import TEMPLATE_SETTING

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class TrainableSettings(Settings):
    model: Annotated[str, SHARED] = Field(
        "tiny",
        min_length=1,
        description="Base model: a folder in Hugging Face's format, or tiny. Default: the policy's.",
    )
    adapter: Annotated[str, SHARED] = Field(
        "", description="Adapter to start from. Default: the policy's, or else the base model alone."
    )
    name: str = Field("policy", pattern=r"^[\w.-]+$", description="Name of the versions: NAME@1, NAME@2 and so on.")
    weights: Literal["lora", "all"] = Field(
        "lora",
        description="Weights to train: a LoRA adapter, or all. A folder without weights starts from random ones.",
    )
    precision: Annotated[Precision, SHARED] = Field(
        "auto",
        description="Precision of the base model; nf4 is 4-bit. Default: fp32 on a CPU, bf16 on a GPU. With "
        "`weights` = all, the default is fp32, and bf16 keeps an fp32 master of each weight.",
    )
    device: Device = Field(
        "auto", description="Device to train on, such as cuda:1. Default: the GPU that the engine sets apart, if any."
    )
    seed: int = Field(7, ge=0, description="Random seed.")

    rank: Annotated[int, SHARED] = Field(8, ge=1, le=1024, description="Rank of the adapter.")
    alpha: float = Field(16.0, gt=0, description="The adapter is scaled by alpha / rank.")
    modules: tuple[str, ...] = Field(
        PROJECTIONS,
        min_length=1,
        description="Layers that get an adapter, by the end of their names. The default includes layers that hold "
        "several of these in one, such as qkv_proj.",
    )
    layers: tuple[NonNegativeInt, ...] = Field(
        (), description="Numbers of the model's layers that get an adapter, from 0. Default: all."
    )
    rank_stabilised: bool = Field(
        False, description="Scale the adapter by alpha / sqrt(rank) instead (rsLoRA), which large ranks need."
    )
    dora: bool = Field(
        False, description="Train the size of each weight's rows besides (DoRA), which vLLM and `tiny` can't serve."
    )

    packing: Annotated[Literal["tree", "plain"], OPERATIONAL] = Field(
        "tree", description="`tree` computes shared prefixes of turns once; `plain` puts each turn in its own row."
    )
    tokens: Annotated[int | None, OPERATIONAL] = Field(
        None,
        ge=1,
        description="Maximum number of tokens computed at once. Lower values need less memory. "
        "Default: chosen from the shared prefixes of the batch and the available memory.",
    )
    checkpointing: Annotated[bool | None, OPERATIONAL] = Field(
        None,
        description="Recompute activations instead of storing them. Default: on a GPU, and where storing them would "
        "split long conversations into pieces that compute most of each other again.",
    )

    workers: Annotated[int, OPERATIONAL] = Field(
        1,
        ge=1,
        description="Number of processes that compute gradients, this one included, each on a GPU of its own where "
        "there are GPUs. The result is that of one but for rounding.",
    )
    sharded: Annotated[bool, OPERATIONAL] = Field(
        False,
        description="Divide the base's weights among the workers (FSDP), for a model that doesn't fit one of them.",
    )
    worker_patience: Annotated[float, OPERATIONAL] = Field(
        1800.0, gt=0, description="Seconds without an answer after which the workers are started anew."
    )

    optimizer: Literal["adamw", "adamw_8bit"] = Field(
        "adamw", description="Optimizer. The 8-bit one has a quarter of the state."
    )
    weight_decay: float = Field(0.0, ge=0, le=1, description="Weight decay of AdamW.")
    reference: Literal["start", "base"] = Field(
        "start",
        description="Policy that the KL penalty is measured from: start, the adapter that training starts from, "
        "or base, the model without any.",
    )
    gradient_clip: float = Field(1.0, gt=0, description="Maximum norm of a step's gradient.")
    warmup: int = Field(0, ge=0, description="Steps over which the learning rate rises linearly.")
    decay: int = Field(
        0,
        ge=0,
        description="Steps, warm-up included, over which the learning rate falls to a tenth. Default: no decay.",
    )
    minibatches: int = Field(1, ge=1, description="Number of steps that a batch is split into.")

    @property
    def starts_from_base(self) -> bool:
        """Whether the policy can play before the learner is loaded."""
        return not self.adapter

    @model_validator(mode="after")
    def _fits_together(self) -> TrainableSettings:
        if self.weights == "all" and self.precision == "nf4":
            raise ValueError("weights = all is trained in fp32 or bf16, not in nf4")
        if self.weights == "all" and self.adapter:
            raise ValueError("weights = all starts from a whole model: set model to it, and leave adapter out")
        if self.sharded and self.workers == 1:
            raise ValueError("sharded divides the base's weights among workers: set workers to two or more")
        if self.sharded and (self.weights == "all" or self.optimizer == "adamw_8bit"):
            raise ValueError("sharded trains an adapter (weights = lora) with optimizer = adamw")
        if self.decay and self.decay <= self.warmup:
            raise ValueError("decay includes the warm-up, so it must be larger")
        return self


class LoraSettings(TrainableSettings):
    learning_rate: float = Field(
        2e-5, ge=1e-8, le=1e-1, description="Learning rate of AdamW. Policies need 1e-6 to 1e-3."
    )
    steps: int = Field(
        1,
        ge=1,
        description="Passes over a batch. With one pass in one minibatch every importance ratio is 1, "
        "and clipping takes no part.",
    )


class SftSettings(TrainableSettings):
    template: Annotated[str, SHARED] = Field("", description=TEMPLATE_SETTING)
    learning_rate: float = Field(2e-4, ge=1e-8, le=1e-1, description="Learning rate of AdamW.")
    epochs: int = Field(1, ge=1, description="Passes over a batch of demonstrations.")
