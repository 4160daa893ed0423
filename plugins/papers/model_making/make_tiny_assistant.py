"""Makes the model `tiny-assistant` from scratch: lessons of a program, tokenizer, training and the folder that ships.

On one machine the same command makes the same folder. The model learns from a teacher that uses each of its sources by
chance, so it knows how to serve a user, and not yet what is worth doing: that is learned in a later training.

    python model_making/make_tiny_assistant.py FOLDER

It needs the extra `train` and takes about 20 minutes on one core. Its lessons are requests of the split `train`, easy
and hard, in worlds other than the one that ships. What a skill graph would recall is drawn.

Two things make it learn to look things up, which it doesn't in that time without them. A token that is composed, such
as " quiet=AD", begins as the sum of its parts. And exercises come first: short cards on which any value may stand.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

from agentfw import Engagement, Generation, Memory, Message, PolicyAgent, Request
from agentfw.memory import Query, Recollection
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.card import NONE
from agentfw_papers.worlds.assistant.card_teacher import CardTeacher, CardTeacherSettings, Habits, teach
from agentfw_papers.worlds.assistant.catalogue import Scenario, load_domains
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_plugins.models.making import ABOUT, Lesson, Recipe, save, train, word_tokenizer, write_folder

_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 1024,
}
_UNREAD = r"- s\d+:| \(tools: [^;)]*; for: [^;)]*"
"""The id of a skill, and the tools that it was learned with. Each is one unknown token."""
_LETTERS = "ABCDE"
_SETS = ["".join(some) for count in range(1, 6) for some in combinations(_LETTERS, count)]
_HAVING = r" ([a-z][\w-]*)=([A-E]+|none)"
"""A value and the offers that have it."""
_FAME = r" ([A-E])(\d+)"
PIECES = (
    rf"{_UNREAD}| ?[a-z][\w-]*=(?:[A-E]+|none)\b|; wish of several users| ?</?\w+(?: \w+=\"?)?|\"/>"
    r"| ?\d+| ?[A-Za-z][\w'-]*| ?[^\sA-Za-z0-9]|\s"
)
"""Words, numbers and signs are a token each, with the space before them, and so is a value with its offers."""
_SCALE = 0.125
"""Standard deviation of the embedding at the beginning, for logits of about 1."""
_FIRST_WORLD = 1000
_REQUESTS_PER_WORLD = 500
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_MOST_UNKNOWN = 0.4
"""Largest share of the words of a request that are left out."""
_UNKNOWN_WISH = 0.15
"""Share of recalled wishes whose word is left out."""
_KEPT = 0.3
"""Share of the turns that become lessons, so that these are of many requests."""
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
        if self._draw.random() < _KEPT:
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


def exercises_of(count: int, seed: int) -> list[Lesson]:
    """Short cards with values of any scenario, drawn anew each time, and all that a teacher can make of them."""
    draw = Random(f"exercises {seed}")
    return [_exercise(draw) for _ in range(count)]


def _exercise(draw: Random) -> Lesson:
    domains = load_domains("")
    real, other = draw.sample(list(domains.values()), 2)
    count = draw.randint(1, 3)
    values = draw.sample(_values(), 3 * count)
    asked = draw.sample(sorted({one for scenario in domains.values() for one in scenario.questions}), count)
    questions = {one: values[3 * place : 3 * place + 3] for place, one in enumerate(asked)}
    scenario = replace(
        real, questions={one: {value: (value,) * 3 for value in some} for one, some in questions.items()}
    )
    lines = [_wish(draw.choice(values), scenario, draw) for _ in range(draw.choice((0, 0, 1, 2)))]
    if draw.random() < 0.3:
        lines.append(_wish(draw.choice(_values()), other, draw))
    draw.shuffle(lines)
    profiles = [_profile(draw.sample(values, draw.randint(1, 3)), scenario)] if draw.random() < 0.8 else []
    if draw.random() < 0.4:
        profiles.append(_profile(draw.sample(_values(), draw.randint(1, 3)), other))
        draw.shuffle(profiles)
    lines += [*profiles, f"to do: {real.name}", f"offers for {real.name}:"]
    letters = _LETTERS if draw.random() < 0.7 else sorted(draw.sample(_LETTERS, 4))
    for question, some in questions.items():
        having = dict.fromkeys(some, "")
        for letter in letters:
            having[draw.choice(some)] += letter
        lines.append(f"{question}: {', '.join(f'{value}={of or NONE}' for value, of in having.items())}")
    lines.append(f"fame: {', '.join(f'{letter}{round(10 / draw.uniform(1, 5.5))}' for letter in letters)}")
    if draw.random() < 0.15:
        name = draw.choice(real.names) + draw.choice(("", " 2", " 3"))
        lines.append(f"failed: {real.calls[1]} is down today; a mail to {name} works")
    card = "\n".join(lines)
    return [Message("user", card)], teach(card, Habits({real.name: scenario}, draw, share=1.0))


def _wish(value: str, scenario: Scenario, draw: Random) -> str:
    shared = "; wish of several users" if draw.random() < 0.4 else ""
    learned = f"(tools: {scenario.calls[0]}; for: {scenario.name}{shared})"
    return f"- s{draw.randint(1, 2000)}: For {scenario.name}, prefer {value} {scenario.noun} {learned}"


def _profile(values: Sequence[str], scenario: Scenario) -> str:
    return f"{scenario.name}: likes {', '.join(values)} {scenario.noun}"


def _values() -> list[str]:
    """The catalogue's word for every value."""
    questions = [answers for scenario in load_domains("").values() for answers in scenario.questions.values()]
    return sorted({words[0] for answers in questions for words in answers.values()})


def vocabulary_of(lessons: Sequence[Lesson]) -> list[Lesson]:
    """The lessons without what is to stay unknown, and all that can stand in a table of offers."""
    unread = re.compile(f"{_UNREAD}|{_UNREADABLE}")
    table = [f"{value}={letters}" for value in _values() for letters in (*_SETS, NONE)]
    table += [
        *_values(),
        *_SETS,
        NONE,
        *(f"{letter}{fame}" for letter in _LETTERS for fame in range(1, 11)),
        *map(str, range(11)),
    ]
    known = [Message("user", f" {' '.join(table)}")]
    return [
        (known, ""),
        *(
            ([replace(message, content=unread.sub("", message.content)) for message in messages], answer)
            for messages, answer in lessons
        ),
    ]


def write_first_weights(folder: Path, seed: int) -> None:
    """Draw the weights that the training starts from. Composed tokens begin as the sum of their parts."""
    import torch
    from tokenizers import Tokenizer
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(folder))
    place = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight.normal_(0, _SCALE)
        for letters in _SETS:
            if len(letters) > 1:
                parts = [embedding[place[f" {letter}"]] for letter in letters]
                embedding[place[f" {letters}"]] = sum(parts) / len(parts) ** 0.5
        for token in place:
            if found := re.fullmatch(f"{_HAVING}|{_FAME}", token):
                one, other = (part for part in found.groups() if part is not None)
                embedding[place[token]] = embedding[place[f" {one}"]] + embedding[place[f" {other}"]]
    save(model, folder / "model.safetensors")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output directory; must not exist")
    parser.add_argument("--lessons", type=int, default=32_000, help="number of turns to learn from")
    parser.add_argument("--exercises", type=int, default=600, help="training steps of 64 exercises each, at first")
    parser.add_argument("--steps", type=int, default=1800, help="training steps of 32 lessons each, twice after that")
    parser.add_argument("--rate", type=float, default=1.7e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    lessons = lessons_of(given.lessons, given.seed)
    exercises = exercises_of(64 * given.exercises, given.seed)
    write_folder(given.folder, word_tokenizer(vocabulary_of([*lessons, *exercises]), PIECES), _SHAPE, ABOUT)
    write_first_weights(given.folder, given.seed)
    train(given.folder, exercises, Recipe(given.exercises, given.rate, rows=64, seed=given.seed), given.folder)
    # Without exercises in between, it forgets to find the wishes.
    mixed = [*lessons, *exercises[: len(lessons) // 2]]
    for part in (1, 2):
        train(given.folder, mixed, Recipe(given.steps, given.rate / part, rows=32, seed=given.seed), given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
