"""The two ways in which workers of a learner share a step, at the same number of steps and with the same work.

With `exact` a step's minibatch is divided between the workers. With `replicated` each worker goes through the whole
batch in an order of its own, so a pass has more steps, and fewer passes make as many. Compared are what the policy has
gained on the batch after real trainings, and how noisy the gradient of a step is: its mean squared distance from the
gradient of the whole batch, over random orders, as a share of that gradient's square. Workers that all had one order
would compute copies; their noise is shown, too.

    python tests/benchmarks/parallel_modes.py
    python tests/benchmarks/parallel_modes.py --seeds 0 --json
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parallel_step import LABORATORY, SHAPES, batch_of

from agentfw.statistics import bootstrap


def trainings(options: argparse.Namespace, model: Path, folder: Path) -> dict[str, Any]:
    """Both modes on one batch: steps, tokens computed, and the policy's gain."""
    from agentfw_plugins.learners.lora import LoraLearner
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
        interval = bootstrap(gains)
        found[mode] = {
            "passes": changes["steps"],
            "minibatches": changes["minibatches"],
            "steps": metrics["steps"],
            "tokens computed": metrics["tokens_computed"] * changes["steps"],
            "gain": [interval.estimate, interval.low, interval.high] if options.seeds > 1 else [interval.estimate],
        }
    return found


def noise(options: argparse.Namespace, model: Path, folder: Path) -> dict[str, float]:
    """The noise of a step's gradient, from the gradients of the single lessons."""
    import torch

    from agentfw import Loss, Seeds
    from agentfw_plugins.learners.descent import Descent
    from agentfw_plugins.learners.lessons import read, split
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.learners.token_tree import TurnTokens

    network = Network(LoraSettings(model=str(model), gradient_clip=1e9), Seeds(0))
    batch = make_batch(options, folder / "noise")
    lessons = read(batch, network.vocabulary, lambda _, turn: TurnTokens(turn.prompt_ids, turn.token_ids)).lessons
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


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=32, help="episodes of the batch")
    parser.add_argument("--each", type=int, default=4, help="episodes of a worker's minibatch")
    parser.add_argument("--passes", type=int, default=2, help="passes with `replicated`")
    parser.add_argument("--prompt", type=int, default=40)
    parser.add_argument("--answer", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3, help="trainings in each mode; 0: only the noise")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    spec = importlib.util.spec_from_file_location("parallel_modes_models", LABORATORY)
    assert spec is not None
    assert spec.loader is not None
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.make_model(folder / "model", **SHAPES[options.shape])
        result = {
            "modes": trainings(options, folder / "model", folder) if options.seeds else {},
            "noise of a step's gradient": noise(options, folder / "model", folder),
        }
    if options.json:
        print(json.dumps(result))
        return result
    for part, rows in result.items():
        print(part)
        for row, figures in rows.items():
            print(f"    {row:12} {figures}")
    return result


if __name__ == "__main__":
    main()
