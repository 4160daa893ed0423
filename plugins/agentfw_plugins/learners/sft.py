"""The learner `sft`: from demonstrations, which are texts and calls that somebody else answered with.

The one rule: a demonstration becomes tokens once, through the chat template that the policy will be prompted with; a
turn that has tokens already is learned from as it is.

    agentfw train inbox --teacher scripted --optimizer imitation --learner sft --set learner.model=path/to/model

With `weights = "all"` and a folder that holds a tokenizer and a config.json alone, a model is made from nothing.
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
    """Learns to answer as was answered."""

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
