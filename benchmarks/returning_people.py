"""People who come back, and rate single answers of a language model: who learns from the fewest ratings?

    python benchmarks/returning_people.py --work FOLDER --power        # what could be told apart, before any training
    python benchmarks/returning_people.py --work FOLDER --feedback thumbs

48 people ask for advice. The prompt says how each likes to be answered: briefly or at length, as a list or not,
cheerfully or soberly. How well an answer suits is the share of these three that it meets. What a person says of it is
another thing:

    thumbs    up or down; some people are lenient and some harsh
    stars     on a scale of their own, from 1 to 10 times as wide as the narrowest

Every arm gets 48 answers an update: 12 requests answered 4 times, 24 answered twice, or 48 answered once. What suits is
measured on held-out requests of the same people, after 400, 800 and 1,600 answers. The learning rate is chosen on other
seeds (`--rate`). With `--power`, the model answers untrained, and the program prints the smallest difference that three
seeds could tell from chance with a probability of 0.8.

With `--words`, the people want the same (few words, no list, an exclamation mark), and no prompt shows it. They rate
answers by thumbs, and where the thumb is down they say which of these they miss. KTO learns from the thumbs, `hint`
from the words, each from the first so many answers of the same people.

    python benchmarks/returning_people.py --work FOLDER --words --answers 20 50 100 --seeds 21

Killed, the same command goes on with the trainings that are missing. On two cores an update of SmolLM2 takes minutes.
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
from agentfw import Episode, RewardModel, Score
from agentfw.report.statistics import bootstrap, paired_difference
from agentfw.runs.records.folder import RunFolder
from agentfw_benchmarks import Options, once, print_markdown, tell
from agentfw_plugins.view.annotations import Target, annotate

PEOPLE, ANSWERS, HELD_OUT = 48, 48, 4
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
ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "empirical_bayes": ("empirical_bayes", {}),
    "grpo": ("grpo", {"kl": 0.01}),
    "reinforce": ("reinforce", {}),
    "parpo": ("parpo", {}),
    "parpo, baseline=anchor": ("parpo", {"baseline": "anchor"}),
}
STEPS = 5
"""Updates of 8 answers each with `--words`."""
SHOWN = "\n\nFeedback on an earlier answer: {}"
"""How the optimizer `hint` shows its model what was said."""
SAMPLES = {"12 x 4": 4, "24 x 2": 2, "48 x 1": 1}


FORMS = (
    "What do you advise me for {}?",
    "How do I make the best of {}?",
    "Give me a tip about {}.",
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
        self.centre, self.scale = drawn.gauss(0.0, 3.0), 10 ** drawn.random()

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

    def says(self, text: str, kind: str, drawn: random.Random) -> float:
        felt = 2 * self.suited(text) - 1 + drawn.gauss(0.0, 0.25)
        if kind == "thumbs":
            return 1.0 if felt + self.lenience > 0 else -1.0
        return self.centre + self.scale * felt


class Ratings(RewardModel):
    """What the person says, on the personal track."""

    components = ("rating",)
    kind = "thumbs"

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [Score(one.id, "rating", self._said(one), "personal") for one in group]

    def _said(self, episode: Episode) -> float:
        drawn = random.Random(f"{episode.id} {episode.task.seed} {episode.turns[-1].text}")
        return Person(episode.task.user).says(episode.turns[-1].text, self.kind, drawn)


class Stars(Ratings):
    kind = "stars"


def write_requests(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [(f"person {number}", topic) for number in range(PEOPLE) for topic in TOPICS]
    random.Random(seed).shuffle(pairs)
    held_out = set(TOPICS[-HELD_OUT:])
    for split in ("train", "validation", "test"):
        kept = [pair for pair in pairs if (pair[1] in held_out) == (split != "train")]
        rows = [{"prompt": _prompt(name, topic), "user": name} for name, topic in kept]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _prompt(name: str, topic: str) -> str:
    return f"What do you advise me for {topic}? Answer {Person(name).wishes()}."


def settings_of(folder: Path, options: Any, samples: int) -> dict[str, Any]:
    every = max(1, round(options.answers[0] / ANSWERS))
    return {
        "environment.tasks": str(folder / "{split}.jsonl"),
        "samples": samples,
        "tasks": ANSWERS // samples,
        "sampling.temperature": 1.0,
        "sampling.max_tokens": options.max_tokens,
        "learner.learning_rate": options.rate,
        "evaluation.every": every,
        "evaluation.tasks": options.evaluated,
    }


def course(arm: str, grouped: str, seed: int, options: Any) -> dict[str, list[float]]:
    """How well each held-out answer suits, by the number of answers that were learned from."""
    home = options.work / f"{options.feedback}, {arm}, {grouped}, seed {seed}"

    def find() -> dict[str, list[float]]:
        write_requests(home, seed)
        name, chosen = ARMS[arm]
        agentfw.train(
            "questions",
            model=options.model,
            optimizer=name,
            reward=Stars if options.feedback == "stars" else Ratings,
            updates=math.ceil(options.answers[-1] / ANSWERS),
            seed=seed,
            settings=settings_of(home, options, SAMPLES[grouped]) | {f"optimizer.{key}": chosen[key] for key in chosen},
            runs=home / "runs",
        )
        (run,) = (RunFolder.open(about.parent) for about in (home / "runs").glob("*/run.json"))
        return {str(number * ANSWERS): _suits(records.episodes()) for number, records in run.evaluations().items()}

    found: dict[str, list[float]] = once(home / "suits.json", find)
    return found


def _suits(episodes: Any) -> list[float]:
    return [Person(one.task.user).suited(one.turns[-1].text) for one in episodes]


def power(options: Any) -> dict[str, Any]:
    """What the spread of untrained answers lets three seeds tell apart, by a t-test at 0.05 with a power of 0.8."""
    home = options.work / "untrained"
    write_requests(home, 0)
    sampling = {
        key: value for key, value in settings_of(home, options, 1).items() if key.startswith(("env", "sampling"))
    }
    played = agentfw.run(
        "questions",
        model=options.model,
        episodes=options.evaluated,
        reward=Ratings,
        settings=sampling,
        runs=home / "runs",
    )
    suits = _suits(played.episodes)
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
        said = "; ".join(words[not liked] for words, liked in zip(WISHES, ALIKE, strict=True))
        shown = SHOWN.format(said)
        rows.setdefault("untrained", []).append(_kept(home / "untrained", measured, options, seed, shown=""))
        rows.setdefault("shown the hint", []).append(_kept(home / "shown", measured, options, seed, shown=shown))
        if options.power:
            continue
        played = _played(home / "rated", trained, options, seed)
        for number in options.answers:
            rated = home / f"first {number}"
            if not rated.exists():
                shutil.copytree(played, rated)
                _rate(rated, number)
            for optimizer in ("kto", "hint"):
                place = home / f"{optimizer}, {number}"
                rows.setdefault(f"{optimizer}, {number}", []).append(
                    _kept(place, measured, options, seed, shown="", learned=(optimizer, rated))
                )
    return [{"arm": arm, "suits": [one for seed in seeds for one in seed]} for arm, seeds in rows.items()]


def _played(home: Path, asked: Sequence[str], options: Any, seed: int, shown: str = "", policy: str = "") -> Path:
    """A run in which each question is answered once."""
    home.mkdir(parents=True, exist_ok=True)
    rows = [{"prompt": f"{one} Answer in one sentence.{shown}", "user": f"person {n}"} for n, one in enumerate(asked)]
    (home / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return agentfw.run(
        tasks=home / "{split}.jsonl",
        episodes=len(rows),
        seed=seed,
        settings={"sampling.temperature": 0.7, "sampling.max_tokens": options.max_tokens},
        runs=home / "runs",
        policy=policy or None,
        model=None if policy else options.model,
    ).path


def _rate(run: Path, number: int) -> None:
    """Note what people think of the first so many answers."""
    for episode in [*RunFolder.open(run).episodes()][:number]:
        person, text = Person(episode.task.user, ALIKE), episode.turns[-1].text
        up = person.says(text, "thumbs", random.Random(text)) > 0
        target = Target("", episode.id, 0, episode.task.user)
        annotate(run, target, "rating", "5" if up else "1")
        if not up and person.misses(text):
            annotate(run, target, "note", "; ".join(person.misses(text)))


def _kept(
    home: Path, asked: Sequence[str], options: Any, seed: int, *, shown: str, learned: tuple[str, Path] | None = None
) -> list[float]:
    def find() -> list[float]:
        policy = ""
        if learned is not None:
            settings = {"learner.learning_rate": options.rate, "evaluation.every": STEPS, "evaluation.tasks": 1}
            policy = str(
                agentfw.train(
                    learn_from=str(learned[1]),
                    optimizer=learned[0],
                    model=options.model,
                    updates=STEPS,
                    seed=seed,
                    settings=settings,
                    runs=home / "runs",
                ).path
            )
        episodes = RunFolder.open(_played(home, asked, options, seed, shown, policy)).episodes()
        return [Person("", ALIKE).suited(one.turns[-1].text) for one in episodes]

    found: list[float] = once(home / "suits.json", find)
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        work=(Path, "a folder for the trainings"),
        model=("smollm2", "a model, as `agentfw train --model` takes it"),
        seeds=([21, 22, 23], "of the trainings"),
        answers=([400, 800, 1600], "to learn from, at which it is measured"),
        evaluated=(192, "held-out answers"),
        max_tokens=(48, "of an answer"),
        rate=(2e-4, "learning rate"),
    )
    parser.add_argument("--feedback", choices=("thumbs", "stars"), default="thumbs")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--groups", nargs="+", choices=SAMPLES, default=list(SAMPLES))
    parser.add_argument("--power", action="store_true", help="print what could be told apart, and train nothing")
    parser.add_argument("--words", action="store_true", help="thumbs with KTO beside words with `hint`")
    options = parser.parse_args(arguments)
    if options.words:
        return tell({"rows": by_words(options)}, options.json, show_words)
    if options.power:
        return tell(power(options), options.json)
    rows = [
        {"arm": arm, "groups": grouped, "seeds": [course(arm, grouped, seed, options) for seed in options.seeds]}
        for grouped in options.groups
        for arm in options.arms
        if not (grouped == "48 x 1" and arm == "grpo")
    ]
    return tell({"feedback": options.feedback, "rows": rows}, options.json, show)


def show_words(result: dict[str, Any]) -> None:
    before, table = result["rows"][0]["suits"], []
    for row in result["rows"]:
        gained = "" if row["arm"] == "untrained" else str(paired_difference(row["suits"], before))
        found = bootstrap(row["suits"])
        table.append([row["arm"], f"{found.estimate:.3f} ± {found.margin:.3f}", gained])
    print_markdown(["learned from", "suits", "more than untrained"], table)


def show(result: dict[str, Any]) -> None:
    first = {row["groups"]: row for row in result["rows"] if row["arm"] == "empirical_bayes"}
    answers = list(result["rows"][0]["seeds"][0])
    table = []
    for row in result["rows"]:
        cells = []
        for number in answers:
            values = [value for seed in row["seeds"] for value in seed[number]]
            cells.append(f"{bootstrap(values).estimate:.3f} ± {bootstrap(values).margin:.3f}")
        ours = first.get(row["groups"], row)
        last = [[value for seed in one["seeds"] for value in seed[answers[-1]]] for one in (ours, row)]
        ahead = "" if ours is row else str(paired_difference(*last))
        table.append([row["groups"], row["arm"], *cells, ahead])
    print_markdown(["groups", "optimizer", *answers, "empirical_bayes ahead by"], table)


if __name__ == "__main__":
    main()
