"""What a GPU does for training, row by row: one command for the quarter of an hour in which there is one.

    python benchmarks/gpu_rows.py                                  # every row, on the GPU
    python benchmarks/gpu_rows.py --rows flex tree_4b --json
    python benchmarks/gpu_rows.py --device cpu --small             # the same code in small, without a GPU
    python benchmarks/gpu_rows.py --real --model path/to/model     # rows of a pretrained model

docs/results/gpu.md says what each row is. Every row is a process of its own with ten minutes: one that fails or takes
too long says so, and the others go on.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import real_model
import trl_side_by_side

from agentfw_benchmarks import AGENTFW, Options, make_model, model_size, tell, with_laboratory

LIMIT = 600
"""Seconds of one row."""
SHAPES: dict[str, dict[str, Any]] = {
    "4b": trl_side_by_side.SHAPES["4b"],
    "7b": trl_side_by_side.SHAPES["4b"] | {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32},
    # The tokenizer that is made along knows 384 tokens, and a policy samples no others.
    "1b": model_size(hidden=2048, inner=8192, layers=16, heads=16, key_heads=8, initializer_range=0.02),
    "small": model_size(hidden=64, inner=96, layers=2, heads=4, key_heads=2, initializer_range=0.1),
}
TRAINING = (
    *("bandit", "--optimizer", "grpo", "--learner", "lora", "--reward", "varied"),
    *("--set", "tasks=4", "--set", "samples=4", "--set", "evaluation.tasks=4", "--set", "evaluation.every=100"),
    *("--set", "sampling.max_tokens=32", "--set", "environment.rounds=3", "--set", "max_turns=6"),
    *("--set", "learner.learning_rate=1e-3"),
)
FIGURES = {
    "served": ("publish_seconds", "publish_bytes", "proven", "probe_mismatch", "probe_mismatch_most"),
    "learner": ("mismatch", "mismatch_largest", "tokens_trained"),
    "seconds": ("play", "learn"),
}
"""What is told of each update of a training, by part of its record."""


def drawn_model(folder: Path, shape: str, device: str) -> Path:
    """A model folder with random weights, drawn on the device: bf16 on a GPU, fp32 on a CPU."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    make_model(folder, weights=False, **SHAPES[shape])
    torch.manual_seed(0)
    with torch.device(device):
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=dtype)
    model.save_pretrained(folder)
    return folder


def timed(run: Callable[[], Any], device: str, repeats: int) -> float:
    """Median seconds, the first run left out."""
    import torch

    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds[1:])[repeats // 2]


# -- the rows ----------------------------------------------------------------------------------------------------------


def flex(options: argparse.Namespace) -> dict[str, Any]:
    """Trees of several lengths; the last one is timed."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    from agentfw_plugins.learners import tree_flex
    from agentfw_plugins.learners.token_tree import TurnTokens, pack

    heads, key_heads, width = (4, 2, 16) if options.small else (32, 8, 128)
    cases = [(60, 10), (200, 30)] if options.small else [(500, 100), (1000, 200), (3000, 300), (3500, 450), (4000, 500)]
    gpu = options.device == "cuda"
    if not gpu:  # torch has no backward pass of it for CPUs, and takes a minute to compile a forward one
        tree_flex._compiled = lambda: torch.compile(flex_attention, dynamic=False, backend="eager")
    torch._dynamo.utils.counters.clear()
    rows = []
    for prompt, answer in cases:
        turns = [TurnTokens(range(prompt), (10**6 + number, *range(answer - 1))) for number in range(8)]
        (packed,) = pack(turns, 1 << 20)
        whole = tree_flex.FlexTree(packed, options.device)
        shapes = [(1, count, packed.computed, width) for count in (heads, key_heads, key_heads)]
        drawn = [torch.randn(shape, device=options.device) for shape in shapes]
        upstream = torch.randn(shapes[0], device=options.device)
        # Of each turn its path through the tree, to be computed as a row.
        ids, ends = packed.ids[0], packed.subtree_ends
        leaves = [node for node in range(len(ids)) if node + 1 == ends[node]]
        paths = [[node for node in range(leaf + 1) if leaf < ends[node]] for leaf in leaves]

        def tree(dtype: Any, given: Any = drawn, whole: Any = whole, upstream: Any = upstream) -> list[Any]:
            parts = [part.to(dtype).requires_grad_(gpu) for part in given]
            output = whole.attend(*parts, width**-0.5)
            return [output, *(torch.autograd.grad(output, parts, upstream.to(dtype)) if gpu else ())]

        def by_row(dtype: Any, given: Any = drawn, paths: Any = paths, upstream: Any = upstream) -> list[Any]:
            parts = [part.to(dtype).requires_grad_(gpu) for part in given]
            attend = torch.nn.functional.scaled_dot_product_attention
            done: set[int] = set()
            output = torch.zeros_like(parts[0])
            for path in paths:
                new = [place for place, node in enumerate(path) if node not in done]
                done.update(path)
                at = [part[:, :, path] for part in parts]
                attended = attend(*at, is_causal=True, scale=width**-0.5, enable_gqa=True)
                output = output.index_copy(
                    2, torch.tensor([path[n] for n in new], device=output.device), attended[:, :, new]
                )
            return [output, *(torch.autograd.grad(output, parts, upstream.to(dtype)) if gpu else ())]

        exact, plain, found = by_row(torch.float32), by_row(torch.bfloat16), tree(torch.bfloat16)
        names = ("output", "query", "key", "value")
        rows.append(
            {"tokens": packed.computed, "padded": tree_flex.bucket(packed.computed)}
            | {f"{name}, tree from fp32": apart(a, b) for name, a, b in zip(names, found, exact, strict=False)}
            | {f"{name}, rows from fp32": apart(a, b) for name, a, b in zip(names, plain, exact, strict=False)}
        )
        seconds = {
            "tree, s": timed(lambda: tree(torch.bfloat16), options.device, 5),
            "rows, s": timed(lambda: by_row(torch.bfloat16), options.device, 5),
        }
    return {
        "backward": gpu,
        "compiled": torch._dynamo.utils.counters["stats"]["unique_graphs"],
        "trees": rows,
    } | seconds


def apart(one: Any, other: Any) -> float:
    return float((one.float() - other.float()).norm() / other.float().norm())


def tree(shape: str, options: argparse.Namespace) -> dict[str, Any]:
    """A step by each side; trl_side_by_side compares their gradients."""
    sides = ["tree", "plain"]
    if importlib.util.find_spec("trl") and importlib.util.find_spec("datasets"):
        sides.append("trl")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        model = drawn_model(Path(folder) / "model", "small" if options.small else shape, options.device)
        for precision in ("bf16", "nf4"):
            words = ["--model", str(model), "--precision", precision, "--device", options.device, "--repeats", "1"]
            words += ["--sides", *sides, "--tokens", "0", "--steps", "2", "--json", "--workload", "long"]
            words += ["--scale", "0.02", "--threads", "1"] if options.small else ["episodes"]
            results[precision] = trl_side_by_side.main(words)["results"]
    return {"shape": shape, "trl": "trl" in sides} | results


def memory(options: argparse.Namespace) -> dict[str, Any]:
    """MiB after each part is there, and at most during a step. A CPU's figures are the whole process's."""
    import torch

    from agentfw.optimizer import Loss
    from agentfw.seeds import Seeds
    from agentfw_plugins.learners.descent import Descent, peak_memory
    from agentfw_plugins.learners.lessons import Lesson
    from agentfw_plugins.learners.logprobs import token_logprobs
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.learners.token_tree import TurnTokens

    gpu = options.device == "cuda"
    results = {}
    samples = trl_side_by_side.turns_of("long", 0.05 if options.small else 1.0)
    lessons = [
        Lesson(TurnTokens(*turns[0]), number - (len(samples) - 1) / 2, (), 0, 0) for number, turns in enumerate(samples)
    ]
    with tempfile.TemporaryDirectory() as folder:
        model = drawn_model(Path(folder) / "model", "small" if options.small else "4b", options.device)
        for precision in ("bf16", "nf4"):
            settings = LoraSettings(model=str(model), precision=precision, device=options.device)
            network = Network(settings, Seeds(7))
            room = network.room()
            kept = network._measure()
            trained = sum(parameter.nbytes for parameter in network.parameters())
            weights = sum(parameter.nbytes for parameter in network.base.parameters()) - trained
            if gpu:
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            descent = Descent(network, torch.optim.AdamW(network.parameters()), settings, 1e-5)
            figures = descent.learn([lessons], Loss(), 1)
            most = peak_memory(options.device)
            # The logits of all sampled tokens, by themselves.
            sampled = sum(len(lesson.tokens.sampled) for lesson in lessons)
            head = network.base.get_output_embeddings().weight.detach()
            hidden = torch.randn(sampled, head.shape[1], device=head.device, dtype=head.dtype, requires_grad=True)
            if gpu:
                before = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
            token_logprobs(hidden, head, torch.zeros(sampled, dtype=torch.int64, device=head.device))[
                0
            ].sum().backward()
            results[precision] = {
                "weights": weights / 2**20,
                "adapter, gradients and optimizer": 4 * trained / 2**20,
                "kept a token by estimate, KiB": kept / 2**10,
                "tokens that are expected to fit": room,
                "tokens computed": figures["tokens_computed"],
                "tokens unique": figures["tokens_unique"],
                "most during a step": most,
                "most for the logits": (torch.cuda.max_memory_allocated() - before) / 2**20 if gpu else None,
            }
            del network, descent, head, hidden
            if gpu:
                torch.cuda.empty_cache()
    return results


def vllm(options: argparse.Namespace) -> dict[str, Any]:
    """As a whole training: adapters are swapped at each update, and each side sleeps while the other works."""
    python = os.environ.get("AGENTFW_VLLM_PYTHON", "")
    if not python and importlib.util.find_spec("vllm") is None:
        return {"skipped": "vLLM is not installed: pip install vllm, or name a Python that has it: AGENTFW_VLLM_PYTHON"}
    settings = [f"policy.python={python or sys.executable}", 'policy.arguments=["--enforce-eager"]']
    settings.append("policy.context=1024")
    if options.device == "cuda":
        settings += ["policy.sleep=true", "policy.memory=0.55"]
    return training("vllm", options, settings)


def train(options: argparse.Namespace) -> dict[str, Any]:
    return training("transformers", options, [f"policy.device={options.device}"])


def training(policy: str, options: argparse.Namespace, settings: list[str]) -> dict[str, Any]:
    """`agentfw train` with drawn weights, and what its folder says of each update."""
    precision = "bf16" if options.device == "cuda" else "fp32"
    with tempfile.TemporaryDirectory() as folder:
        model = drawn_model(Path(folder) / "model", "small" if options.small else "1b", options.device)
        settings = [*settings, f"learner.device={options.device}"]
        for side in ("policy", "learner"):
            settings += [f"{side}.precision={precision}", f"{side}.model={model}"]
        words = ["train", *TRAINING, "--policy", policy, "--updates", "1" if options.small else "3"]
        words += ["--runs", f"{folder}/runs", *(word for each in settings for word in ("--set", each))]
        subprocess.run([*AGENTFW, *words], env={"VLLM_CPU_KVCACHE_SPACE": "1", **with_laboratory()}, check=True)
        (journal,) = Path(folder).glob("runs/*/updates.jsonl")
        lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    updates = [
        {name: line.get(part, {}).get(name) for part, names in FIGURES.items() for name in names} for line in lines
    ]
    return {"policy": policy, "updates": updates}


def agreement(options: argparse.Namespace) -> dict[str, Any]:
    size = ["--answers", "4", "--tokens", "8"] if options.small else []
    return real_model.main(["agreement", "--model", options.model, "--precisions", "bf16", "nf4", *size, "--json"])


def additions(precision: str, options: argparse.Namespace) -> dict[str, Any]:
    updates, tasks, samples, problems = ("1", "2", "2", "3") if options.small else ("20", "48", "8", "100")
    size = ["--updates", updates, "--tasks", tasks, "--samples", samples, "--problems", problems, "--seeds", "7"]
    with tempfile.TemporaryDirectory() as work:
        chosen = ["--model", options.model, "--work", work, "--precision", precision]
        return real_model.main(["additions", *chosen, *size, "--json"])


ROWS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "flex": flex,
    "tree_4b": lambda options: tree("4b", options),
    "tree_7b": lambda options: tree("7b", options),
    "memory": memory,
    "vllm": vllm,
    "train": train,
    "agreement": agreement,
    "additions_bf16": lambda options: additions("bf16", options),
    "additions_nf4": lambda options: additions("nf4", options),
}
REAL = ("agreement", "additions_bf16", "additions_nf4")


# -- running them ------------------------------------------------------------------------------------------------------


def run_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A row in a process of its own."""
    command = [sys.executable, __file__, "--rows", name, "--device", options.device, "--inside"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--model", options.model, *["--small"] * options.small],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a row may have started processes of its own
    )
    try:
        printed, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"row": name, "failed": f"it took more than {LIMIT} s"}
    if process.returncode:
        return {"row": name, "failed": f"it ended with {process.returncode}; the error is above"}
    found = json.loads(printed.splitlines()[-1])
    return {"row": name, "wall_seconds": round(time.perf_counter() - began, 1), **found}


def machine(device: str) -> dict[str, str]:
    import torch
    import transformers

    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__, "transformers": transformers.__version__}


def show(value: Any, indent: int = 0) -> None:
    """A figure a line."""
    for key, found in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(found, dict | list) and found:
            print(f"{' ' * indent}{key}")
            show(found, indent + 2)
        else:
            print(f"{' ' * indent}{key:<34}{f'{found:.4g}' if isinstance(found, float) else found}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        small=(False, "small models and few tokens: to see that a row runs"),
        real=(False, "the rows of a pretrained model"),
        model=("", "folder or GGUF file of the pretrained model"),
    )
    parser.add_argument(
        "--rows", nargs="+", choices=ROWS, help="Default: all without a pretrained model, or the others."
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            f"torch {torch.__version__} finds no GPU here\n"
            "fix: install torch for CUDA (docs/guides/gpu.md); or run it in small: --device cpu --small"
        )
    if options.inside:
        with contextlib.redirect_stdout(sys.stderr):
            found = ROWS[options.rows[0]](options)
        print(json.dumps(found))
        return found
    names = options.rows or [name for name in ROWS if (name in REAL) == options.real]
    report = {**machine(options.device), "rows": [run_row(name, options) for name in names]}
    return tell(report, options.json, show)


if __name__ == "__main__":
    main()
