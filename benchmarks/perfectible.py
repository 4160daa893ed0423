"""Tasks that a model solves in some of its tries can be learned to perfection: which optimizer gets there?

    python benchmarks/perfectible.py --work FOLDER                          # sums, by the model tiny-sums

From many questions the program keeps those that the model solves in 20 to 80% of its tries: none of them is too hard,
and none is done. What is measured is the share of these very tasks that is solved after training on them. A sound
algorithm solves 95% of such a set (arXiv 2510.26788), whatever else is true of it, and one that doesn't has something
wrong with it, or with its settings. All have the same samples, the same number of updates and the same learning rate.

Killed, the same command goes on with the trainings that are missing.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import agentfw
from agentfw.runs import in_processes
from agentfw_benchmarks import Options, once, print_markdown, shown, tell, triple_of

LOW, HIGH, SOUND = 0.2, 0.8, 0.95
OPTIMIZERS = (
    *("empirical_bayes", "grpo", "dr_grpo", "dapo", "gspo", "cispo", "sapo", "gdpo", "gigpo", "parpo", "reinforce"),
    *("roundwise", "turnwise"),
)
SYSTEM = """You solve problems, and for each you have so many tokens. All that you write counts, your thinking too.

Be right, and be done within the budget: an answer that comes later is worth nothing. Take as much thought as the
budget allows for, and no more. End with your answer, just the result, such as <answer>42</answer>."""
ENOUGH = "You have 64 tokens. There is plenty of time, so think as carefully as you like and answer."


def correct(completions: Sequence[Any], answer: Sequence[str], **columns: object) -> list[float]:
    return [float(_is(said[-1]["content"], right)) for said, right in zip(completions, answer, strict=True)]


def _is(text: str, answer: str) -> bool:
    return re.findall(r"<answer>\s*(\d+)\s*</answer>", text)[-1:] == [answer]


def sums(count: int, seed: int) -> list[dict[str, Any]]:
    drawn = random.Random(seed)
    terms = [[drawn.randint(1, 9) for _ in range(5)] for _ in range(count)]
    return [
        {
            "prompt": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": f"[0] round 1 of 1\nWhat is {' + '.join(map(str, some))}?\n{ENOUGH}"},
            ],
            "answer": str(sum(some)),
        }
        for some in terms
    ]


UNTRAINED = {"policy.model": "tiny-sums", "policy.batch": 128}


def settings_of(folder: Path) -> dict[str, Any]:
    return {
        "environment.tasks": str(folder / "{split}.jsonl"),
        "sampling.temperature": 1.0,
        "sampling.max_tokens": 80,
        "concurrency": 128,
    }


def write(folder: Path, rows: Sequence[dict[str, Any]], tries: int) -> None:
    """A set that is trained on, and on which so many tries are measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, times in (("train", 1), ("validation", 1), ("test", tries)):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows] * times), "utf-8")


def solved(folder: Path, seed: int, policy: str = "tiny") -> list[float]:
    """The share of its tries in which each task is solved, by the untrained model or by a training's."""
    lines, tried = ((folder / f"{split}.jsonl").read_text("utf-8").splitlines() for split in ("train", "test"))
    rows, count = list(map(json.loads, lines)), len(tried)
    settings = settings_of(folder) | (UNTRAINED if policy == "tiny" else {})
    played = agentfw.run(
        "questions", policy=policy, reward=correct, episodes=count, seed=seed, settings=settings, runs=folder / "runs"
    )
    shares = [0.0] * len(rows)
    for episode in played.episodes:
        place = episode.task.index % len(rows)
        shares[place] += _is(episode.turns[-1].text, rows[place]["answer"]) * len(rows) / count
    return shares


def measured(name: str, folder: Path, options: Any) -> dict[str, Any]:
    """Train on the set and play it again; or read what was measured before."""

    settings = {"tasks": options.tasks, "samples": options.samples, "evaluation.tasks": 8, "learner.weights": "all"}
    settings |= {"evaluation.every": options.updates, "learner.learning_rate": options.rate, "learner.tokens": 16384}

    def find() -> list[float]:
        training = agentfw.train(
            "questions",
            policy="tiny",
            optimizer=name,
            learner="lora",
            reward=correct,
            updates=options.updates,
            seed=options.seed,
            settings=settings_of(folder) | UNTRAINED | settings,
            runs=folder / "runs",
        )
        return solved(folder, options.seed + 1, str(training.path))

    return {"optimizer": name, "after": once(folder / f"{name}-{options.updates}-{options.seed}.json", find)}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        work=(Path, "a folder for the trainings"),
        questions=(240, "to choose from"),
        tries=(16, "of each question"),
        updates=60,
        tasks=(16, "in each update"),
        samples=(8, "of each task"),
        rate=(5e-4, "learning rate"),
        seed=7,
        processes=1,
    )
    parser.add_argument("--optimizers", nargs="+", choices=OPTIMIZERS, default=list(OPTIMIZERS))
    options = parser.parse_args(arguments)
    every, chosen = options.work / "questions", options.work / "perfectible"
    rows = sums(options.questions, options.seed)
    if not (chosen / "test.jsonl").exists():
        write(every, rows, options.tries)
        shares = solved(every, options.seed)
        write(chosen, [row for row, share in zip(rows, shares, strict=True) if LOW <= share <= HIGH], options.tries)
    before = solved(chosen, options.seed)
    work = partial(measured, folder=chosen, options=options)
    found = in_processes(work, options.optimizers, options.processes)
    result = {"questions": len(rows), "tasks": len(before), "before": before, "rows": found, "updates": options.updates}
    return tell(result, options.json, show)


def show(result: dict[str, Any]) -> None:
    print(f"{result['tasks']} of {result['questions']} questions, {result['updates']} updates\n")
    rows = [["untrained", shown(triple_of(result["before"])), ""]]
    for row in result["rows"]:
        mean = sum(row["after"]) / len(row["after"])
        rows.append([row["optimizer"], shown(triple_of(row["after"])), "yes" if mean >= SOUND else "no"])
    print_markdown(["optimizer", "solved", f"at least {SOUND}"], rows)


if __name__ == "__main__":
    main()
