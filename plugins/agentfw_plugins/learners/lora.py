"""The learner `lora`: policy gradients on an adapter or on all weights of a model in this process.

It learns from exactly the sampled tokens, without tokenising again, and computes shared prefixes once.

    agentfw train inbox --learner lora --set learner.model=path/to/model --set learner.learning_rate=1e-5

The same code runs on a CPU and on CUDA. Each update writes a standard PEFT folder, which vLLM, transformers and PEFT
can load. With `weights = "all"` it writes a full model folder.
"""

from __future__ import annotations

from agentfw.episode import Episode, Turn

from .model_learner import ModelLearner
from .settings import LoraSettings
from .token_tree import TurnTokens

__all__ = ["LoraLearner"]


class LoraLearner(ModelLearner):
    """Learns from the policy's own samples."""

    def __init__(self, settings: LoraSettings) -> None:
        super().__init__(settings, learning_rate=settings.learning_rate, rounds=settings.steps)

    def tokens(self, episode: Episode, turn: Turn) -> TurnTokens | None:
        return TurnTokens(turn.prompt_ids, turn.token_ids) if turn.prompt_ids and turn.token_ids else None
