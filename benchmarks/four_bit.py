"""A base in 4 bits, in 16 and in 32, on this processor: trained, saved, loaded again, asked again.

The one rule: the reloaded model is also asked by transformers and PEFT alone: what is compared is what others get.

    python benchmarks/four_bit.py
    python benchmarks/four_bit.py --updates 5 --json

A tiny model is made on the spot and learns a few demonstrations by heart. Told are the loss at first and last, whether
a learner that is resumed says the same to the last bit, the largest difference of any logprob between the trained model
in memory and what transformers and PEFT make of base and adapter, and how much of a demonstration is generated.
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, make_model, print_aligned, tell

SHAPE = {"hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.1}


def demonstrations(seed: int) -> list[Any]:
    from agentfw import Episode, Task, Turn

    draw = random.Random(seed)
    episodes = []
    for number in range(8):
        prompt, answer = ([draw.randrange(10, 380) for _ in range(16)] for _ in range(2))
        turn = Turn(0, 0, 1, prompt_ids=tuple(prompt), token_ids=tuple(answer))
        episodes.append(Episode(Task(number, seed), turns=[turn]))
    return episodes


def measure(precision: str, model: Path, folder: Path, updates: int, seed: int) -> dict[str, Any]:
    import torch
    from peft import PeftModel

    from agentfw.learner import Batch
    from agentfw.optimizer import Advantage
    from agentfw_plugins.learners.model_learner import SftLearner
    from agentfw_plugins.learners.settings import SftSettings
    from agentfw_plugins.models import load_base
    from agentfw_plugins.optimizers.imitation import Imitation, ImitationSettings

    episodes = demonstrations(seed)
    advantages = [Advantage(episode.id, 0, 1.0) for episode in episodes]
    learner = SftLearner(SftSettings(model=str(model), precision=precision, learning_rate=1e-2, seed=seed))
    learner.open(folder)
    began = time.perf_counter()
    losses, loss = [], Imitation(ImitationSettings()).loss()
    for number in range(updates):
        update = learner.update(Batch(episodes, advantages, loss, folder / f"{number}"))
        losses.append(update.metrics["loss"])
    seconds = (time.perf_counter() - began) / updates
    again = SftLearner(learner.settings)
    again.open(folder)
    again.restore(learner.state())
    same = all(
        learner.logprobs(turn.prompt_ids, turn.token_ids) == again.logprobs(turn.prompt_ids, turn.token_ids)
        for episode in episodes
        for turn in episode.turns
    )
    served = PeftModel.from_pretrained(load_base(model, precision, "cpu"), update.adapter)
    apart = 0.0
    with torch.no_grad():
        for episode in episodes:
            (turn,) = episode.turns
            logits = served(torch.tensor([[*turn.prompt_ids, *turn.token_ids]])).logits[
                0, len(turn.prompt_ids) - 1 : -1
            ]
            theirs = torch.log_softmax(logits.float(), -1).gather(-1, torch.tensor(turn.token_ids)[:, None])[:, 0]
            ours = torch.tensor(learner.logprobs(turn.prompt_ids, turn.token_ids))
            apart = max(apart, float((theirs - ours).abs().max()))
        turn = episodes[0].turns[0]
        prompt = torch.tensor([turn.prompt_ids])
        said = served.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=16, do_sample=False
        )[0, len(turn.prompt_ids) :].tolist()
    return {
        "precision": precision,
        "loss first": losses[0],
        "loss last": losses[-1],
        "resumed to the last bit": same,
        "logprobs apart": apart,
        "generated as learned": sum(a == b for a, b in zip(said, turn.token_ids, strict=False)),
        "of": len(turn.token_ids),
        "seconds an update": seconds,
    }


def show(report: dict[str, Any]) -> None:
    heads = ["base", "loss first", "last", "bits", "logprobs apart", "generated", "s an update"]
    rows = []
    for row in report["rows"]:
        figures = [f"{row['loss first']:.3f}", f"{row['loss last']:.3f}"]
        figures += ["equal" if row["resumed to the last bit"] else "differ", f"{row['logprobs apart']:.1e}"]
        generated = f"{row['generated as learned']} of {row['of']}"
        rows.append([row["precision"], *figures, generated, f"{row['seconds an update']:.2f}"])
    print_aligned(heads, rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, updates=40, precisions=["nf4", "bf16", "fp32"], seed=7).parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        model = make_model(Path(folder) / "model", **SHAPE)
        for precision in options.precisions:
            rows.append(measure(precision, model, Path(folder) / precision, options.updates, options.seed))
            print(f"{precision} is done", file=sys.stderr)
    return tell({"updates": options.updates, "seed": options.seed, "rows": rows}, options.json, show)


if __name__ == "__main__":
    main()
