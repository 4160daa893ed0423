"""The proactiveness rating (PR) of a run: a judge rates what was predicted at each turn, without any reference.

A rating of -1 says that a turn can't be judged, and is left out of the mean. The mean is over the turns of a dialogue,
then over dialogues. Unlike PT it is an opinion, and depends on the judge.

What was predicted is gathered by dialogue. The dialogues are those of the run's environment. Of a training, the last
evaluation counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw import Episode, Host, Message, Turn
from agentfw.errors import AgentfwError, UsageError
from agentfw.report.statistics import Interval, bootstrap
from agentfw.runs import Records, RunFolder
from agentfw_papers.timing import SCALE, mean_rating, rating_question, read_rating

from .asking import Asked, Asker, Progress, Question
from .dataset import Example
from .environment import Proactive, read_turn


@dataclass
class Predictions:
    """The episodes of a run, as far as they can be read."""

    episodes: dict[str, list[Episode]]
    """By dialogue."""
    examples: dict[str, Example]
    notices: list[str]
    """What is missing."""
    environment: Proactive

    def turns(self, dialogue: str) -> Sequence[Turn]:
        """The turns of all episodes of a dialogue, in the order of the dialogue."""
        every = [
            (turn.round, episode.task.sample, turn) for episode in self.episodes[dialogue] for turn in episode.turns
        ]
        return [turn for *_, turn in sorted(every, key=lambda one: one[:2])]


def read_predictions(folder: RunFolder, host: Host) -> Predictions:
    """Read a run. What can't be read is left out, and said in the notices."""
    chosen = folder.about["spec"]["environment"]
    environment = host.create("environment", chosen["name"], chosen["settings"])
    if not isinstance(environment, Proactive):
        raise UsageError(
            f'{folder.id} is a run in the world "{chosen["name"]}", which has no dialogues',
            fix="pass a run of the world proactive",
        )
    notices: list[str] = []
    if folder.total > folder.done:
        notices.append(f"The run isn't complete: {folder.done} of {folder.total} {folder.unit} are done.")
    evaluations = sorted(folder.evaluations()) if folder.planned_updates else []
    found: dict[str, list[Episode]] = {}
    examples: dict[str, Example] = {}
    for episode in _read(folder.evaluation(evaluations[-1] if evaluations else 0), notices):
        example = environment.example(episode.task)
        examples[example.id] = example
        found.setdefault(example.id, []).append(episode)
    return Predictions(found, examples, notices, environment)


def _read(records: Records, notices: list[str]) -> Iterator[Episode]:
    """The episodes that have figures, by their ids."""
    concluded: Mapping[str, Any] = {}
    episodes: dict[str, Episode] = {}
    try:
        concluded = {str(record["episode"]): record for record in records.concluded()}
        episodes = {episode.id: episode for episode in records.episodes()}
    except AgentfwError as error:
        notices.append(f"Not all episodes can be read: {error.message}")
    if lacking := len(episodes.keys() ^ concluded.keys()):
        notices.append(f"{lacking} episodes are left out, because their answers or their figures are missing.")
    for name in sorted(episodes.keys() & concluded.keys()):
        yield episodes[name]


JOURNAL = "ratings.jsonl"


@dataclass(frozen=True, kw_only=True)
class Ratings(Asked):
    """What the judge said."""

    by_dialogue: dict[str, list[int]]
    failed: dict[str, str]
    """Turns that got no rating, with what was wrong with the answer."""

    @property
    def mean(self) -> Interval | None:
        """None if no turn could be judged."""
        means = [mean for ratings in self.by_dialogue.values() if (mean := mean_rating(ratings)) is not None]
        return bootstrap(means) if means else None

    @property
    def counts(self) -> dict[int, int]:
        """How many turns got each rating."""
        given = [rating for ratings in self.by_dialogue.values() for rating in ratings]
        return {value: given.count(value) for value in SCALE}

    def facts(self) -> dict[str, Any]:
        mean = self.mean
        return {
            "pr": None if mean is None else {"mean": mean.estimate, "low": mean.low, "high": mean.high},
            "dialogues": 0 if mean is None else mean.count,
            "counts": {str(value): count for value, count in self.counts.items()},
            "failed": self.failed,
            "answers": self.answers,
            "from_before": self.from_before,
            "retried": self.retried,
            "tokens": self.tokens,
        }


class Rater:
    """Asks a judge about the predictions of a run, or of the last evaluation of a training."""

    def __init__(self, predicted: Predictions, asker: Asker, *, most: int | None = None) -> None:
        """`most` is the maximum number of dialogues."""
        self.predicted, self.asker = predicted, asker
        self.dialogues = list(predicted.episodes)[:most]

    async def rate(self, journal: Path, progress: Progress = lambda done, all: None) -> Ratings:
        questions = [one for dialogue in self.dialogues for one in self._questions(dialogue)]
        records, asked = await self.asker.ask(questions, journal, progress)
        by_dialogue: dict[str, list[int]] = {dialogue: [] for dialogue in self.dialogues}
        failed: dict[str, str] = {}
        for one, record in zip(questions, records, strict=True):
            rating = None if record["failure"] else read_rating(record["answer"]).value
            if rating is None:
                failed[f"turn {one.turns[0]} of {one.dialogue}"] = record["failure"]
            else:
                by_dialogue[one.dialogue].append(rating)
        return Ratings(by_dialogue=by_dialogue, failed=failed, **vars(asked))

    def _questions(self, dialogue: str) -> Iterator[Question]:
        example, catalog = self.predicted.examples[dialogue], self.predicted.environment.catalog
        for turn in self.predicted.turns(dialogue):
            answer = read_turn(turn, catalog)
            asked = rating_question(example.dialogue.turns[: turn.round], answer.opportunities)
            messages = tuple(Message(one["role"], one["content"]) for one in asked)
            yield Question(dialogue, (turn.round,), messages, _failures)


def _failures(text: str) -> Sequence[str]:
    failure = read_rating(text).failure
    return [failure] if failure else []
