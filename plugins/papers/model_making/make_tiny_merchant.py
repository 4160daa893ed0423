"""Makes the model `tiny-merchant` from scratch: lessons of a program, tokenizer, training and the folder that ships.

On one machine the same command makes the same folder. The model learns which plan covers which topics and wishes, but
not that all of them should be covered: the teacher leaves out every second one. That is learned in a later training.

    python model_making/make_tiny_merchant.py FOLDER

It needs the extras `train` and `memory` and takes some minutes on one core. Its lessons are turns of an ordinary run of
the policy `merchant-teacher` on merchants of the split `train`, with a skill graph whose skills it is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from agentfw import Host, Run
from agentfw.runs import parse_spec
from agentfw_plugins.models.making import ABOUT, Lesson, Recipe, train, word_tokenizer, write_folder

_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "head_dim": 16,
    "max_position_embeddings": 512,
}
_JSON = r"[\s<>/\"{}\[\]:,]"
PIECES = (
    rf"[<\"{{}}\[\]]{_JSON}*(?:(?:tool_call|name|arguments|steps|id|skill|needs)\b{_JSON}+)*"
    r"| ?[A-Za-z][A-Za-z_'-]*| ?\d| ?[^\sA-Za-z0-9]|\s"
)
"""Names of analyses, words and digits are a token each, and so is what JSON needs between two names."""


def lessons_of(days: int, merchants: int, seed: int, stated: float = 0.3) -> list[Lesson]:
    """The turns of a run. `stated` is the share of tastes that are known beforehand, so that cards have wishes."""
    spec = parse_spec(
        {
            "environment": {
                "name": "merchant",
                "settings": {"style": "card", "train_merchants": merchants, "stated": stated},
            },
            "policy": "merchant-teacher",
            "memories": [
                {"name": "skillgraph", "settings": {"extractor": "agentfw_papers.said_wishes:extract_wishes"}}
            ],
            "rewards": ["merchant_base", "merchant_personal"],
            "interface": "event_driven",
            "split": "train",
            "episodes": days * merchants,
            "concurrency": merchants,
            "seed": seed,
        }
    )
    with TemporaryDirectory() as folder:
        run = Run.create(spec, Host.load(), Path(folder))
        asyncio.run(run.execute())
        return [
            ([episode.messages[place] for place in turn.shown], turn.text)
            for episode in run.folder.episodes()
            for turn in episode.turns
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="output directory; must not exist")
    parser.add_argument("--merchants", type=int, default=600, help="number of merchants")
    parser.add_argument("--days", type=int, default=5, help="number of requests of each merchant")
    parser.add_argument("--steps", type=int, default=1500, help="training steps of 16 lessons each")
    parser.add_argument("--stated", type=float, default=0.3, help="share of tastes that are known beforehand")
    parser.add_argument("--from", dest="start", type=Path, help="folder of a model to start from")
    parser.add_argument("--rate", type=float, default=4e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    lessons = lessons_of(given.days, given.merchants, given.seed, given.stated)
    if given.start:
        shutil.copytree(given.start, given.folder)
    else:
        write_folder(given.folder, word_tokenizer(lessons, PIECES), _SHAPE, ABOUT)
    recipe = Recipe(given.steps, given.rate, rows=16, muon=False, seed=given.seed)
    train(given.folder, lessons, recipe, given.start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
