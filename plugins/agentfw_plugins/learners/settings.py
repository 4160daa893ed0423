"""What the learners can be told. Light: no torch is loaded for it.

The one rule: every default works as it stands, on a laptop with the model that is shipped.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from agentfw import Settings

from ..models.base import Precision

__all__ = ["LoraSettings", "SftSettings"]

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class TrainableSettings(Settings):
    """What both learners have in common."""

    model: str = Field("tiny", min_length=1, description="The base: a folder in the form of Hugging Face, or tiny.")
    adapter: str = Field("", description="An adapter of this base to begin with; empty begins with the base alone.")
    name: str = Field("policy", pattern=r"^[\w.-]+$", description="Versions are called NAME@1, NAME@2 and so on.")
    weights: Literal["lora", "all"] = Field(
        "lora",
        description="What is trained: an adapter, or every weight, which are drawn where the folder has none.",
    )
    precision: Precision = Field(
        "auto", description="Of the base: nf4 is four bits a weight; auto is fp32 on a processor and bf16 on a GPU."
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes a GPU where there is one.")
    seed: int = Field(7, ge=0, description="What is drawn, is drawn from this.")

    rank: int = Field(8, ge=1, le=1024, description="Of the adapter.")
    alpha: float = Field(16.0, gt=0, description="The adapter counts alpha / rank times.")
    modules: tuple[str, ...] = Field(
        _PROJECTIONS, min_length=1, description="Which layers get an adapter, by the end of their names."
    )

    packing: Literal["tree", "plain"] = Field(
        "tree", description="tree computes what turns share once; plain is one turn a row."
    )
    tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum number of tokens computed at once; less takes less memory. "
        "Default: chosen from what the batch shares and the memory there is.",
    )
    offload: bool = Field(
        False,
        description="Move weights and optimizer state to the machine's memory while the policy works: "
        "for when both share one GPU.",
    )
    checkpointing: bool | None = Field(
        None, description="Compute activations twice instead of keeping them; where not set: on a GPU only."
    )

    optimizer: Literal["adamw", "adamw_8bit"] = Field("adamw", description="8-bit keeps a quarter of the state.")
    weight_decay: float = Field(0.0, ge=0, le=1)
    gradient_clip: float = Field(1.0, gt=0, description="No step's gradient is longer than this.")
    warmup: int = Field(0, ge=0, description="Over so many steps the learning rate rises to what it is.")
    decay: int = Field(
        0, ge=0, description="Over so many steps, warm-up included, it falls to a tenth, and stays there; 0 keeps it."
    )
    minibatches: int = Field(1, ge=1, description="Into how many steps a batch is split.")

    @model_validator(mode="after")
    def _fits_together(self) -> TrainableSettings:
        if self.weights == "all" and self.precision not in ("auto", "fp32"):
            raise ValueError(f"weights = all are trained in fp32, not in {self.precision}")
        if self.weights == "all" and self.adapter:
            raise ValueError("weights = all begin with a whole model: name it in model, and leave adapter out")
        if self.decay and self.decay <= self.warmup:
            raise ValueError("decay includes the warm-up, and must be more")
        return self


class LoraSettings(TrainableSettings):
    learning_rate: float = Field(2e-5, ge=1e-8, le=1e-1, description="Of AdamW; policies want 1e-6 to 1e-3.")
    steps: int = Field(1, ge=1, description="How often a batch is gone through; more than once needs clipped ratios.")


class SftSettings(TrainableSettings):
    learning_rate: float = Field(2e-4, ge=1e-8, le=1e-1, description="Of AdamW.")
    epochs: int = Field(1, ge=1, description="How often a batch of demonstrations is gone through.")
