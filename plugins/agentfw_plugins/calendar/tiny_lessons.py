"""What `tiny` is taught: years of training users as the teacher keeps them, and the tokenizer made from these.

The one rule: lessons are whole turns of real episodes, prompt and answer as a run shows and records them; nobody but
training users is in them.

    lessons = play("train", 600, processes=2)     # each: (messages, answer)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from agentfw import Engagement, EventDriven, PolicyAgent, Task
from agentfw.episode import Message

from ..memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from .environment import CalendarConflicts
from .scratchpad import LABELS
from .teacher import TeacherPolicy

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Lesson", "make_tokenizer", "play"]

Lesson = tuple[list[Message], str]
"""What was shown in a turn, and what the teacher said."""

_CALLS = (
    '<tool_call>{"name": "strategy_hub", "arguments": {"action": "update", "strategies": ["',
    '<tool_call>{"name": "decide", "arguments": {"accept": "',
    '", "ranking": ["',
    '"], "reason": "',
    '"}}</tool_call>',
    '"]}}</tool_call>',
    '", "',
)
"""What stands around the words of every call: one token each, so that an answer is short."""
_PIECES = r" ?[a-z]+=[A-Za-z0-9,:+.-]+| ?[+-]?\d+| ?[A-Za-z']+| ?[^\sA-Za-z0-9]+|\s"
"""Tags, numbers, words, signs: no token spans two of them."""


def play(split: str, years: int, processes: int) -> Iterator[list[Lesson]]:
    """The teacher's years, in order: all users of the split once, then each of them a second year, and so on."""
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(partial(_year, split), range(years), chunksize=2)


def _year(split: str, index: int) -> list[Lesson]:
    environment = CalendarConflicts()
    users = environment.settings.dataset().users(split)
    memory = StrategyHubMemory(StrategyHubSettings(show=True))
    agent = PolicyAgent(TeacherPolicy(), memories=[memory], window=2, recall=memory.settings.capacity)
    task = Task(index, seed=index, user=users[index % len(users)], split=split)
    episode = asyncio.run(Engagement(environment, agent, EventDriven()).run(task))
    return [([episode.messages[place] for place in turn.shown], turn.text) for turn in episode.turns]


def make_tokenizer(lessons: Sequence[Lesson], controls: Sequence[str], size: int = 3072) -> Tokenizer:
    """Byte-level BPE: nothing is unknown to it. Numbers up to 99 and what principles are called are one token each."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=3,
        special_tokens=list(controls),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(lessons), trainer)
    whole = [*_CALLS, *(f" {label}" for label in LABELS.values())]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in whole])
    return tokenizer


def _corpus(lessons: Sequence[Lesson]) -> Iterator[str]:
    numbers = " ".join(f"{number:+d} {number}" for number in range(-99, 100))
    yield from [f" {numbers}"] * 400
    for messages, answer in lessons:
        text = f"{messages[-1].content}\n{answer}"
        for call in _CALLS:
            text = text.replace(call, "\n")
        for label in LABELS.values():
            text = text.replace(f" {label}", " ")
        yield text
