"""Makes the model `tiny-proactive` from scratch: lessons of a program, tokenizer, training and the folder that ships.

On one machine the same command makes the same folder. The model learns which actions follow from what was said, but
not when to be ready: the teacher's timing doesn't depend on the text. Timing is learned in a later training.

    python model_making/make_tiny_proactive.py FOLDER

It needs the extra `train` and takes some minutes on one core. Its lessons are turns of dialogues of the split `train`,
as the environment shows them.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentfw import Engagement, PolicyAgent
from agentfw.runs import read_spec
from agentfw.seeds import Seeds
from agentfw_papers.worlds import proactive
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.players import draw_manner, teach
from agentfw_papers.worlds.proactive.prompting import write_answer
from agentfw_papers.worlds.proactive.settings import ProactiveSettings
from agentfw_plugins.models.making import ABOUT, Lesson, Recipe, train, word_tokenizer, write_folder
from agentfw_plugins.policies.scripted import ScriptedPolicy

_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "head_dim": 16,
    "max_position_embeddings": 1024,
}
PIECES = r" ?<\w+>| ?\d+| ?[A-Za-z][\w'-]*| ?[^\sA-Za-z0-9]|\s"
"""Placeholders, numbers, words and signs are a token each, with the space before them. An action is one word."""
_WORD = re.compile(r"(?<= )[A-Za-z][\w'-]*\b(?![:>])")
"""A word that somebody says: no placeholder, and not the speaker."""
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_MOST_UNKNOWN = 0.4
"""Largest share of words that are left out of a prompt."""


async def lessons_of(settings: ProactiveSettings, count: int, seed: int) -> list[Lesson]:
    environment, seeds = Proactive(settings), Seeds(seed)
    lessons: list[Lesson] = []
    for task in environment.tasks(count, seed, "train"):
        episode = await Engagement(Proactive(settings), PolicyAgent(ScriptedPolicy())).run(task)
        example = environment.example(task)
        manner = draw_manner(seeds.random("manner", example.id))
        for turn in episode.turns:
            answer = write_answer(teach(example, turn.round, manner), settings.answers)
            lessons.append(([episode.messages[place] for place in turn.shown], answer))
    return lessons


def with_unknown_words(lessons: Sequence[Lesson], seed: int) -> list[Lesson]:
    """The lessons with words left out of their prompts, in each another share of them.

    Held-out people use other words. A model that has to do without some words learns to understand with those it knows.
    """
    draw = Seeds(seed).random("unknown words")

    def changed(text: str) -> str:
        share = draw.uniform(0, _MOST_UNKNOWN)
        return _WORD.sub(lambda found: _UNREADABLE if draw.random() < share else found[0], text)

    return [
        ([*messages[:-1], replace(messages[-1], content=changed(messages[-1].content))], answer)
        for messages, answer in lessons
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output directory; must not exist")
    parser.add_argument("--dialogues", type=int, default=2000, help="number of dialogues")
    parser.add_argument("--lessons", type=int, default=20_000, help="number of turns of these dialogues")
    parser.add_argument("--steps", type=int, default=1800, help="training steps of 16 lessons each")
    parser.add_argument("--rate", type=float, default=4e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    # The model reads what the training that ships will show it.
    spec = read_spec(Path(proactive.__file__).parent / "specs" / "train-proactive.toml")
    settings = ProactiveSettings.model_validate({**spec["environment"]["settings"], "dialogues": given.dialogues})
    lessons = asyncio.run(lessons_of(settings, given.lessons, given.seed))
    write_folder(given.folder, word_tokenizer(lessons, PIECES), _SHAPE, ABOUT)
    train(
        given.folder,
        with_unknown_words(lessons, given.seed),
        Recipe(given.steps, given.rate, rows=16, muon=False, seed=given.seed),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
