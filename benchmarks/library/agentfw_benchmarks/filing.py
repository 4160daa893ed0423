"""A language model that files messages into folders: how likely it finds each, and a training by what was right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

Conversation = Sequence[Mapping[str, str]]
Chooser = Callable[[Conversation, Sequence[str]], str]
"""Chooses one of some folders for a conversation."""
TASKS, SAMPLES = 8, 8
"""Of an update."""


def chooser(model: str, template: str, adapter: Path | None = None) -> Chooser:
    """Load a model with its own or another chat template. The folder is the one whose name it finds the most likely."""
    from agentfw import Message
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.models import Chat, locate

    chat, learner = Chat(locate(model), template), LoraLearner(LoraSettings(model=model, adapter=str(adapter or "")))
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


def train(model: str, template: str, tasks: Sequence[Mapping[str, Any]], work: Path, updates: int, rate: float) -> Path:
    """Train an adapter by GRPO, and return where it is. An answer is worth 1 if it is the folder, and else 0.

    A training that is in the folder already isn't done again.
    """
    import agentfw
    from agentfw.runs import newest_version

    settings = {"policy.template": template, "tasks": TASKS, "samples": SAMPLES, "optimizer.kl": 0.0}
    settings |= {"learner.learning_rate": rate, "learner.minibatches": 2, "learner.warmup": 2, "learner.decay": 24}
    settings |= {"evaluation.every": updates, "evaluation.tasks": 4, "sampling.max_tokens": 5}  # a name
    if work.exists():
        done = agentfw.load("last", runs=work)
    else:
        done = agentfw.train(tasks=tasks, model=model, optimizer="grpo", updates=updates, settings=settings, runs=work)
    return newest_version(done.folder)
