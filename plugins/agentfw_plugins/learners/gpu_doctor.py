"""`agentfw doctor gpu`: what the GPU of this machine does for a training, row by row, in about five minutes.

Each row is a process of its own: one that fails or takes too long says so, and the others go on. The weights of models
are drawn here, so no network is needed.

    python -m agentfw_plugins.learners.gpu_doctor flex cpu     # one row, in small
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from agentfw.engine import found_cards
from agentfw.errors import SettingsError, UsageError

from ..models import choose_device, locate
from ..models.base import LayerAttention
from ..models.checkpoint import OWN_CODE

Row = dict[str, Any]
_LIMIT = 240  # seconds of one row on a GPU


class Sizes(NamedTuple):
    """How large the drawn models and trees are."""

    config: dict[str, int]
    vocabulary: int
    trees: Sequence[tuple[int, int]]  # tokens of the prompt, and of each of eight answers
    heads: tuple[int, int, int]
    copied: int  # MiB


_LARGE = Sizes(
    {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    128_256,
    [(500, 100), (3000, 300), (4000, 500)],
    (32, 8, 128),
    1024,
)
_SMALL = Sizes({}, 3136, [(60, 10), (200, 30)], (4, 2, 16), 8)  # on a CPU, where only whether a row runs is of interest


def examine(rows: Sequence[str] = (), device: str = "cuda") -> Iterator[Row]:
    """The rows, each as it ends. Raises a SettingsError where there is no GPU that torch can use."""
    if unknown := sorted(set(rows) - ROWS.keys()):
        raise UsageError(f"there is no row {unknown[0]}", fix=f"known rows: {', '.join(ROWS)}")
    if device != "cpu":
        if not found_cards():
            raise SettingsError("this machine has no GPU", fix="run it where there is one; trainings work on CPUs, too")
        choose_device("cuda")
    for name in rows or ROWS:
        began = time.perf_counter()
        words = [sys.executable, "-m", __name__, name, device]
        try:
            limit = None if device == "cpu" else _LIMIT
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            yield {"row": name, "failed": f"it took more than {_LIMIT} s"}
            continue
        told: Row = {"failed": (done.stderr.strip().splitlines() or ["it said nothing"])[-1]}
        if not done.returncode:
            told = json.loads(done.stdout.splitlines()[-1])
        yield {"row": name, **told, "seconds": round(time.perf_counter() - began, 1)}


# -- the rows ----------------------------------------------------------------------------------------------------------


def _card(device: str, sizes: Sizes) -> Row:
    import torch
    import transformers

    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "transformers": transformers.__version__}
    versions |= {name: bool(find_spec(name)) for name in ("triton", "bitsandbytes", "vllm")}
    if device == "cpu":
        return {"card": "none", **versions}
    about = torch.cuda.get_device_properties(0)
    return {"card": about.name, "GB": round(about.total_memory / 1e9, 1), **versions}


def _copies(device: str, sizes: Sizes) -> Row:
    """How fast memory is copied between the machine and the card, pinned and not, in GB a second."""
    import torch

    figures: Row = {}
    for pinned in (False, True) if device != "cpu" else (False,):
        here = torch.empty(sizes.copied << 20, dtype=torch.uint8, pin_memory=pinned)
        there = torch.empty_like(here, device=device)
        for name, to, source in (("to the card", there, here), ("from the card", here, there)):
            seconds = _seconds(partial(to.copy_, source), device)
            figures[f"{name}{', pinned' if pinned else ''}"] = round(here.nbytes / 1e9 / seconds, 2)
    return figures


def _flex(device: str, sizes: Sizes) -> Row:
    """Attention of token trees, forward and backward in bf16, beside that of rows in fp32."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    from . import tree_flex
    from .token_tree import TurnTokens, pack

    backward = device != "cpu"
    if not backward:  # torch has no backward pass of it for CPUs, and takes a minute to compile a forward one
        setattr(tree_flex, "_compiled", partial(torch.compile, flex_attention, dynamic=False, backend="eager"))  # noqa: B010
    heads, key_heads, width = sizes.heads
    rows, seconds = [], 0.0
    for prompt, answer in sizes.trees:
        turns = [TurnTokens(range(prompt), (10**6 + number, *range(answer - 1))) for number in range(8)]
        (packed,) = pack(turns, 1 << 20)
        whole, count, ends = tree_flex.FlexTree(packed, device), packed.computed, packed.subtree_ends
        drawn = [torch.randn((1, many, count, width), device=device) for many in (heads, key_heads, key_heads)]
        upstream = torch.randn_like(drawn[0])
        # A token sees itself and those on the way to it.
        places = torch.arange(count, device=device)
        seen = (places[:, None] >= places) & (places[:, None] < torch.as_tensor(ends, device=device))

        def attended(dtype: Any, attend: Callable[..., Any], drawn: Any = drawn, upstream: Any = upstream) -> list[Any]:
            parts = [part.to(dtype).requires_grad_(backward) for part in drawn]
            output = attend(*parts)
            return [output, *(torch.autograd.grad(output, parts, upstream.to(dtype)) if backward else ())]

        attention = torch.nn.functional.scaled_dot_product_attention
        by_mask = partial(attention, attn_mask=seen, scale=width**-0.5, enable_gqa=True)
        by_tree = partial(whole.attend, layer=LayerAttention(width**-0.5))
        exact, tree = attended(torch.float32, by_mask), attended(torch.bfloat16, by_tree)
        names = ("output", "query", "key", "value")
        gaps = [float((a.float() - b.float()).norm() / b.float().norm()) for a, b in zip(tree, exact, strict=True)]
        rows.append({"tokens": count, **{name: round(gap, 5) for name, gap in zip(names, gaps, strict=False)}})
        seconds = _seconds(partial(attended, torch.bfloat16, by_tree), device)
    return {"backward": backward, "apart from fp32": rows, "the last, s": round(seconds, 4)}


def _step(device: str, sizes: Sizes) -> Row:
    """A training step of a model with drawn weights, in bf16 and in 4 bits: time and memory.

    Before it, the learner's logprobs are compared with those of the model's own forward pass.
    """
    import torch

    from agentfw.optimizer import Loss
    from agentfw.seeds import Seeds

    from .descent import Descent, make_optimizer, peak_memory
    from .lessons import Lesson
    from .network import Network
    from .settings import LoraSettings
    from .token_tree import TurnTokens

    prompt, answer = sizes.trees[-1]
    draw = Seeds(7).numpy("doctor")
    shared = draw.integers(5, sizes.vocabulary, prompt).tolist()
    figures: Row = {}
    with tempfile.TemporaryDirectory() as folder:
        model = _drawn(Path(folder) / "model", device, sizes, sizes.vocabulary)
        for precision in ("bf16", "nf4"):
            network = Network(LoraSettings(model=str(model), precision=precision, device=device), Seeds(7))
            descent = Descent(network, make_optimizer(network), network.settings, 1e-5)
            lessons = [
                Lesson(TurnTokens(shared, draw.integers(5, sizes.vocabulary, answer).tolist()), value, (), 0, 0)
                for value in (-1.0, -0.5, 0.5, 1.0)
            ]
            descent.learn([lessons], Loss(), 1)  # what is compiled, is compiled here
            began = time.perf_counter()
            told = descent.learn([lessons], Loss(), 1)
            seconds = time.perf_counter() - began
            figures[precision] = {
                "tokens a second": round(told["tokens_computed"] / seconds),
                "seconds": round(seconds, 2),
                "peak MiB": round(peak_memory(device)),
                "tokens that would fit": network.room(),
            }
            del network, descent
            if device != "cpu":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
    return figures


def _train(device: str, sizes: Sizes) -> Row:
    """A training of three updates with the policy `transformers`."""
    return _training(device, sizes, ["--policy", "transformers", "--set", f"policy.device={device}"])


def _vllm(device: str, sizes: Sizes) -> Row:
    """The same with vLLM, its graphs, adapters and sleep."""
    python = os.environ.get("AGENTFW_VLLM_PYTHON", "")
    if not python and find_spec("vllm") is None:
        return {"skipped": "vLLM isn't installed; pip install vllm, or name a Python that has it: AGENTFW_VLLM_PYTHON"}
    return _training(device, sizes, ["--policy", "vllm", "--set", f"policy.python={python}"])


ROWS = {row.__name__[1:]: row for row in (_card, _copies, _flex, _step, _train, _vllm)}

# -- what they share ---------------------------------------------------------------------------------------------------

_REWARD = '''def short(completion, **columns):
    """An answer is the better the shorter it is."""
    return 1.0 / (1.0 + len(str(completion)))
'''


def _training(device: str, sizes: Sizes, policy: Sequence[str]) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        # Only tokens that the tokenizer knows can be sampled.
        model = _drawn(home / "model", device, sizes, 0)
        (home / "reward.py").write_text(_REWARD, "utf-8")
        asked = [json.dumps({"prompt": f"Tell me about meeting {number}."}) for number in range(8)]
        (home / "tasks.jsonl").write_text("\n".join(asked) + "\n", "utf-8")
        words = ["train", str(home / "tasks.jsonl"), "--model", str(model), "--reward", f"{home}/reward.py:short"]
        many, longest = (8, 128) if sizes is _LARGE else (2, 8)
        given = [f"samples={many}", f"tasks={many}", f"evaluation.tasks={many}", "evaluation.every=100"]
        given += [f"sampling.max_tokens={longest}"]
        words += ["--updates", "3", "--runs", str(home / "runs"), "--quiet", *policy]
        words += [word for each in [*given, f"learner.device={device}"] for word in ("--set", each)]
        done = subprocess.run([sys.executable, "-m", "agentfw", *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(" ".join(done.stderr.split())[-400:])
        (journal,) = home.glob("runs/*/updates.jsonl")
        lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    last = lines[-1]
    return {
        "updates": len(lines),
        "proven": all(line.get("served", {}).get("proven") for line in lines),
        "seconds of the last": {name: round(value, 2) for name, value in last.get("seconds", {}).items()},
        "mismatch": lines[0].get("learner", {}).get("mismatch"),
        "speed": {name: round(float(value), 1) for name, value in last.get("speed", {}).items()},
    }


def _drawn(folder: Path, device: str, sizes: Sizes, vocabulary: int) -> Path:
    """A model with the tokenizer of `tiny` and drawn weights: bf16 on a GPU, fp32 on a CPU."""
    import torch
    import transformers

    tiny = locate("tiny")
    config = transformers.AutoConfig.from_pretrained(tiny, **OWN_CODE)
    config.update({**sizes.config, **({"vocab_size": vocabulary} if vocabulary else {})})
    torch.manual_seed(0)
    with torch.device(device):
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
        transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).save_pretrained(folder)
    for file in tiny.glob("*"):
        if file.name not in ("config.json", "model.safetensors"):
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def _seconds(run: Callable[[], object], device: str) -> float:
    """The median of five runs, after a first one that doesn't count."""
    import torch

    def waited() -> None:
        run()
        if device != "cpu":
            torch.cuda.synchronize()

    return statistics.median(timeit.repeat(waited, number=1, repeat=6)[1:])


if __name__ == "__main__":
    row, on = sys.argv[1:]
    print(json.dumps(ROWS[row](on, _SMALL if on == "cpu" else _LARGE)))
