"""Makes the model `tiny-assistant` from scratch: lessons of a program, tokenizer, training and the folder that ships.

On one machine the same command makes the same folder. The model learns from a teacher that uses each of its sources by
chance, so it knows how to serve a user, and not yet what is worth doing: that is learned in a later training.

    python model_making/make_tiny_assistant.py FOLDER

It needs the extra `train` and takes some minutes on one core. Its lessons are requests of the split `train`, easy and
hard, in worlds other than the one that ships. What a skill graph would recall is drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from small_model_training import Lesson, Recipe, train, write_folder
from word_tokenizer import ABOUT, word_tokenizer

from agentfw import Engagement, Generation, Memory, Message, PolicyAgent, Query, Recollection, Request
from agentfw_plugins.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_plugins.worlds.assistant.card_teacher import CardTeacher, CardTeacherSettings
from agentfw_plugins.worlds.assistant.domains import load_domains
from agentfw_plugins.worlds.assistant.environment import Assistant

__all__ = ["PIECES", "lessons_of", "main", "vocabulary_of"]

_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "head_dim": 32,
    "max_position_embeddings": 1024,
}
_UNREAD = r"- s\d+:| \(tools: [^;)]*; for: [^;)]*"
"""The id of a skill, and the tools that it was learned with. Each is one unknown token."""
_HAVING = r" ?[a-z][\w-]*=(?:[A-E]+\b|none\b)"
"""A value and the offers that have it."""
PIECES = (
    rf"{_UNREAD}|{_HAVING}|; wish of several users| ?</?\w+(?: \w+=\"?)?|\"/>"
    r"| ?\d+| ?[A-Za-z][\w'-]*| ?[^\sA-Za-z0-9]|\s"
)
"""Words, numbers and signs are a token each, with the space before them, and so is a value with its offers."""
_FIRST_WORLD = 1000
_REQUESTS_PER_WORLD = 500
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_MOST_UNKNOWN = 0.4
"""Largest share of the words of a request that are left out."""
_UNKNOWN_WISH = 0.15
"""Share of recalled wishes whose word is left out."""
_KEPT = 0.3
"""Share of the turns without a choice that become lessons."""
_WISH = re.compile(r"(?<=, prefer )[\w-]+")
_REQUEST = re.compile(r"(?<=^day )(\d+: )(.*?)( I'm not coming alone\.)?$", re.MULTILINE)


class _DrawnSkills(Memory):
    """Recalls drawn skills, worded as the skill graph words them."""

    def __init__(self, seed: int) -> None:
        self._draw, self._domains = Random(f"skills {seed}"), load_domains("")
        self._count = self._draw.choice((0, 0, 3, 5))

    async def recall(self, query: Query) -> Sequence[Recollection]:
        shown = re.findall(r"^(?:to do: |offers for )(\w+)", query.text, re.MULTILINE)[-1:]
        return [Recollection(self._skill(shown)) for _ in range(self._draw.randint(0, self._count))]

    def _skill(self, shown: list[str]) -> str:
        draw = self._draw
        name = draw.choice(shown) if shown and draw.random() < 0.7 else draw.choice(list(self._domains))
        scenario = self._domains[name]
        other = draw.choice(list(self._domains))
        about = f"{other} and {name}" if other != name and draw.random() < 0.3 else name
        question, values = draw.choice(list(scenario.questions.items()))
        word = draw.choice(scenario.spoken(question, draw.choice(list(values)), "train"))
        text = draw.choice(
            [f"prefer {word} {scenario.noun}"] * 3
            + [
                f"use {scenario.calls[0]}, then {scenario.calls[1]}, then answer",
                f"when {scenario.calls[1]} fails, use mail_send",
            ]
        )
        shared = "; wish of several users" if draw.random() < 0.4 else ""
        return f"s{draw.randint(1, 2000)}: For {about}, {text} (tools: {scenario.calls[0]}; for: {about}{shared})"


class _BlurredTeacher(CardTeacher):
    """A teacher that is shown the messages with words left out, as they become lessons.

    Held-out users use other words. A model that has to do without some learns to ignore what it can't read.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(CardTeacherSettings(share=0.5))
        self._draw, self.lessons = Random(f"blurred {seed}"), list[Lesson]()

    async def generate(self, request: Request) -> Generation:
        last = replace(request.messages[-1], content=self._blurred(request.messages[-1].content))
        generation = await super().generate(replace(request, messages=[*request.messages[:-1], last]))
        if "best " in generation.text or self._draw.random() < _KEPT:
            self.lessons.append(([last], generation.text))
        return generation

    def _blurred(self, text: str) -> str:
        draw, share = self._draw, self._draw.uniform(0, _MOST_UNKNOWN)
        text = _WISH.sub(lambda found: _UNREADABLE if draw.random() < _UNKNOWN_WISH else found[0], text)

        def request(found: re.Match[str]) -> str:
            words = re.sub(r"[\w']+", lambda word: _UNREADABLE if draw.random() < share else word[0], found[2])
            return f"{found[1]}{words}{found[3] or ''}"

        return _REQUEST.sub(request, text)


def lessons_of(count: int, seed: int) -> list[Lesson]:
    """The first turns of as many requests as it takes, in one world after the other."""
    return [lesson for lesson, _ in zip(_lessons(seed), range(count), strict=False)]


def _lessons(seed: int) -> Iterator[Lesson]:
    world = _FIRST_WORLD + seed
    while True:
        difficulty = "hard" if world % 2 else "easy"
        settings = AssistantSettings.model_validate(
            {
                "world": world,
                "style": "card",
                "difficulty": difficulty,
                "faults": 0.5,
                "stated": 0.6,  # the more is known, the more there is to learn from a choice
                "skip": world % 9 * 100,
            }
        )
        teacher = _BlurredTeacher(world)
        for task in Assistant(settings).tasks(_REQUESTS_PER_WORLD, seed, "train"):
            agent = PolicyAgent(teacher, memories=[_DrawnSkills(task.seed)])
            asyncio.run(Engagement(Assistant(settings), agent).run(task))
            yield from teacher.lessons
            teacher.lessons.clear()
        world += 1


def vocabulary_of(lessons: Sequence[Lesson]) -> list[Lesson]:
    """The lessons without what is to stay unknown."""
    unread = re.compile(f"{_UNREAD}|{_UNREADABLE}")
    return [
        ([replace(message, content=unread.sub("", message.content)) for message in messages], answer)
        for messages, answer in lessons
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output directory; must not exist")
    parser.add_argument("--lessons", type=int, default=24_000, help="number of turns to learn from")
    parser.add_argument("--steps", type=int, default=3000, help="training steps of 16 lessons each")
    parser.add_argument("--rate", type=float, default=4e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    lessons = lessons_of(given.lessons, given.seed)
    write_folder(given.folder, word_tokenizer(vocabulary_of(lessons), PIECES), _SHAPE, ABOUT)
    train(given.folder, lessons, Recipe(given.steps, given.rate, muon=False, seed=given.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
