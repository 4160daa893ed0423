"""The learner `lora`: policy gradients on an adapter, or on all weights, of a model in this process.

It learns from exactly the tokens that were sampled, and computes each unique one once. Nothing is tokenised again.

    agentfw train inbox --learner lora --set learner.model=path/to/model --set learner.learning_rate=1e-5

The same code runs on a CPU and on CUDA. Each update leaves a standard PEFT folder that vLLM, transformers and PEFT can
load; with `weights = "all"` it leaves a whole model folder instead.
"""

from __future__ import annotations

from agentfw import Episode, Turn
from agentfw.engine import Engine

from .model_learner import ModelLearner
from .settings import LoraSettings
from .token_tree import TurnTokens

__all__ = ["LoraLearner"]


class LoraLearner(ModelLearner):
    """Learns from the policy's own samples."""

    def __init__(self, settings: LoraSettings, engine: Engine | None = None) -> None:
        super().__init__(settings, engine, learning_rate=settings.learning_rate, rounds=settings.steps)

    def tokens(self, episode: Episode, turn: Turn) -> TurnTokens | None:
        return TurnTokens(turn.prompt_ids, turn.token_ids) if turn.prompt_ids and turn.token_ids else None
