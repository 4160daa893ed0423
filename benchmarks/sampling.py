"""The policy `transformers` beside `generate` of transformers and vLLM: tokens a second of CPU time.

    python benchmarks/sampling.py --tokens 24 --vllm-python path/to/bin/python
    python benchmarks/sampling.py --answers 8 --shown 500 --tokens 200 --repeats 1

The model is that of additions.py, in fp32. "Alike" are prompts that differ, and answers of the same length. "Training"
is what a training asks for: 16 samples of a task, a prompt of 8 tokens times --shown, and answers of an eighth to all
of --tokens. Required: twice as many tokens a second as `generate`, and 0.7 of vLLM's.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any

import psutil  # type: ignore[import-untyped]
from adding_agent import SHOWN
from additions import LARGEST, folder_of

from agentfw import Message, Request, Task
from agentfw.request import Sampling
from agentfw_benchmarks import Options, ratio_span, tell


def requests(work: str, seed: int, options: argparse.Namespace) -> list[Request]:
    draw, asked = random.Random(seed), []
    group = 16 if work == "training" else 1
    for number, first in enumerate(range(0, options.answers, group)):
        pairs = [(draw.randint(0, LARGEST), draw.randint(0, LARGEST)) for _ in range(options.shown)]
        shown = "".join(f"{one}+{other}={one + other}\n" for one, other in pairs)
        text = shown if group > 1 else f"{SHOWN}{pairs[0][0]}+{pairs[0][1]}="
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
    return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True))


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    from agentfw_plugins.models import choose_device, load_base
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings
    from agentfw_plugins.policies.vllm.vllm_policy import VLLMPolicy, VLLMSettings

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
                    tokens = generated(base, prompts, [request.sampling.max_tokens for request in asked])
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


def show(result: dict[str, Any]) -> None:
    for work, sides in result["tokens a CPU second"].items():
        for side, speeds in sides.items():
            least, median, largest = result["policy against"][work].get(side, (1.0, 1.0, 1.0))
            told = f"policy: {median:.2f} ({least:.2f} to {largest:.2f}) times as fast"
            print(f"{work}, {side}: {sorted(speeds)[len(speeds) // 2]:.1f} tokens a CPU second   {told}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        answers=(32, "answers at once"),
        tokens=(48, "most tokens of an answer"),
        repeats=(3, "rounds"),
        shown=(58, "additions in a long prompt: 8 tokens each"),
        vllm_python=("", "Python that has vLLM"),
    ).parse_args(arguments)
    return tell(asyncio.run(measure(options)), options.json, show)


if __name__ == "__main__":
    main()
