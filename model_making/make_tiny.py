"""Makes the model of the policy `tiny` from scratch: lessons, tokenizer, training and the folder that ships.

On one machine the same command makes the same folder. Measure the result on users that it has never seen:
`python benchmarks/calendar_players.py tiny`.

    python model_making/make_tiny.py FOLDER
    python model_making/make_tiny.py FOLDER --steps 1000 --from tiny       # start from other weights
    python model_making/drawn_organisations.py DRAWN && python model_making/make_tiny.py FOLDER --organisations DRAWN

It needs the extra `train` and takes two to three hours on two cores. Only the teacher's answers are learned, not what
it was shown. With `--attention 0.55` the model learns to use only about half of the feedback; `agentfw train calendar`
starts from such a model (docs/reference/tiny.md has the command).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tiny_lessons import make_tokenizer, play

from agentfw_plugins.models.locate import locate
from agentfw_plugins.models.making import Recipe, train, write_folder
from agentfw_plugins.models.small_model import END, ROLES


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="output directory; must not exist")
    parser.add_argument("--steps", type=int, default=12000, help="training steps of 16 lessons each")
    parser.add_argument("--years", type=int, default=1000, help="years of training users to learn from")
    parser.add_argument("--rate", type=float, default=1e-3, help="peak learning rate; ten times that for matrices")
    parser.add_argument(
        "--attention", type=float, default=1.0, help="share of rounds in which the teacher learns from the feedback"
    )
    parser.add_argument(
        "--organisations", default="", help="directory of organisations in which every second year is played"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--from", dest="start", type=locate, help="model whose weights and tokenizer to start from")
    given = parser.parse_args()
    years = play("train", given.years, 2, given.attention, given.organisations)
    lessons = [lesson for year in years for lesson in year]
    print(f"{len(lessons)} lessons", file=sys.stderr)
    if given.start:
        given.folder.mkdir(parents=True)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            (given.folder / name).write_bytes((given.start / name).read_bytes())
    else:
        write_folder(given.folder, make_tokenizer(lessons[:20000:2], [END, *ROLES.values(), "<|pad|>"]))
    train(given.folder, lessons, Recipe(given.steps, given.rate, seed=given.seed), given.start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
