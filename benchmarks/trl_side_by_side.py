"""One training step beside TRL's GRPOTrainer: the same model, adapter, tokens and advantages, one process a side.

The one rule: both do the same work. Each side begins with the same adapter and is handed the same tokens, and the
two gradients of the first step are compared; only the step is timed (forward, backward, clipping, AdamW).

    python benchmarks/trl_side_by_side.py
    python benchmarks/trl_side_by_side.py --shape 4b --precision nf4 --device cuda --tokens 16384
    python benchmarks/trl_side_by_side.py --whole path/to/gsm8k/train.jsonl --model path/to/model --seeds 1 2 3

    group            8 samples of one prompt of 1,500 tokens, answers of 64
    short            8 samples of a prompt of 32 tokens, answers of 512: there is hardly anything to share
    tasks            8 tasks (--tasks) of 16 samples each, with a prompt of 400 tokens and answers of 48

Sides: `tree` and `plain` are agentfw's two packings, `trl` is TRL as it comes. It computes activations twice, and so do
they, so that it is like with like.

With `--whole`, each side trains a chat model by itself on the same sums of GSM8K, and updates are timed from the first
sampled token to the version that is served: playing, learning, and, for agentfw, proving which weights are served. The
first update warms up. With `--held-out`, both are asked sums that aren't among those trained on, before and after.

Memory is the most that a step holds beyond what the process held before the first. Sides take turns, and a ratio is the
median of the ratios within a repetition, with the least and the largest.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentfw.report.statistics import bootstrap
from agentfw_benchmarks import Options, answer_of, make_model, memory_of_this, model_size, once, ratio_span, tell
from agentfw_benchmarks.whole_trainings import MODULES, QUIET, SAMPLES, train_whole

OF_A_TASK = 16
"""Samples of each of the workload `tasks`. Of the one task of the others there are SAMPLES, as many as TRL computes at
once."""
SIDES = ("tree", "plain", "trl")
SHAPES: dict[str, dict[str, Any]] = {
    "small": model_size(hidden=512, inner=1376, layers=6, heads=8, key_heads=4, vocab_size=8192)
    | {"initializer_range": 0.05},
    # Four billion weights, for one large GPU: 16 GB on the disk while it is measured.
    "4b": model_size(hidden=2560, inner=9728, layers=36, heads=32, key_heads=8, vocab_size=151936)
    | {"head_dim": 128, "initializer_range": 0.02},
}


def samples_of(workload: str, scale: float, tasks: int = 1) -> list[tuple[list[int], list[int]]]:
    """Prompt and answer of each sample."""
    draw = random.Random(7)

    def tokens(count: float) -> list[int]:
        return [draw.randrange(10, 380) for _ in range(max(2, int(count * scale)))]

    if workload == "tasks":
        prompts = [tokens(400) for _ in range(tasks)]
        return [(prompt, tokens(48)) for prompt in prompts for _ in range(OF_A_TASK)]
    before, after = {"group": (1500, 64), "short": (32, 512)}[workload]
    prompt = tokens(before)
    return [(prompt, tokens(after)) for _ in range(SAMPLES)]


def advantage(number: int, workload: str) -> float:
    """Of a sample by its number. Those of a task add up to zero."""
    of_a_task = OF_A_TASK if workload == "tasks" else SAMPLES
    return number % of_a_task - (of_a_task - 1) / 2


# -- memory and time ---------------------------------------------------------------------------------------------------


class Meter:
    """The clock, the processor's time, and the most that was held, of each step."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.steps: list[dict[str, float]] = []

    def begin(self) -> None:
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated() / 2**20
        else:
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            held = memory_of_this("VmRSS") / 2**20
        if not self.steps:
            self._held = held
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    def end(self) -> None:
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()
        seconds, cpu = time.perf_counter() - self._clock, time.process_time() - self._cpu
        most = torch.cuda.max_memory_allocated() / 2**20 if self.device == "cuda" else memory_of_this("VmHWM") / 2**20
        self.steps.append({"seconds": seconds, "cpu_seconds": cpu, "memory_mb": most - self._held})


def save_gradient(weights: Sequence[Any], options: argparse.Namespace) -> None:
    """Keep the gradient of the first step, clipped, as one long row."""
    import torch
    from safetensors.torch import save_file

    gradient = torch.cat([weight.grad.detach().float().flatten().cpu() for weight in weights])
    save_file({"gradient": gradient}, options.gradient)


def apart(one: Path, other: Path) -> float:
    """How far two gradients are apart, as a share of the length of the second."""
    from safetensors.torch import load_file

    ours, theirs = (load_file(path)["gradient"].double() for path in (one, other))
    return float((ours - theirs).norm() / theirs.norm())


# -- the sides ---------------------------------------------------------------------------------------------------------


def run_agentfw(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    from agentfw.optimizer import Loss
    from agentfw.seeds import Seeds
    from agentfw_plugins.learners.descent import Descent
    from agentfw_plugins.learners.lessons import Lesson
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.learners.token_tree import TurnTokens

    settings = LoraSettings(
        model=options.model,
        adapter=options.adapter,
        packing="plain" if options.side == "plain" else "tree",
        checkpointing=True,
        precision=options.precision,
        device=options.device,
        tokens=options.tokens or None,
    )
    network = Network(settings, Seeds(7))
    network.take(network.read(Path(options.adapter)), as_start=True)
    descent = Descent(network, torch.optim.AdamW(network.parameters()), settings, 1e-5)
    lessons = [
        Lesson(TurnTokens(prompt, answer), advantage(number, options.workload), (), 0, 0)
        for number, (prompt, answer) in enumerate(samples_of(options.workload, options.scale, options.tasks))
    ]
    meter = Meter(network.device)
    norms = []
    for step in range(options.steps):
        meter.begin()
        figures = descent.learn([lessons], Loss(), 1)
        meter.end()
        norms.append(figures["gradient_norm"])
        if not step:
            save_gradient(network.parameters(), options)
    return {"steps": meter.steps, "gradient_norm": norms[0], "computed": figures["tokens_computed"]}


def run_trl(options: argparse.Namespace) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from peft import PeftModel
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from agentfw_plugins.models import load_base

    samples, device = samples_of(options.workload, options.scale, options.tasks), options.device
    longest_prompt, longest = (max(len(sample[part]) for sample in samples) for part in (0, 1))
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    handed: dict[str, list[Any]] = {name: [] for name in names}
    for prompt, completion in samples:
        left, right = longest_prompt - len(prompt), longest - len(completion)
        handed["prompt_ids"].append([0] * left + prompt)
        handed["prompt_mask"].append([0] * left + [1] * len(prompt))
        handed["completion_ids"].append(completion + [0] * right)
        handed["completion_mask"].append([1] * len(completion) + [0] * right)
    tensors = {name: torch.tensor(values, device=device) for name, values in handed.items()}
    advantages = [advantage(number, options.workload) for number in range(len(samples))]
    tensors["advantages"] = torch.tensor(advantages, device=device)
    tensors["num_items_in_batch"] = tensors["completion_mask"].sum()

    class Handed(GRPOTrainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            return dict(tensors)

    meter = Meter(device)

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            meter.begin()

        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            if len(meter.steps) == 0:
                save_gradient([weight for weight in model.parameters() if weight.requires_grad], options)

        def on_step_end(self, *_: Any, **__: Any) -> None:
            meter.end()

    base = load_base(Path(options.model), options.precision, device)
    model = PeftModel.from_pretrained(base, options.adapter, is_trainable=True)
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=SAMPLES,
            gradient_accumulation_steps=len(samples) // SAMPLES,
            num_generations=SAMPLES,
            max_completion_length=longest,
            max_steps=options.steps,
            learning_rate=1e-5,
            bf16=device == "cuda",
            use_cpu=device == "cpu",
            gradient_checkpointing=True,
            logging_steps=1,
            **QUIET,
        )
        trainer = Handed(
            model=model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": ["x"] * len(samples)}),
            processing_class=AutoTokenizer.from_pretrained(options.model),
            callbacks=[Watch()],
        )
        trainer.train()
        norm = next(entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry)
    return {"steps": meter.steps, "gradient_norm": float(norm), "computed": len(samples) * (longest_prompt + longest)}


# -- putting them side by side -----------------------------------------------------------------------------------------


def make_adapter(options: argparse.Namespace) -> None:
    """Drawn, so that no half of it is zero."""
    import torch
    from peft import LoraConfig, get_peft_model

    from agentfw_plugins.models import load_base

    base = load_base(Path(options.model), options.precision, options.device)
    config = LoraConfig(r=8, lora_alpha=16, target_modules=MODULES, task_type="CAUSAL_LM")
    tuned = get_peft_model(base, config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in (weight for weight in tuned.parameters() if weight.requires_grad):
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.02)
    tuned.save_pretrained(options.adapter)


def run_side(side: str, workload: str, options: argparse.Namespace, model: Path) -> Any:
    """What a process of its own finds: so that no side finds anything warm, or memory that another has left."""
    passed = ["--side", side, "--workload", workload, "--model", model, "--adapter", options.adapter]
    passed += ["--gradient", gradient_of(side, options)]
    for name in ("scale", "steps", "tasks", "tokens", "precision", "device"):
        passed += [f"--{name}", getattr(options, name)]
    environment = os.environ | {"OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1"}
    environment |= {"TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore", "OMP_WAIT_POLICY": "passive"}
    return answer_of(__file__, *passed, environment=environment)


def gradient_of(side: str, options: argparse.Namespace) -> Path:
    return Path(options.adapter).with_name(f"{side}.safetensors")


def summarised(result: dict[str, Any]) -> dict[str, Any]:
    steps = result["steps"][1:] or result["steps"]  # the first one warms up
    result |= {name: statistics.median(step[name] for step in steps) for name in ("seconds", "cpu_seconds")}
    result["memory_mb"] = max(step["memory_mb"] for step in result["steps"])
    return result


def compare(workload: str, options: argparse.Namespace, model: Path) -> dict[str, Any]:
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in options.sides}
    for _ in range(options.repeats):
        for side, found in runs.items():
            found.append(summarised(run_side(side, workload, options, model)))
            last = found[-1]
            told = f"{last['seconds']:>8.2f} s{last['cpu_seconds']:>9.2f} s of CPU{last['memory_mb']:>8.0f} MiB"
            print(f"{workload:<16}{side:<10}{told}", file=sys.stderr)
    first = options.sides[0]
    trained = sum(len(answer) for _, answer in samples_of(workload, options.scale, options.tasks))
    rows = []
    for side, found in runs.items():
        row: dict[str, Any] = {"side": side, "trained": trained, "computed": found[0]["computed"]}
        row["gradient_norm"] = found[0]["gradient_norm"]
        row["gradient apart"] = apart(gradient_of(side, options), gradient_of(first, options))
        for name in ("seconds", "cpu_seconds", "memory_mb"):
            row[name] = statistics.median(run[name] for run in found)
            row[f"{name} ratio"] = ratio_span([run[name] for run in found], [run[name] for run in runs[first]])
        rows.append(row)
    return {"workload": workload, "against": first, "repeats": options.repeats, "sides": rows}


def compare_whole(options: argparse.Namespace) -> dict[str, Any]:
    """Each training is kept in the folder of work, so that the same command goes on after an interruption."""
    sides = [side for side in options.sides if side != "plain"]
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    about = f"{options.updates} updates, {options.answer} tokens"
    for seed in options.seeds:
        for side, some in found.items():
            kept = options.work / f"{side}, seed {seed}, {about}.json"
            words = ["--side", side, "--model", options.model, "--whole", options.whole, "--seed", seed]
            words += ["--adapter", options.work / f"before, {about}.json" if options.held_out else ""]
            for name in ("updates", "answer", "threads"):
                words += [f"--{name}", getattr(options, name)]
            environment = os.environ | {"OMP_NUM_THREADS": str(options.threads)}
            some.append(once(kept, partial(answer_of, __file__, *words, environment=environment)))
            told = " ".join(f"{one:.1f}" for one in some[-1]["updates"])
            print(f"seed {seed} {side}: {told} s of CPU an update", file=sys.stderr)
    return {"whole": found, "updates": options.updates, "answer": options.answer}


def show_whole(report: dict[str, Any]) -> None:
    found = report["whole"]
    first = next(iter(found))
    print(f"{report['updates']} updates, answers of up to {report['answer']} tokens")
    for side, seeds in found.items():
        means = [statistics.mean(one["updates"]) for one in seeds]
        ratios = ratio_span(means, [statistics.mean(one["updates"]) for one in found[first]])
        told = "{1:.2f} [{0:.2f}, {2:.2f}]".format(*ratios)
        print(f"{side:<6}{statistics.mean(means):>8.1f} s of CPU an update, {told} times {first}'s")
        if "right" in seeds[0]:
            every = bootstrap([one for each in seeds for one in each["right"]])
            told = ", ".join(f"{statistics.mean(one['right']):.3f}" for one in seeds)
            print(f"      right {every.estimate:.3f} ± {every.margin:.3f} ({told})")
    if "before" in found[first][0]:
        before = bootstrap(found[first][0]["before"])
        print(f"before: {before.estimate:.3f} ± {before.margin:.3f}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        workload=["group", "short"],
        repeats=3,
        steps=(3, "of each process; the first warms up"),
        scale=(1.0, "of all lengths"),
        tasks=(8, "of the workload tasks"),
        threads=os.cpu_count() or 1,
        tokens=(4096, "agentfw computes so many at once; 0 lets it choose"),
        model=("", "a model folder; else one of drawn weights is made on the spot"),
        precision="fp32",
        whole=("", "train.jsonl of GSM8K, to compare whole trainings"),
        updates=(10, "of each whole training"),
        seeds=[1, 2, 3],
        answer=(12, "maximum tokens of an answer"),
        work=(Path("beside-trl"), "folder that keeps whole trainings"),
        held_out=(False, "ask held-out sums before and after"),
    )
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES, help="compared with the first")
    parser.add_argument("--shape", default="small", choices=SHAPES, help="of the model that is made")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--adapter", default="", help=argparse.SUPPRESS)
    parser.add_argument("--gradient", default="", help=argparse.SUPPRESS)
    parser.add_argument("--side", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.side and options.whole:
        with contextlib.redirect_stdout(sys.stderr):
            found = train_whole(options)
        print(json.dumps(found))
        return {}
    if options.side:
        (options.workload,) = options.workload
        work = make_adapter if options.side == "adapter" else run_trl if options.side == "trl" else run_agentfw
        print(json.dumps(work(options)))
        return {}
    if options.whole:
        if not options.model:
            parser.error("--whole needs a chat model: --model path/to/SmolLM2-135M-Instruct")
        return tell(compare_whole(options), options.json, show_whole)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        model = Path(options.model or make_model(Path(folder) / "model", **SHAPES[options.shape]))
        options.adapter = str(Path(folder) / "adapter")
        run_side("adapter", "group", options, model)
        results = [compare(name, options, model) for name in options.workload]
    report = {"threads": options.threads, "precision": options.precision, "results": results}
    return tell(report, options.json)


if __name__ == "__main__":
    main()
