"""People who rate single answers of a language model: what can be told apart, and do thumbs or words teach more?

    python benchmarks/returning_people.py --power
    python benchmarks/returning_people.py --words --answers 20 50 100 --seeds 21

With `--power`, 48 people ask for advice, and the prompt says how each likes to be answered: briefly or at length, as a
list or not, cheerfully or soberly. How well an answer suits is the share of these three that it meets. The model
answers untrained, and the program prints the smallest difference that so many seeds could tell from chance with a
probability of 0.8.

With `--words`, all want the same (few words, no list, an exclamation mark), and no prompt shows it. They rate answers
by thumbs (some people are lenient and some harsh), and where the thumb is down they say which of these they miss. KTO
learns from the thumbs, `hint` from the words, each from the first so many answers of the same people. The learning rate
is chosen on other seeds (`--rate`). Killed, the same command goes on with the trainings that are missing.
"""

from __future__ import annotations

import json
import math
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agentfw
from agentfw.report.statistics import bootstrap, paired_difference
from agentfw.runs.records.folder import RunFolder
from agentfw_benchmarks import Options, once, print_markdown, tell
from agentfw_plugins.view.annotations import Target, annotate

PEOPLE, HELD_OUT = 48, 4
WISHES = (
    ("in a few words", "at length, in several sentences"),
    ("as a list with dashes", "without any list"),
    ("cheerfully, with an exclamation mark", "soberly, without exclamation marks"),
)
TOPICS = (
    *("a rainy Sunday", "a cold", "a birthday party", "a long train ride", "a first day at work", "a small garden"),
    *("a noisy neighbour", "a week without meat", "a lost key", "a job interview", "a broken bicycle"),
    *("a quiet evening", "a visit of my parents", "a move to another town", "a bad night", "an old computer"),
    *("a picnic", "a shy dog"),
)
STEPS = 5
"""Updates of 8 answers each."""
SHOWN = "\n\nFeedback on an earlier answer: {}"
"""How the optimizer `hint` shows its model what was said."""
FORMS = (
    *("What do you advise me for {}?", "How do I make the best of {}?", "Give me a tip about {}."),
    "How is {} for you?",
)
ALIKE = (True, False, True)
"""Which of each two wishes everybody has with `--words`."""


class Person:
    """What somebody likes, and how they rate. The same name is the same person."""

    def __init__(self, name: str, likes: Sequence[bool] = ()) -> None:
        drawn = random.Random(name)
        drawn_likes = [drawn.random() < 0.5 for _ in WISHES]
        self.likes = [*likes] or drawn_likes
        self.lenience = drawn.gauss(0.0, 0.35)

    def wishes(self) -> str:
        return "; ".join(words[not first] for words, first in zip(WISHES, self.likes, strict=True))

    def suited(self, text: str) -> float:
        """The share of the wishes that an answer meets."""
        return 1 - len(self.misses(text)) / len(WISHES)

    def misses(self, text: str) -> list[str]:
        """The wishes that an answer doesn't meet."""
        text = text.strip()
        has = (len(text.split()) <= 15, bool(re.search(r"^\s*[-*•]", text, re.MULTILINE)), "!" in text)
        each = zip(WISHES, has, self.likes, strict=True)
        return [words[not liked] for words, one, liked in each if one != liked or not text]

    def is_pleased(self, text: str) -> bool:
        return 2 * self.suited(text) - 1 + random.Random(text).gauss(0.0, 0.25) + self.lenience > 0


def power(options: Any) -> dict[str, Any]:
    """What the spread of untrained answers lets three seeds tell apart, by a t-test at 0.05 with a power of 0.8."""
    home = options.work / "untrained"
    pairs = [(f"person {number}", topic) for number in range(PEOPLE) for topic in TOPICS]
    random.Random(0).shuffle(pairs)
    rows = [
        {"prompt": f"What do you advise me for {topic}? Answer {Person(name).wishes()}.", "user": name}
        for name, topic in pairs
        if topic in TOPICS[-HELD_OUT:]
    ]
    episodes = RunFolder.open(_played(home, rows[: options.evaluated], options, 0, temperature=1.0)).episodes()
    suits = [Person(one.task.user).suited(one.turns[-1].text) for one in episodes]
    middle = sum(suits) / len(suits)
    variance = sum((one - middle) ** 2 for one in suits) / max(1, len(suits) - 1)
    smallest = 2.8 * math.sqrt(2 * variance / (len(options.seeds) * options.evaluated))
    return {"untrained": middle, "deviation": math.sqrt(variance), "smallest": smallest, "evaluated": options.evaluated}


def by_words(options: Any) -> list[dict[str, Any]]:
    """How well held-out answers suit: before, if the model is shown what was said, and after KTO and `hint`."""
    rows: dict[str, list[list[float]]] = {}
    for seed in options.seeds:
        home = options.work / f"words, seed {seed}"
        asked = [form.format(topic) for topic in TOPICS for form in FORMS]
        held_out = [one for one in asked if any(topic in one for topic in TOPICS[-HELD_OUT:])]
        trained = [one for one in asked if one not in held_out]
        random.Random(seed).shuffle(trained)
        trained = [*trained, *(f"{one} Be honest." for one in trained)][: options.answers[-1]]
        measured = (held_out * options.evaluated)[: options.evaluated]
        shown = SHOWN.format(Person("", ALIKE).wishes())
        rows.setdefault("untrained", []).append(_kept(home / "untrained", measured, options, seed))
        rows.setdefault("shown the hint", []).append(_kept(home / "shown", measured, options, seed, shown=shown))
        played = _played(home / "rated", _rows(trained), options, seed)
        for number in options.answers:
            rated = home / f"first {number}"
            if not rated.exists():
                shutil.copytree(played, rated)
                _rate(rated, number)
            for optimizer in ("kto", "hint"):
                arm = f"{optimizer}, {number}"
                found = _kept(home / arm, measured, options, seed, learned=(optimizer, rated))
                rows.setdefault(arm, []).append(found)
    return [{"arm": arm, "suits": [one for seed in seeds for one in seed]} for arm, seeds in rows.items()]


def _rows(asked: Sequence[str], shown: str = "") -> list[dict[str, str]]:
    return [{"prompt": f"{one} Answer in one sentence.{shown}", "user": f"person {n}"} for n, one in enumerate(asked)]


def _played(
    home: Path, rows: Sequence[dict[str, str]], options: Any, seed: int, policy: str = "", temperature: float = 0.7
) -> Path:
    """A run in which each question is answered once."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return agentfw.run(
        tasks=home / "{split}.jsonl",
        episodes=len(rows),
        seed=seed,
        settings={"sampling.temperature": temperature, "sampling.max_tokens": options.max_tokens},
        runs=home / "runs",
        policy=policy or None,
        model=None if policy else options.model,
    ).path


def _rate(run: Path, number: int) -> None:
    """Note what people think of the first so many answers."""
    for episode in [*RunFolder.open(run).episodes()][:number]:
        person, text = Person(episode.task.user, ALIKE), episode.turns[-1].text
        target = Target("", episode.id, 0, episode.task.user)
        annotate(run, target, "rating", "5" if person.is_pleased(text) else "1")
        if not person.is_pleased(text) and person.misses(text):
            annotate(run, target, "note", "; ".join(person.misses(text)))


def _kept(
    home: Path,
    asked: Sequence[str],
    options: Any,
    seed: int,
    *,
    shown: str = "",
    learned: tuple[str, Path] = ("", Path()),
) -> list[float]:
    def find() -> list[float]:
        policy = ""
        if learned[0]:
            policy = str(
                agentfw.train(
                    learn_from=str(learned[1]),
                    optimizer=learned[0],
                    model=options.model,
                    updates=STEPS,
                    seed=seed,
                    settings={"learner.learning_rate": options.rate, "evaluation.every": STEPS, "evaluation.tasks": 1},
                    runs=home / "runs",
                ).path
            )
        episodes = RunFolder.open(_played(home, _rows(asked, shown), options, seed, policy)).episodes()
        return [Person("", ALIKE).suited(one.turns[-1].text) for one in episodes]

    found: list[float] = once(home / "suits.json", find)
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        work=(Path("returning-people"), "a folder for runs and trainings"),
        model=("smollm2", "a model, as `agentfw train --model` takes it"),
        seeds=([21, 22, 23], "of the trainings"),
        answers=([20, 50, 100], "to learn from, with --words"),
        evaluated=(192, "held-out answers"),
        max_tokens=(48, "of an answer"),
        rate=(2e-4, "learning rate"),
    )
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--power", action="store_true", help="what could be told apart by how well answers suit")
    kind.add_argument("--words", action="store_true", help="thumbs with KTO beside words with `hint`")
    options = parser.parse_args(arguments)
    if options.power:
        return tell(power(options), options.json)
    return tell({"rows": by_words(options)}, options.json, show)


def show(result: dict[str, Any]) -> None:
    before, table = result["rows"][0]["suits"], []
    for row in result["rows"]:
        gained = "" if row["arm"] == "untrained" else str(paired_difference(row["suits"], before))
        found = bootstrap(row["suits"])
        table.append([row["arm"], f"{found.estimate:.3f} ± {found.margin:.3f}", gained])
    print_markdown(["learned from", "suits", "more than untrained"], table)


if __name__ == "__main__":
    main()
