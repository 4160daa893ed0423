"""The summary of a run: the mean of every metric with its 95% interval, and what the run cost; and several compared.

Where two runs played the same tasks, differences are taken task by task, because most of the variance is between tasks.
Tasks are the same if their environment, user, seed, index and sample are.

>>> flat({"update": 3, "rollouts": {"reward": 0.5}, "learner": {"kl": 0.1}, "seconds": {"play": 2.0}})
{'reward': 0.5, 'learner/kl': 0.1, 'seconds/play': 2.0}
>>> nothing_learned({"rollouts": {"groups": 8, "groups_alike": 8, "groups_learned": 0}, "served": {}})
'nothing learned: all rewards of 8 groups are equal'
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ...episode import Usage
from ...errors import UnknownNameError, UsageError
from ...printing.out import counted, docs_page
from ...report.statistics import Interval, PairedDifference, bootstrap, paired_difference
from .figure_table import better, figures_of, in_order
from .folder import RunFolder
from .play_records import Marks, State, journals_of, reasons

WHY_NO_LEARNING = f"See {docs_page('docs/guides/why-no-learning.md')}"
"""Where a person finds what to do about an update that has taught nothing."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a run."""

    run: str
    environment: str
    episodes: int
    """Number of episodes, in a training those of rollouts and evaluations. The next four cover the same."""
    turns: int
    tokens: int
    """Number of tokens that were generated and kept."""
    failures: int
    """Number of answers that could not be parsed."""
    usage: Usage
    """Total usage of the policy. A number that some turn didn't report is None."""
    judged: Usage
    """Total usage of reward models that ask a model."""
    seconds: float
    """Duration of the last execution. Earlier, interrupted executions are not included."""
    figures: Mapping[str, Interval] = field(default_factory=dict)
    """Metrics of the episodes. For a training, those of the last evaluation."""
    references: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)
    """The same metrics of simple players that the environment knows, by name."""
    updates: int = 0
    version: str = ""
    """The policy's newest version. This and the next are empty if nothing was learned."""
    adapter: str = ""
    """Path of its adapter, below the run's folder."""
    before: Mapping[str, Interval] = field(default_factory=dict)
    """Metrics of the evaluation before the first update of a training."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Number of episodes that failed and were left out, by reason. They are in no other number."""
    files: Marks = field(default_factory=dict)
    """Size and digest of each journal, by which damage is noticed later."""

    def means(self) -> dict[str, float]:
        return {name: interval.estimate for name, interval in self.figures.items()}

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values."""

        def plain(value: Any) -> Any:
            if isinstance(value, Interval):
                return value.to_record()
            if isinstance(value, Usage):
                return asdict(value)
            return {name: plain(inner) for name, inner in value.items()} if isinstance(value, Mapping) else value

        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Summary:
        def known(figures: Mapping[str, Any]) -> dict[str, Interval]:
            return {name: Interval.from_record(row) for name, row in figures.items()}

        references = {name: known(rows) for name, rows in record["references"].items()}
        figures = {name: known(record[name]) for name in ("figures", "before")}
        usages = {name: Usage(**record[name]) for name in ("usage", "judged")}
        return cls(**{**record, **figures, **usages, "references": references})


def columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The metrics of many episodes, by name: NaN where an episode has not measured one, and only what some have."""
    rows = [figures_of(record) for record in records]
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: [row.get(name, math.nan) for row in rows] for name in names}
    return {name: values for name, values in found.items() if not all(map(math.isnan, values))}


def by_round(records: Sequence[Mapping[str, Any]]) -> dict[int, list[float]]:
    """The headline metric of each round, over all episodes. Empty if the environment has no rounds."""
    found: dict[int, list[float]] = {}
    for record in records:
        for number, value in record["headline_by_round"]:
            if not math.isnan(value):
                found.setdefault(int(number), []).append(float(value))
    return dict(sorted(found.items()))


def leading(figures: Container[str], headline: str) -> str:
    """The main metric: the environment's headline if it was measured, otherwise the utility if that was."""
    return headline if headline in figures or "utility" not in figures else "utility"


def intervals(records: Sequence[Mapping[str, Any]]) -> dict[str, Interval]:
    return {name: bootstrap(values) for name, values in columns(records).items()}


def beside(summary: Summary, folder: RunFolder) -> list[tuple[str, Mapping[str, Interval]]]:
    """The metrics of the run, named after its policy and memories, and then those of simple players, the best first."""
    spec: Mapping[str, Any] = folder.about["spec"]
    own = " + ".join(choice["name"] for choice in (spec["policy"], *spec["memories"]))
    sign = 1 if folder.lower_is_better else -1
    others = sorted(summary.references.items(), key=lambda item: sign * item[1][folder.headline].estimate)
    return [(own, summary.figures), *others]


def summarize(
    folder: RunFolder, seconds: float, references: Mapping[str, Sequence[Mapping[str, float]]] | None = None
) -> Summary:
    """Summarize what is on disk, together with the results of simple players."""
    played, state = list(folder.played()), State.known(folder.path)
    episodes, (usage, judged) = folder.metrics(), total_usage(played)
    return Summary(
        run=folder.id,
        environment=str(folder.about["spec"]["environment"]["name"]),
        episodes=len(played),
        turns=sum(int(record["turns"]) for record in played),
        tokens=sum(int(record["tokens"]) for record in played),
        failures=sum(int(record["failures"]) for record in played),
        usage=usage,
        judged=judged,
        seconds=round(seconds, 3),
        figures=intervals(episodes),
        references={
            player: {
                name: bootstrap([row[name] for row in rows if name in row])
                for name in dict.fromkeys(name for row in rows for name in row)
            }
            for player, rows in (references or {}).items()
        },
        updates=state.update,
        version=state.version,
        adapter=state.adapter,
        before=intervals(folder.evaluation(0).metrics()) if folder.planned_updates else {},
        failed=reasons(folder.failed()),
        files=journals_of(folder.path),
    )


def total_usage(played: Iterable[Mapping[str, Any]]) -> tuple[Usage, Usage]:
    """What the policy and the reward models used in all these episodes, from their lines of metrics.jsonl."""
    usage = judged = Usage(0, 0, 0)
    for record in played:
        usage, judged = usage + Usage(**record["usage"]), judged + Usage(**record["judged"])
    return usage, judged


def means(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of each metric, without an interval, because the policy changes during a training."""
    known = {name: [value for value in values if not math.isnan(value)] for name, values in columns(records).items()}
    return {name: math.fsum(values) / len(values) for name, values in known.items()}


def nothing_learned(line: Mapping[str, Any]) -> str:
    """Why the rewards of an update have taught nothing, from its line of updates.jsonl. Empty if they have."""
    figures, published = line["rollouts"], bool(line["served"])
    if figures["groups_learned"] and published:
        return ""
    groups = counted(int(figures["groups"]), "group")
    if not figures["groups"]:
        why = "every episode was left out"
    elif figures["groups_learned"]:
        why = "no gradient has reached a weight"
    elif figures["groups_alike"] == figures["groups"]:
        why = f"all rewards of {groups} are equal"
    else:
        why = f"the optimizer gave {groups} no advantage"
    return f"only the KL penalty acted: {why}" if published else f"nothing learned: {why}"


def flat(line: Mapping[str, Any]) -> dict[str, float]:
    """A line of updates.jsonl as names and numbers. Metrics of rollouts have no prefix."""
    return {
        name if part == "rollouts" else f"{part}/{name}": value
        for part, some in line.items()
        if isinstance(some, Mapping)
        for name, value in some.items()
    }


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One metric of several runs."""

    figure: str
    runs: tuple[str, ...]
    intervals: tuple[Interval, ...]
    differences: tuple[PairedDifference | None, ...]
    """Difference of each run to the first. None for the first itself, and for runs that share no task with it."""
    better: str
    """Whether `higher` or `lower` values are better. Empty where that isn't known."""

    def to_record(self) -> dict[str, Any]:
        rows = []
        for run, interval, difference in zip(self.runs, self.intervals, self.differences, strict=True):
            row = {"run": run, **_bounds(interval)}
            if difference is not None:
                gap = difference.difference
                row["difference"] = {**_bounds(gap), "p": difference.p_value, "tasks": gap.count}
            rows.append(row)
        return {"figure": self.figure, "better": self.better or None, "runs": rows}


def compare_runs(
    folders: Sequence[RunFolder], figures: Sequence[str] = (), evaluations: Sequence[int | None] = ()
) -> list[ComparedFigure]:
    """The metrics that all of the runs have, the headline first.

    `evaluations` has, for each run, the evaluation to take, by the updates before it. None takes the whole run.
    """
    of_each = evaluations or [None] * len(folders)
    tables = []
    for folder, update in zip(folders, of_each, strict=True):
        if not (records := (folder.result() if update is None else folder.evaluation(update)).metrics()):
            raise folder.without_episodes()
        table = _tables(folder, records)
        # Of a whole run, the headline also after each stage, as `error after 5`.
        stages = folder.stages() if update is None else {}
        for updates, records in stages.items() if len(stages) > 1 else ():
            stage = _tables(folder, records)
            if folder.headline in stage:
                table[f"{folder.headline} after {updates}"] = stage[folder.headline]
        tables.append(table)
    common = [name for name in tables[0] if all(name in table for table in tables)]
    for name in figures:
        if name not in common:
            raise UnknownNameError("figure", name, common)
    if not common:
        raise UsageError("these runs have no figure in common", fix="rate sessions of both, or compare others")
    chosen = list(figures) or in_order(common, folders[0].headline)
    names = tuple(
        folder.id if update is None else f"{folder.id}, evaluation {update}"
        for folder, update in zip(folders, of_each, strict=True)
    )
    compared = []
    for name in chosen:
        first, *others = [table[name] for table in tables]
        differences = [paired_difference(other, first) if first.keys() & other.keys() else None for other in others]
        intervals = tuple(bootstrap(list(some.values())) for some in (first, *others))
        compared.append(ComparedFigure(name, names, intervals, (None, *differences), better(name, folders[0])))
    return compared


def change(folder: RunFolder) -> PairedDifference | None:
    """The change of the headline from the first to the last evaluation, task by task. None if no task has both."""
    stages = folder.stages()
    if len(stages) < 2:
        return None
    first, last = (_tables(folder, stages[number]) for number in (min(stages), max(stages)))
    name = leading(first.keys() & last.keys(), folder.headline)
    before, after = first.get(name, {}), last.get(name, {})
    return paired_difference(after, before) if before.keys() & after.keys() else None


def _tables(folder: RunFolder, records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Each metric by task. Tasks where it was not measured are omitted."""
    # Those with the same seed in two environments are different, and so are sessions, unless they were asked again.
    origin = folder.about.get("replay_of", folder.about.get("created")) if folder.is_live else ""
    tasks = [f"{origin}/{folder.about['spec']['environment']['name']}/{record['task']}" for record in records]
    return {
        name: {task: value for task, value in zip(tasks, values, strict=True) if not math.isnan(value)}
        for name, values in columns(records).items()
    }


def _bounds(interval: Interval) -> dict[str, Any]:
    """Plain JSON values. An unknown bound is null."""
    low, high = (value if math.isfinite(value) else None for value in (interval.low, interval.high))
    return {"mean": interval.estimate, "low": low, "high": high}
