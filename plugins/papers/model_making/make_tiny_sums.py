"""Makes the model `tiny-sums` from scratch: demonstrations, tokenizer, training and the folder that ships.

On one machine the same command makes the same folder. The model learns from demonstrations alone, and these ignore the
budget: it only learns about time in a later training.

    python model_making/make_tiny_sums.py FOLDER

It needs the extra `train` and takes three minutes on one core. Its lessons are turns of episodes of the split `train`,
as a run records them, in which the policy `scripted` follows the environment's demonstration.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from agentfw import Engagement, PolicyAgent
from agentfw_papers.worlds.budget.environment import Budget
from agentfw_plugins.models.making import ABOUT, Lesson, Recipe, train, word_tokenizer, write_folder
from agentfw_plugins.policies.scripted import ScriptedPolicy

_SHAPE = {"hidden_size": 48, "intermediate_size": 96, "head_dim": 12, "max_position_embeddings": 512}
_PIECES = r" ?</?answer>| ?\d+| ?[A-Za-z']+| ?[^\sA-Za-z0-9]|\s"
"""Numbers, words and signs are a token each, with the space before them."""


async def demonstrations(count: int, seed: int) -> list[Lesson]:
    lessons: list[Lesson] = []
    for task in Budget().tasks(count, seed, "train"):
        episode = await Engagement(Budget(), PolicyAgent(ScriptedPolicy())).run(task)
        lessons += [([episode.messages[place] for place in turn.shown], turn.text) for turn in episode.turns]
    return lessons


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output directory; must not exist")
    parser.add_argument("--demonstrations", type=int, default=24_000, help="number of demonstrations")
    parser.add_argument("--steps", type=int, default=3000, help="training steps of 12 demonstrations each")
    parser.add_argument("--rate", type=float, default=4e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    lessons = asyncio.run(demonstrations(given.demonstrations, given.seed))
    write_folder(given.folder, word_tokenizer(lessons, _PIECES), _SHAPE, ABOUT)
    recipe = Recipe(given.steps, given.rate, rows=12, muon=False, seed=given.seed)
    train(given.folder, lessons, recipe)
    return 0


if __name__ == "__main__":
    sys.exit(main())
