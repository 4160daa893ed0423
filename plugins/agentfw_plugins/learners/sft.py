"""The learner `sft`: supervised learning from demonstrations, which are texts and calls of another policy.

A demonstration is tokenised once, with the chat template that the policy will be prompted with. A turn that has tokens
already is learned from as it is. Only a whole answer is followed by the token that ends answers: after one that was cut
off, the policy would learn to stop there.

    agentfw train inbox --teacher scripted --optimizer imitation --learner sft --set learner.model=path/to/model

With `weights = "all"` and a folder that has only a tokenizer and a config.json, a new model is trained from scratch.
"""

from __future__ import annotations

from agentfw import Episode, Turn
from agentfw.engine import Engine
from agentfw.request import Action

from ..models import Chat, locate
from ..models.conversation import tagged
from .model_learner import ModelLearner
from .settings import SftSettings
from .token_tree import TurnTokens

__all__ = ["SftLearner"]


class SftLearner(ModelLearner):
    """Learns to give the answers of the demonstrations."""

    def __init__(self, settings: SftSettings, engine: Engine | None = None) -> None:
        super().__init__(settings, engine, learning_rate=settings.learning_rate, rounds=settings.epochs)
        self._chat = Chat(locate(settings.model), settings.template)

    def tokens(self, episode: Episode, turn: Turn) -> TurnTokens | None:
        if turn.prompt_ids and turn.token_ids:
            return TurnTokens(turn.prompt_ids, turn.token_ids)
        text = turn.text or "\n".join(tagged(call.name, dict(call.arguments)) for call in turn.calls)
        if not text or not turn.shown:
            return None
        shown = [episode.messages[index] for index in turn.shown]
        actions = [Action(**action) for action in episode.actions.get(turn.seat, ())]
        answer = self._chat.answer(text)
        return TurnTokens(self._chat.prompt(shown, actions), answer if turn.finish == "stop" else answer[:-1])
