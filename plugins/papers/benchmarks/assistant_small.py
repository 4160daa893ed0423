"""The small language model in the world of the assistant: as it ships, and before and after a training.

    python plugins/papers/benchmarks/assistant_small.py --rows runs
    python plugins/papers/benchmarks/assistant_small.py --rows slips --run loops/small/cells/Full-1/exam
    python plugins/papers/benchmarks/assistant_small.py --rows training --home FOLDER    # goes on where it was

`runs` plays the specs `assistant` and `tiny-assistant`, each with and without a skill graph. `slips` counts what the
small model gets wrong that stands on the card, as it ships, in easy and in hard requests, or in runs that are given.
It also counts how many of the shared wishes that only the memory knows are named. `training` is
`agentfw train tiny-assistant` with hard requests; the same requests of test users are played before and after.
Differences are paired by user, with bootstrap intervals at 95%. Times are CPU seconds.

Required: the four runs take at most 90 seconds. The mark for procedure is higher after training, and the interval
excludes 0.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from agentfw import Episode, Host
from agentfw.runs import RunFolder
from agentfw_benchmarks import Options, played, print_markdown, shown, spec_named, tell, triple_of
from agentfw_papers.worlds.assistant.card_teacher import Habits, teach
from agentfw_papers.worlds.assistant.domains import load_domains

FIGURES = ("judge", "procedure", "proactive", "visible_personal", "satisfaction")
MOST_SECONDS = 90.0
ROWS = ("runs", "slips", "training")
SLIPS = (
    *("turns", "failed calls", "the same again", "wishes named", "of another source", "no wish", "other letters"),
    *("counts", "wrong counts", "shared wishes", "of these named"),
)


def play(values: Mapping[str, Any], host: Host, home: Path) -> tuple[RunFolder, float]:
    """A run or training, continued if it is there already, and the CPU seconds that it took now."""
    began = time.process_time()
    return played(values, host, home), time.process_time() - began


def runs(host: Host, home: Path, episodes: int) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    seconds = 0.0
    for name in ("assistant", "tiny-assistant"):
        for memory in (True, False):
            title = f"{name}, {'skillgraph' if memory else 'no memory'}"
            more: dict[str, Any] = {} if memory else {"memories": []}
            folder, took = play(spec_named(host, name, episodes=episodes, **more), host, home / title)
            outcomes = [record["outcome"] for record in folder.metrics()]
            rows[title] = {figure: triple_of([one[figure] for one in outcomes]) for figure in FIGURES}
            seconds += took
    return {"rows": rows, "seconds": seconds, "met": seconds <= MOST_SECONDS}


def training(host: Host, home: Path, seeds: Sequence[int], updates: int, tasks: int) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    gains: list[list[dict[str, float]]] = []
    for seed in seeds:
        values = spec_named(host, "train-tiny-assistant", seed=seed, updates=updates)
        values["environment"] = {"name": "assistant", "settings": {"style": "card", "difficulty": "hard"}}
        values["evaluation"] |= {"every": updates, "tasks": tasks}
        folder, seconds = play(values, host, home / str(seed))
        stages = folder.stages()
        before, after = ([one["outcome"] for one in stages[update]] for update in (min(stages), max(stages)))
        for stage, outcomes in (("before", before), ("after", after)):
            rows[f"{seed}, {stage}"] = {figure: triple_of([one[figure] for one in outcomes]) for figure in FIGURES}
        gains.append(
            [
                {figure: late[figure] - early[figure] for figure in FIGURES}
                for early, late in zip(before, after, strict=True)
            ]
        )
        rows[f"{seed}, after"]["seconds"] = seconds
    # All seeds are measured on the same users, so each user counts with the mean over seeds.
    of_users = {
        figure: [fmean(gain[figure] for gain in some) for some in zip(*gains, strict=True)] for figure in FIGURES
    }
    found = {figure: triple_of(values) for figure, values in of_users.items()}
    return {"rows": rows, "gain": found, "met": found["procedure"][1] > 0}


def slips(host: Host, home: Path, episodes: int, others: Sequence[Path]) -> dict[str, Any]:
    """Of runs that were played before, or of the model as it ships."""
    folders = {str(other): RunFolder.open(next(other.glob("**/run.json")).parent) for other in others}
    for difficulty in () if others else ("easy", "hard"):
        values = spec_named(host, "tiny-assistant", episodes=episodes)
        values["environment"] = {"name": "assistant", "settings": {"style": "card", "difficulty": difficulty}}
        folders[difficulty], _ = play(values, host, home / difficulty)
    rows = {}
    for title, folder in folders.items():
        counts = Counter[str]()
        for episode in folder.episodes():
            counts.update(_slips(episode))
        rows[title] = dict(counts)
    return {"rows": rows}


def _slips(episode: Episode) -> Counter[str]:
    """What a model wrote, and what of it was wrong, compared with what a teacher reads on the same card."""
    counts, before = Counter[str](dict.fromkeys(SLIPS, 0)), ""
    for turn in episode.turns:
        counts["turns"] += 1
        card = episode.messages[turn.shown[-1]].content
        failed = any(call.id in episode.failed_calls for call in turn.calls) or not turn.calls
        counts["failed calls"] += failed
        counts["the same again"] += failed and turn.text == before
        before = turn.text if failed else ""
        if "offers for " not in card or not turn.text.startswith("think: "):
            continue
        named, read = _WISHES.findall(turn.text), {wish for wish, _ in _WISHES.findall(teach(card, _READS_ALL))}
        values = {wish.split()[1] for wish in read}
        stated = {word for line in _STATED.findall(card) for word in re.findall(r"[\w-]+", line)}
        shared = {value for source, value in map(str.split, read) if source == "several"} - stated
        counts["shared wishes"] += len(shared)
        counts["of these named"] += len(shared & {wish.split()[1] for wish, _ in named})
        having = dict(re.findall(r" ([\w-]+)=([A-E]+|none)", card))
        counts["wishes named"] += len(named)
        counts["of another source"] += sum(wish not in read and wish.split()[1] in values for wish, _ in named)
        counts["no wish"] += sum(wish.split()[1] not in values for wish, _ in named)
        counts["other letters"] += sum(having.get(wish.split()[1]) != letters for wish, letters in named)
        wishes = [letters for wish, letters in named if not wish.startswith("no ")]
        left = re.search(r"\bleft ([A-E]+)", turn.text)
        for number, letters in re.findall(r", (\d) ([A-E]+|none)", turn.text):
            least = [one for one in (left[1] if left else "") if sum(one in some for some in wishes) >= int(number)]
            counts["counts"] += 1
            counts["wrong counts"] += letters != ("".join(least) or "none")
    return counts


_WISHES = re.compile(r"\b((?:own|several|stated|no) [\w-]+) ([A-E]+|none)")
_STATED = re.compile(r"^\w+: likes (.*)$", re.MULTILINE)
_READS_ALL = Habits(load_domains(""), Random(1), share=1.0)


def show(result: Mapping[str, Any]) -> None:
    for name, found in result.items():
        rows = {**found["rows"], **({"gain": found["gain"]} if "gain" in found else {})}
        if name == "slips":
            print_markdown([name, *SLIPS], [[title, *(row[what] for what in SLIPS)] for title, row in rows.items()])
        else:
            cells = [[title, *(shown(row[figure]) for figure in FIGURES)] for title, row in rows.items()]
            print_markdown([name, *FIGURES], cells)
            seconds = found.get("seconds", 0.0) + sum(row.get("seconds", 0.0) for row in found["rows"].values())
            print(f"{seconds:.0f} s of CPU; required: {'met' if found['met'] else 'not met'}")
        print()


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        episodes=(480, "requests of each run that isn't a training"),
        seeds=[1, 2, 3],
        updates=(24, "updates of a training"),
        tasks=(96, "requests before and after a training"),
    )
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--home", type=Path, help="keep the run folders here, and go on with those that are there")
    parser.add_argument("--run", action="append", type=Path, default=[], help="count the slips of this run instead")
    given = parser.parse_args(arguments)
    host = Host.load()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        home = given.home or Path(scratch)
        if "runs" in given.rows:
            result["runs"] = runs(host, home / "runs", given.episodes)
        if "slips" in given.rows:
            result["slips"] = slips(host, home / "slips", given.episodes, given.run)
        if "training" in given.rows:
            result["training"] = training(host, home / "training", given.seeds, given.updates, given.tasks)
    return tell(result, given.json, show)


if __name__ == "__main__":
    main()
