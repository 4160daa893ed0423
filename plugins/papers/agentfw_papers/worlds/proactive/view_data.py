"""What the page of a proactive run shows, collected from a run's folder and from the dialogues of its world.

Single turns are gathered by dialogue. The figures are those of metrics.jsonl. Predictions are read from the answers as
the environment read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentfw import Episode, Host, Turn
from agentfw.errors import AgentfwError, UsageError
from agentfw.runs import Records, RunFolder
from agentfw_papers.timing import Opportunity, Windows, same_value
from agentfw_plugins.rewards.judges import Rubric

from .asg import ActionStates, observed
from .dataset import Example
from .environment import Proactive, read_turn
from .prompting import write_states

_LONGEST = 4000
"""Characters shown of an answer."""
_OWN = ("ac", "max_ac", "pt", "ftr", "rar", "balance")
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}


@dataclass
class Stage:
    """One evaluation of a training, or all there is of a run."""

    label: str
    outcomes: list[Mapping[str, float]] = field(default_factory=list)
    """The figures of each episode."""
    by_dialogue: dict[str, list[tuple[Episode, Mapping[str, Any]]]] = field(default_factory=dict)
    """The episodes of each dialogue that have figures, with these."""
    expected: list[Mapping[str, float]] = field(default_factory=list)
    """The same where the reference expects an action: the means over these turns of an episode, if it has any."""
    reasons: dict[tuple[str, int | None], str] = field(default_factory=dict)
    """What a judge wrote, by episode and turn, or None where it judged the whole episode."""


@dataclass
class Dialogues:
    """Everything that the page shows."""

    stages: list[Stage]
    examples: dict[str, Example]
    notices: list[str]
    environment: Proactive

    def figures(self, dialogue: str, stage: Stage) -> dict[str, float]:
        """The means of a dialogue's figures over its episodes."""
        rows = [record["outcome"] for _, record in stage.by_dialogue.get(dialogue, [])]
        found = {}
        for name in _OWN:
            values = [row[name] for row in rows if row.get(name) is not None]
            if values:
                found[name] = sum(values) / len(values)
        return found

    def details(self, dialogue: str) -> dict[str, Any]:
        """One dialogue as the page's script reads it."""
        example = self.examples[dialogue]
        predicted = [self._predictions(example, stage) for stage in self.stages]
        windows = example.annotation.windows
        references = {turn.turn: [_row(one) for one in turn.opportunities] for turn in example.annotation.turns}
        names = dict.fromkeys(
            [
                *(one["name"] for rows in references.values() for one in rows),
                *(one["name"] for turns in predicted for turn in turns.values() for one in turn["predicted"]),
            ]
        )
        return {
            "id": dialogue,
            "turns": [{"speaker": turn.speaker, "text": _shown(turn.text)} for turn in example.dialogue.turns],
            "triggers": [[one.turn, one.action] for one in example.dialogue.triggers],
            "actions": list(names),
            "windows": {name: list(turns) for name, turns in windows.items()},
            "references": references,
            "stages": predicted,
        }

    def _predictions(self, example: Example, stage: Stage) -> dict[int, dict[str, Any]]:
        """The prediction at each turn, the first sample of each."""
        catalog, annotation = self.environment.catalog, example.annotation
        states, seen = ActionStates(self.environment.settings.transitions), 0
        whole = self.environment.settings.unit == "dialogue"
        found: dict[int, dict[str, Any]] = {}
        for episode, record, turn in turns_of(stage.by_dialogue.get(example.id, [])):
            if turn.round in found:
                continue
            answer = read_turn(turn, catalog)
            before = after = ""
            if whole:
                for trigger in example.dialogue.triggers if self.environment.domain.observed else ():
                    if seen < trigger.turn <= turn.round:
                        states.trigger(observed(trigger, catalog))
                before = write_states(states)
                states.predict(answer.opportunities)
                after, seen = write_states(states), turn.round
            expected = {one.name: one for one in annotation.at(turn.round).opportunities}
            found[turn.round] = {
                "predicted": [
                    _row(one, mark_of(one, turn.round, annotation.windows), expected.get(one.name))
                    for one in answer.opportunities
                ],
                "questions": list(map(_shown, answer.questions)),
                "failures": list(map(_shown, answer.failures)),
                "text": _shown(turn.text),
                "before": before,
                "after": after,
                "scores": [
                    [component, value, weight]
                    for component, _, value, number, index, weight in record["scores"]
                    if index == turn.index or (index is None and number in (None, turn.round))
                ],
                "reason": _shown(
                    stage.reasons.get((episode.id, turn.index)) or stage.reasons.get((episode.id, None), "")
                ),
                "measures": {
                    one.name: one.value for one in episode.measures if one.round == turn.round and one.name in _OWN
                },
            }
        return found


def collect(folder: RunFolder, host: Host) -> Dialogues:
    """Read a run. What can't be read is left out, and said in the notices."""
    chosen = folder.about["spec"]["environment"]
    environment = host.create("environment", chosen["name"], chosen["settings"])
    if not isinstance(environment, Proactive):
        raise UsageError(
            f'{folder.id} is a run in the world "{chosen["name"]}", which has no dialogues',
            fix="pass a run of the world proactive, or use agentfw report",
        )
    notices: list[str] = []
    stages: list[Stage] = []
    examples: dict[str, Example] = {}
    for label, records in _records(folder, notices):
        played = _read(records, notices)
        stage = Stage(label, reasons=_reasons([episode for episode, _ in played], folder, host, notices))
        for episode, record in played:
            example = environment.example(episode.task)
            examples[example.id] = example
            stage.outcomes.append({name: float(value) for name, value in record["outcome"].items()})
            stage.expected += _where_expected(episode)
            stage.by_dialogue.setdefault(example.id, []).append((episode, record))
        stages.append(stage)
    if not any(stage.outcomes for stage in stages):
        notices.append("There is no prediction to show yet.")
    return Dialogues(stages, examples, notices, environment)


def mark_of(one: Opportunity, turn: int, windows: Windows) -> str:
    """How a prediction stands to the reference's window: right, early, late or never, and waiting if it isn't ready."""
    if not one.ready:
        return "waiting"
    last = windows.last(one.name)
    if last is None:
        return "never"
    return "right" if turn in windows[one.name] else "early" if turn < last else "late"


def _records(folder: RunFolder, notices: list[str]) -> Iterator[tuple[str, Records]]:
    """The play of a run, or the first and the last evaluation of a training."""
    if folder.total > folder.done:
        notices.append(f"The run isn't complete: {folder.done} of {folder.total} {folder.unit} are done.")
    if not folder.planned_updates:
        yield "", folder.evaluation(0)
        return
    numbers = sorted(folder.evaluations()) or [0]
    for number in dict.fromkeys((numbers[0], numbers[-1])):
        yield f"after {number} updates", folder.evaluation(number)


def _read(records: Records, notices: list[str]) -> list[tuple[Episode, Mapping[str, Any]]]:
    """The episodes that have figures, as far as they can be read."""
    lines: dict[str, Mapping[str, Any]] = {}
    episodes: dict[str, Episode] = {}
    try:
        lines.update((str(record["episode"]), record) for record in records.concluded())
    except AgentfwError as error:
        notices.append(f"Not all figures can be read: {error.message}")
    try:
        for episode in records.episodes():
            episodes[episode.id] = episode
    except AgentfwError as error:
        notices.append(f"Not all episodes can be read: {error.message}")
    if lacking := len(episodes.keys() ^ lines.keys()):
        notices.append(f"{lacking} episodes are left out, because their answers or their figures are missing.")
    return [(episodes[name], lines[name]) for name in sorted(episodes.keys() & lines.keys())]


def _where_expected(episode: Episode) -> list[dict[str, float]]:
    """The means over the turns at which the reference expects an action. Nothing if there is no such turn."""
    turns = {one.round for one in episode.measures if one.name == "expected" and one.value}
    values: dict[str, list[float]] = {}
    for one in episode.measures:
        if one.round in turns:
            values.setdefault(one.name, []).append(one.value)
    return [{name: sum(found) / len(found) for name, found in values.items()}] if turns else []


def _reasons(
    episodes: Sequence[Episode], folder: RunFolder, host: Host, notices: list[str]
) -> dict[tuple[str, int | None], str]:
    """What judges wrote about the episodes, as far as the run's folder has it."""
    samples: dict[int, list[Episode]] = {}
    for episode in episodes:
        samples.setdefault(episode.task.index, []).append(episode)
    found: dict[tuple[str, int | None], str] = {}
    for one in folder.about["spec"]["rewards"]:
        if one["name"] != "rubric" or not (one["settings"].get("cache") or (folder.path / "judgements.db").exists()):
            continue
        try:
            judge = host.create("reward", "rubric", one["settings"])
            assert isinstance(judge, Rubric)
            judge.open(folder.path)
            for group in samples.values():
                found |= judge.reasons(group)
            asyncio.run(judge.close())
        except AgentfwError as error:
            notices.append(f"What the judge wrote can't be read: {error.message}")
    return found


def turns_of(
    episodes: Sequence[tuple[Episode, Mapping[str, Any]]],
) -> Iterator[tuple[Episode, Mapping[str, Any], Turn]]:
    """The turns of all episodes of a dialogue, in the order of the dialogue."""
    every = [(episode, record, turn) for episode, record in episodes for turn in episode.turns]
    return iter(sorted(every, key=lambda one: (one[2].round, one[0].task.sample)))


def _row(one: Opportunity, mark: str = "", expected: Opportunity | None = None) -> dict[str, Any]:
    inputs = []
    for name, part in one.inputs.items():
        reference = expected.inputs.get(name) if expected else None
        wrong = reference is not None and (
            part.provided != reference.provided or not same_value(part.value or "", reference.value or "")
        )
        inputs.append([_shown(name), None if part.value is None else _shown(part.value), bool(mark) and wrong])
    return {"name": _shown(one.name), "status": one.status, "mark": mark, "inputs": inputs}


def _shown(text: str) -> str:
    """A text as the page shows it: control characters as pictures, and no more than fits."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text):,} characters)"
    return cut.translate(_CONTROLS)
