"""What holds on which processor: answers that don't depend on their neighbours, and four bits that are one model.

    python benchmarks/processors.py
    python benchmarks/processors.py --price --json

Processors differ in the kernels that libraries choose on them. Each variant that can be imitated here runs in a process
of its own:

    as it is            this processor
    two threads         the same, with two threads
    without AVX-512     PyTorch and oneDNN are told that there is AVX2 only
    without AVX2        PyTorch and oneDNN are told that there is neither
    as Intel for MKL    MKL takes the kernels that it reserves for Intel's processors (needs a C compiler)
    numpy as on ...     numpy's OpenBLAS takes the kernels of such a processor, with two threads

For each one: are answers that are generated alone equal to the same answers generated among others, to the last bit;
is the same true of `tiny`, which numpy computes, also with one thread of OpenBLAS; and how far are the logprobs of a
four-bit policy from those of the learner that trains it.

`--price` times generation with MKL's strict order of adding against MKL left to itself, and four bits as agentfw
computes them against the kernel that bitsandbytes would take on a processor with AVX-512 BF16. Sides take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, answer_of, make_model, print_aligned, ratio_span, tell

VARIANTS: dict[str, dict[str, str]] = {
    "as it is": {},
    "two threads": {"OMP_NUM_THREADS": "2"},
    "without AVX-512": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "without AVX2": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "as Intel for MKL": {"LD_PRELOAD": "{shim}"},
    "numpy as on SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX", "OPENBLAS_NUM_THREADS": "2"},
    "numpy as on Haswell": {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "2"},
    "numpy as on Nehalem": {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "2"},
}
INSTRUCTIONS = {"SkylakeX": {"X86_V4", "AVX512_SKX"}, "Haswell": {"X86_V3", "AVX2"}, "Nehalem": {"X86_V2", "SSE42"}}
"""What these kernels of OpenBLAS need of a processor, by the names of new and of older versions of numpy."""
SHIM = "int mkl_serv_intel_cpu_true(void) { return 1; }\nint mkl_serv_intel_cpu(void) { return 1; }\n"
SHAPE = {"hidden_size": 64, "intermediate_size": 160}
TIMED_SHAPE = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4, "num_attention_heads": 8}


def can_imitate(variant: str) -> bool:
    if variant == "as Intel for MKL":
        return sys.platform == "linux" and shutil.which("cc") is not None
    kernels = VARIANTS[variant].get("OPENBLAS_CORETYPE")
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]
    return kernels is None or not INSTRUCTIONS[kernels].isdisjoint((*extensions["baseline"], *extensions["found"]))


def imitate(variant: str, folder: Path) -> dict[str, str]:
    """The environment of a process on this kind of processor."""
    chosen = dict(VARIANTS[variant])
    if "LD_PRELOAD" in chosen:
        source, shim = folder / "shim.c", folder / "shim.so"
        source.write_text(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source], check=True)
        chosen["LD_PRELOAD"] = str(shim)
    # Without it the parent's own order of adding would come along.
    inherited = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    return {"OMP_NUM_THREADS": "1", **inherited, "HF_HUB_OFFLINE": "1", **chosen}


# -- what a process of its own does ------------------------------------------------------------------------------------


def requests(count: int, length: int) -> list[Any]:
    from agentfw import Message, Request, Task
    from agentfw.request import Sampling

    found = []
    for number in range(count):
        draw = random.Random(number)
        said = " ".join(draw.choice(["tea", "coffee", "mint", "round", "guest"]) for _ in range(draw.randint(1, 120)))
        messages = [Message("system", "Serve what they like. " * (number % 3 * 10 + 1)), Message("user", said)]
        found.append(Request(messages, sampling=Sampling(1.0, 1.0, length, seed=7), task=Task(number, seed=1)))
    return found


def answers(model: str, batch: int, asked: Sequence[Any], **settings: Any) -> list[Any]:
    """All at once where there is room for that, else one after the other."""
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    policy = TransformersPolicy(TransformersSettings(model=model, device="cpu", batch=batch, **settings))
    return asyncio.run(answers_of(policy, batch, asked))


def answers_of_tiny(batch: int, asked: Sequence[Any]) -> list[Any]:
    from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings

    return asyncio.run(answers_of(TinyPolicy(TinySettings(batch=batch)), batch, asked))


async def answers_of(policy: Any, batch: int, asked: Sequence[Any]) -> list[Any]:
    try:
        if batch == 1:
            return [await policy.generate(one) for one in asked]
        return await asyncio.gather(*(policy.generate(one) for one in asked))
    finally:
        await policy.close()


def check(model: str) -> dict[str, Any]:
    """Neighbours, `tiny`, and four bits with and without a gradient."""
    from threadpoolctl import threadpool_limits

    asked = requests(24, 12)
    alone, among = (answers(model, batch, asked) for batch in (1, 64))
    small_alone, small_among = (answers_of_tiny(batch, asked) for batch in (1, 64))
    with threadpool_limits(1, user_api="blas"):
        one_thread = answers_of_tiny(64, asked)
    return {
        "neighbours apart": apart(alone, among),
        "tiny apart": max(apart(small_alone, small_among), apart(small_among, one_thread)),
        "four bits apart": four_bits_apart(model),
    }


def apart(some: Sequence[Any], others: Sequence[Any]) -> float:
    """The largest difference between logprobs of the same answers; infinite if an answer is another one."""
    most = 0.0
    for one, other in zip(some, others, strict=True):
        if one.token_ids != other.token_ids:
            return float("inf")
        most = max(most, *(abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=True)))
    return most


def four_bits_apart(model: str) -> float:
    """The largest difference between a policy's logprobs and its learner's, in nf4."""
    import torch

    from agentfw.seeds import Seeds
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.learners.token_tree import TurnTokens

    (said,) = answers(model, 2, requests(1, 40), precision="nf4")
    network = Network(LoraSettings(model=model, precision="nf4", device="cpu"), Seeds(7))
    (packed,) = network.pack([TurnTokens(said.prompt_ids, said.token_ids)])
    with torch.enable_grad():
        trained = network.logprobs(packed)[0].tolist()
    return max(abs(a - b) for a, b in zip(said.logprobs, trained, strict=True))


def speed(model: str, precision: str, *, own_kernel: bool) -> float:
    """Tokens a second."""
    if not own_kernel:
        from agentfw_plugins.models import base

        base.use_one_four_bit_kernel = lambda model: None
    asked = requests(16, 32)
    answers(model, 16, asked[:2], precision=precision)
    began = time.perf_counter()
    made = answers(model, 16, asked, precision=precision)
    return sum(len(answer.token_ids) for answer in made) / (time.perf_counter() - began)


# -- putting it together -----------------------------------------------------------------------------------------------


def price(model: Path, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Ratios of speed within a repetition: the median, the least and the largest."""
    rows = []
    sides = {
        "strict order, this processor": ("as it is", "fp32", {"MKL_CBWR": "OFF"}, "own"),
        "strict order, as Intel for MKL": ("as Intel for MKL", "fp32", {"MKL_CBWR": "OFF"}, "own"),
        "four bits, against bitsandbytes' kernel": ("as it is", "nf4", {}, "theirs"),
    }
    for title, (variant, precision, change, kernel) in sides.items():
        if not can_imitate(variant):
            continue
        environment = imitate(variant, folder)
        ours, theirs = list[float](), list[float]()
        for _ in range(repeats):
            ours.append(answer_of(__file__, "--speed", precision, "own", model, environment=environment))
            changed = environment | change
            theirs.append(answer_of(__file__, "--speed", precision, kernel, model, environment=changed))
            print(f"{title}: {ours[-1]:.0f} against {theirs[-1]:.0f} tokens/s", file=sys.stderr)
        rows.append({"what": title, "ratio": ratio_span(ours, theirs)})
    return rows


def show(report: dict[str, Any]) -> None:
    rows = []
    for row in report["rows"]:
        found = [f"{far:.1e} apart" if far else "equal" for far in (row["neighbours apart"], row["tiny apart"])]
        rows.append([row["processor"], *found, f"{row['four bits apart']:.1e}"])
    print_aligned(["processor", "alone and among others", "tiny", "four bits apart"], rows)
    for row in report["price"]:
        print("{0:<42}{2:.2f} [{1:.2f}, {3:.2f}] of the speed".format(row["what"], *row["ratio"]))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, price=(False, "also time what the promises cost"), repeats=5)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--check", default="", help=argparse.SUPPRESS)
    parser.add_argument("--speed", nargs=3, default=(), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.check:
        print(json.dumps(check(options.check)))
        return {}
    if options.speed:
        precision, kernel, model = options.speed
        print(json.dumps(speed(model, precision, own_kernel=kernel == "own")))
        return {}
    report: dict[str, Any] = {"rows": [], "price": []}
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(sys.stderr):
        folder = Path(name)
        model = make_model(folder / "model", **SHAPE)
        for variant in filter(can_imitate, options.variants):
            found = answer_of(__file__, "--check", model, environment=imitate(variant, folder))
            report["rows"].append({"processor": variant, **found})
        if options.price:
            report["price"] = price(make_model(folder / "timed", **TIMED_SHAPE), folder, options.repeats)
    return tell(report, options.json, show)


if __name__ == "__main__":
    main()
