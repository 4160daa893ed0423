"""The lessons of `tiny`, from years of training users with the teacher, and the tokenizer made from them.

A lesson is a whole turn of an episode, with prompt and answer as a run records them. Only training users are used.

    lessons = play("train", 1000, processes=2)     # each: (messages, answer)
    lessons = play("train", 1000, processes=2, organisations="drawn")   # every second year in a drawn organisation

In three of five years the hub is tampered with: now and then some weights are changed, or all are drawn anew. A model
that has only seen the teacher's own hubs can't handle the numbers that its own mistakes produce.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from calendar_teacher import LABELS, NAMES, TeacherPolicy, TeacherSettings, read_weights, write_weights

from agentfw import Engagement, PolicyAgent, Task
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven
from agentfw.memory import Query, Recollection
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.models.making import Lesson
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CALLS = (
    '<tool_call>{"name": "strategy_hub", "arguments": {"action": "update", "strategies": ["',
    '<tool_call>{"name": "decide", "arguments": {"accept": "',
    '", "ranking": ["',
    '"], "reason": "',
    '"}}</tool_call>',
    '"]}}</tool_call>',
    '", "',
)
"""The fixed parts of calls, one token each, so that answers are short."""
_PIECES = r" ?[a-z]+=[A-Za-z0-9,:+.-]+| ?[+-]?\d+| ?[A-Za-z']+| ?[^\sA-Za-z0-9]+|\s"
"""Tags, numbers, words and signs. No token spans two of them."""


def play(
    split: str, years: int, processes: int, attention: float = 1.0, organisations: str = ""
) -> Iterator[list[Lesson]]:
    """The teacher's years, in order: all users of the split once, then each of them a second year, and so on.

    With a folder of organisations, every second year is that of a user in one of these.
    """
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(partial(_year, split, attention, organisations), range(years), chunksize=2)


def _year(split: str, attention: float, organisations: str, index: int) -> list[Lesson]:
    if organisations:
        index, elsewhere = divmod(index, 2)
        environment = _in_each_of(organisations) if elsewhere else CalendarConflicts()
    else:
        environment = CalendarConflicts()
    users = environment.settings.dataset().users(split)
    task = Task(index, seed=index, user=users[index % len(users)], split=split)
    settings = StrategyHubSettings(show=True)
    memory = _MeddledHub(settings, index) if index % 5 < 3 else StrategyHubMemory(settings)
    teacher = TeacherPolicy(TeacherSettings(attention=attention))
    agent = PolicyAgent(teacher, memories=[memory], window=2, recall=memory.settings.capacity)
    try:
        episode = asyncio.run(Engagement(environment, agent, EventDriven()).run(task))
    except SettingsError:  # a drawn organisation may lack the people for somebody's meetings
        if environment.settings.organisations:
            return []
        raise
    return [([episode.messages[place] for place in turn.shown], turn.text) for turn in episode.turns]


def _in_each_of(organisations: str) -> CalendarConflicts:
    """The environment in which each file of a folder makes one organisation."""
    count = len(list(Path(organisations).glob("*.yaml")))
    return CalendarConflicts(CalendarSettings(organisations=organisations, train_organisations=count))


class _MeddledHub(StrategyHubMemory):
    """A hub that is tampered with before one turn in five."""

    def __init__(self, settings: StrategyHubSettings, seed: int) -> None:
        super().__init__(settings)
        self._draw = random.Random(f"meddled hub {seed}")

    async def recall(self, query: Query) -> Sequence[Recollection]:
        hub, draw = self.hub(query.task), self._draw
        if hub.list() and draw.random() < 0.2:
            weights = read_weights(hub.list())
            if draw.random() < 0.6:
                for name in draw.sample(NAMES, draw.randint(1, 6)):
                    weights[name] += draw.randint(-9, 9)
            else:
                spread = draw.choice((4, 8, 14, 20))
                weights = {name: round(draw.gauss(0, spread)) for name in NAMES}
            hub.update(write_weights({name: max(-40, min(40, weight)) for name, weight in weights.items()}))
        return await super().recall(query)


def make_tokenizer(lessons: Sequence[Lesson], controls: Sequence[str], size: int = 3072) -> Tokenizer:
    """Byte-level BPE. Numbers up to 99 and labels of principles are one token each."""
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
    # With its comma a principle is one token too: whether another term comes, and which, is then one question.
    whole += [f", {label}" for label in LABELS.values()]
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
