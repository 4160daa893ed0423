"""What was predicted in a run of the proactive world, gathered by dialogue.

The dialogues are those of the run's environment. Of a training, the last evaluation counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentfw import Episode, Host, Turn
from agentfw.errors import AgentfwError, UsageError
from agentfw.runs import Records, RunFolder

from .dataset import Example
from .environment import Proactive


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
