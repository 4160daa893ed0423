"""Kills runs at random moments, resumes them, and compares what came of it with runs that nobody disturbed.

The one rule: equal means equal: every record of every episode, every figure, and nothing twice; and whatever a hook or
a person was told of before the blow is on disk after it.

    python benchmarks/kill_resume.py                # 50 kills, about five minutes
    python benchmarks/kill_resume.py --kills 10 --seed 3 --json
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agentfw_benchmarks import Options, tell
from agentfw_benchmarks.kills import Resumable, as_text, episode_of, kill_after, records, trials

_GUESSING = ("guessing", "--policy", "hashing", "--set", "concurrency=4", "--set", "policy.pause=0.006")
CASES: dict[str, tuple[str, ...]] = {
    "inbox": ("inbox", "--episodes", "40"),
    "rounds": (*_GUESSING, "--episodes", "60", "--set", "environment.odd=true"),
    "groups": (*_GUESSING, "--episodes", "20", "--set", "samples=3", "--reward", "rank", "--reward", "utility=0.5"),
    "memory on disk": (*_GUESSING, "--episodes", "30", "--set", "samples=2", "--memory", "ledger"),
    "memory in process": (*_GUESSING, "--episodes", "50", "--memory", "scratch"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a run: everything that must not depend on whether it was killed."""

    episodes: dict[str, str]
    metrics: dict[str, str]
    figures: str
    lines: int
    """Lines of episodes.jsonl; more than there are episodes means that one was written twice."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run that was killed, once or more."""

    case: str
    delays: tuple[float, ...]
    """Seconds after which it was killed, each time."""
    hit: tuple[bool, ...]
    """Whether it still ran then: on a busy machine one run takes longer than the next."""
    kept: tuple[int, ...]
    """How many episodes were on disk after each kill."""
    lost: tuple[str, ...]
    """Episodes that had been acknowledged and weren't there."""
    differences: tuple[str, ...]

    @property
    def well(self) -> bool:
        return not self.lost and not self.differences


class Laboratory(Resumable):
    """The run of a case, and what it has acknowledged."""

    def __init__(self, case: str, folder: Path) -> None:
        ledger = ("--set", f"memory.ledger.path={folder / 'ledger.db'}") if "ledger" in CASES[case] else ()
        super().__init__(case, ["run", *CASES[case], *ledger], folder)
        (self.runs / "acknowledged.txt").touch()

    def finish(self) -> Outcome:
        """Let it come to its end, undisturbed."""
        folder = self.end()
        episodes, metrics = (list(records(folder / f"{name}.jsonl")) for name in ("episodes", "metrics"))
        summary = json.loads((folder / "summary.json").read_text("utf-8"))
        return Outcome(
            {episode_of(record): as_text(record) for record in episodes},
            {episode_of(record): as_text(record) for record in metrics},
            as_text(summary["figures"]),
            len(episodes) + len(metrics),
        )

    def kill(self, delay: float) -> tuple[bool, list[str]]:
        """Start it, and kill it after a while: whether it still ran, and the acknowledged episodes that are gone."""
        killed, told = kill_after(self.start(), delay)
        return killed, self.lost(told)

    def lost(self, told: str) -> list[str]:
        """What was acknowledged and isn't on disk: to a hook by name, to a person by number."""
        names = set((self.runs / "acknowledged.txt").read_text("utf-8").split())
        gone = sorted(names - self.there("episodes.jsonl"))
        if self.case == "inbox":  # where there are rounds, people are told of rounds
            numbers = [int(number) for number in re.findall(r"^(\d+)/\d+ ", told, re.M)]
            done = len(self.there("metrics.jsonl"))
            gone += [f"number {number}" for number in numbers if number > done]
        return gone

    def there(self, file: str) -> set[str]:
        """The episodes of which a whole line is on disk."""
        return set() if self.run is None else {episode_of(record) for record in records(self.run / file)}


def undisturbed(case: str, folder: Path) -> tuple[Outcome, float]:
    """The outcome of a run that nobody disturbs, and how long it takes."""
    began = time.perf_counter()
    outcome = Laboratory(case, folder).finish()
    return outcome, time.perf_counter() - began


def trial(case: str, folder: Path, expected: Outcome, delays: Sequence[float]) -> Trial:
    """Kill a run after each of these delays, let it end, and compare."""
    laboratory = Laboratory(case, folder)
    lost: list[str] = []
    hits: list[bool] = []
    kept: list[int] = []
    for delay in delays:
        hit, gone = laboratory.kill(delay)
        hits.append(hit)
        lost += gone
        kept.append(len(laboratory.there("episodes.jsonl")))
    different = tuple(differences(laboratory.finish(), expected))
    return Trial(case, tuple(delays), tuple(hits), tuple(kept), tuple(lost), different)


def differences(found: Outcome, expected: Outcome) -> Iterator[str]:
    """What isn't as it is in the undisturbed run."""
    for name in ("episodes", "metrics"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        yield from (f"{name}: {key}" for key in sorted(ours.keys() ^ theirs.keys()))
        yield from (f"{name}: {key}" for key in sorted(ours.keys() & theirs.keys()) if ours[key] != theirs[key])
    if found.figures != expected.figures:
        yield "summary"
    if found.lines != expected.lines:
        yield f"{found.lines} lines instead of {expected.lines}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = Options(__doc__, kills=50, seed=7).parse_args(arguments)
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual = {case: undisturbed(case, folder / f"undisturbed {case}") for case in CASES}

        def attempt(case: str, number: int, times: int) -> Trial:
            outcome, seconds = usual[case]
            found = trial(case, folder / str(number), outcome, [generator.uniform(0, seconds) for _ in range(times)])
            if not found.hit[0]:  # faster than usual: then this is what is usual now
                usual[case] = outcome, min(seconds, found.delays[0])
            if not options.json:
                _tell(found)
            return found

        found = trials(list(CASES), options.kills, generator, attempt)
    torn = sum(0 < kept < len(usual[each.case][0].episodes) for each in found for kept in each.kept)
    result = {
        "kills": sum(sum(each.hit) for each in found),
        "amid the episodes": torn,
        "runs": len(found),
        "equal": sum(each.well for each in found),
        "seconds": {case: round(seconds, 2) for case, (_, seconds) in usual.items()},
        "trials": [asdict(each) for each in found],
    }
    words = "\n{kills} kills in {runs} runs, {amid the episodes} of them amid the episodes; {equal} are equal"
    tell(result, options.json, lambda result: print(words.format_map(result)))
    return 0 if result["equal"] == result["runs"] else 1


def _tell(trial: Trial) -> None:
    moments = ", ".join(
        f"{delay:.2f} s ({kept} on disk)" if hit else "its end"
        for delay, hit, kept in zip(trial.delays, trial.hit, trial.kept, strict=True)
    )
    verdict = "equal" if trial.well else f"LOST {trial.lost} DIFFERENT {trial.differences[:5]}"
    print(f"{trial.case:18}  killed after {moments:44}  {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
