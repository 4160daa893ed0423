"""The two ways in which workers of a learner share a step, at the same number of steps and with the same work.

With `exact` a step's minibatch is divided between the workers. With `replicated` each worker goes through the whole
batch in an order of its own, so a pass has more steps, and fewer passes make as many. Compared are what the policy has
gained on the batch after real trainings, and how noisy the gradient of a step is: its mean squared distance from the
gradient of the whole batch, over random orders, as a share of that gradient's square. Workers that all had one order
would compute copies; their noise is shown, too.

    python benchmarks/parallel_modes.py
    python benchmarks/parallel_modes.py --seeds 0 --json
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parallel_step import SHAPES, batch_of

from agentfw_benchmarks import Options, make_model, tell, triple_of


def trainings(options: argparse.Namespace, model: Path, folder: Path) -> dict[str, Any]:
    """Both modes on one batch: steps, tokens computed, and the policy's gain."""
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings

    workers, passes = options.workers, options.passes
    modes: dict[str, dict[str, Any]] = {
        "exact": {"minibatches": options.tasks // (workers * options.each), "steps": passes * workers},
        "replicated": {"minibatches": options.tasks // options.each, "steps": passes, "share": "replicated"},
    }
    found: dict[str, Any] = {}
    for mode, changes in modes.items():
        values = {"model": str(model), "learning_rate": 1e-3, "workers": workers, **changes}
        gains: list[float] = []
        for seed in range(options.seeds):
            learner = LoraLearner(LoraSettings.model_validate({**values, "seed": seed}))
            batch = make_batch(options, folder / f"{mode} {seed}")
            before = gain(learner, batch)
            metrics = learner.update(batch).metrics
            gains.append(gain(learner, batch) - before)
            learner.close()
        found[mode] = {
            "passes": changes["steps"],
            "minibatches": changes["minibatches"],
            "steps": metrics["steps"],
            "tokens computed": metrics["tokens_computed"] * changes["steps"],
            "gain": triple_of(gains),
        }
    return found


def noise(options: argparse.Namespace, model: Path, folder: Path) -> dict[str, float]:
    """The noise of a step's gradient, from the gradients of the single lessons."""
    import torch

    from agentfw.optimizer import Loss
    from agentfw.seeds import Seeds
    from agentfw_plugins.learners.descent import Descent
    from agentfw_plugins.learners.lessons import read_lessons, split
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.learners.token_tree import TurnTokens

    network = Network(LoraSettings(model=str(model), gradient_clip=1e9), Seeds(0))
    batch = make_batch(options, folder / "noise")
    lessons = read_lessons(
        batch, network.vocabulary, lambda _, turn: TurnTokens(turn.prompt_ids, turn.token_ids)
    ).lessons
    single: dict[int, Any] = {}
    for lesson in lessons:
        descent = Descent(network, torch.optim.SGD(network.parameters(), lr=1e-30), network.settings, 1e-30)
        descent.learn([[lesson]], Loss(aggregation="sequence_mean"), 1)
        single[lesson.task] = torch.cat([parameter.grad.flatten() for parameter in network.parameters()])
    whole = torch.stack(list(single.values())).mean(0)

    def distance(lessons: Sequence[Any]) -> float:
        mean = torch.stack([single[lesson.task] for lesson in lessons]).mean(0)
        return float((mean - whole).square().sum() / whole.square().sum())

    workers, small = options.workers, options.tasks // options.each
    distances: dict[str, list[float]] = {"exact": [], "replicated": [], "copies": []}
    for number in range(options.draws):
        seeds = Seeds(number)
        own = [split(lessons, small, seeds.child("order", rank))[0] for rank in range(workers)]
        distances["exact"].append(distance(split(lessons, small // workers, seeds)[0]))
        distances["replicated"].append(distance([lesson for minibatch in own for lesson in minibatch]))
        distances["copies"].append(distance(own[0]))
    return {mode: sum(each) / len(each) for mode, each in distances.items()}


def make_batch(options: argparse.Namespace, home: Path) -> Any:
    return batch_of(home, options.tasks, 1, options.prompt, options.answer, 1)


def gain(learner: Any, batch: Any) -> float:
    """Mean over the episodes of the advantage times the mean logprob: what a policy gradient raises."""
    turns = [episode.turns[0] for episode in batch.episodes]
    logprobs = [learner.logprobs(turn.prompt_ids, turn.token_ids) for turn in turns]
    gains = [one.value * sum(each) / len(each) for one, each in zip(batch.advantages, logprobs, strict=True)]
    return float(sum(gains) / len(gains))


def show(result: dict[str, Any]) -> None:
    for part, rows in result.items():
        print(part)
        for row, figures in rows.items():
            print(f"    {row:12} {figures}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        workers=2,
        tasks=(32, "episodes of the batch"),
        each=(4, "episodes of a worker's minibatch"),
        passes=(2, "passes with `replicated`"),
        prompt=40,
        answer=20,
        seeds=(3, "trainings in each mode; 0: only the noise"),
        draws=2000,
    )
    parser.add_argument("--shape", choices=SHAPES, default="small")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_model(folder / "model", **SHAPES[options.shape])
        result = {
            "modes": trainings(options, model, folder) if options.seeds else {},
            "noise of a step's gradient": noise(options, model, folder),
        }
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
