"""A language model that files messages into folders: how likely it finds each.

Prompts are written in ChatML whatever the model, so a base model is asked like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

Conversation = Sequence[Mapping[str, str]]
Chooser = Callable[[Conversation, Sequence[str]], str]
"""Chooses one of some folders for a conversation."""
TEMPLATE = "chatml"


def chooser(model: str, adapter: Path | None = None) -> Chooser:
    """Load a model. The folder is the one whose name it finds the most likely."""
    from agentfw import Message
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.models import Chat, locate

    chat, learner = Chat(locate(model), TEMPLATE), LoraLearner(LoraSettings(model=model, adapter=str(adapter or "")))
    known: dict[tuple[int, ...], str] = {}

    def choose(conversation: Conversation, folders: Sequence[str]) -> str:
        prompt = chat.prompt([Message(one["role"], one["content"]) for one in conversation])
        if prompt not in known:  # arms often show the same
            names = [chat.answer(folder) for folder in folders]
            found = iter(learner.score([(prompt, name) for name in names], base=adapter is None).logprobs)
            scores = [sum(islice(found, len(name))) for name in names]
            known[prompt] = folders[scores.index(max(scores))]
        return known[prompt]

    return choose
