"""The learner `sft`: supervised fine-tuning on demonstrations, which are texts and calls from another policy.

A demonstration is tokenised once, with the chat template that the policy's prompts will use. If a turn already has
tokens, they are used as they are.

    agentfw train inbox --teacher scripted --optimizer imitation --learner sft --set learner.model=path/to/model

With `weights = "all"` and a folder with only a tokenizer and a config.json, it trains a model from scratch.
"""

from __future__ import annotations

from agentfw.environment import Action
from agentfw.episode import Episode, Turn

from ..models import Chat, locate
from ..models.conversation import tagged
from .model_learner import ModelLearner
from .settings import SftSettings
from .token_tree import TurnTokens

__all__ = ["SftLearner"]


class SftLearner(ModelLearner):
    """Learns to imitate the recorded answers."""

    def __init__(self, settings: SftSettings) -> None:
        super().__init__(settings, learning_rate=settings.learning_rate, rounds=settings.epochs)
        self._chat = Chat(locate(settings.model))

    def tokens(self, episode: Episode, turn: Turn) -> TurnTokens | None:
        if turn.prompt_ids and turn.token_ids:
            return TurnTokens(turn.prompt_ids, turn.token_ids)
        text = turn.text or "\n".join(tagged(call.name, dict(call.arguments)) for call in turn.calls)
        if not text or not turn.shown:
            return None
        shown = [episode.messages[index] for index in turn.shown]
        actions = [Action(**action) for action in episode.actions.get(turn.seat, ())]
        return TurnTokens(self._chat.prompt(shown, actions), self._chat.answer(text))
