"""Which architectures of transformers can be played with, trained, proven and handed on, and how exactly.

Each is a model of two layers with drawn weights, made from the library's own config class, with windows that are
shorter than the conversations. It goes the whole way on a CPU in fp32, and each step is compared with what others
compute:

    played      answers of the policy `transformers`, 12 at once and one by one: the same to the last bit?
    forward     the largest difference of their logprobs from transformers' own forward pass, in nats
    generate    answers at temperature 0: the tokens of transformers' `generate`?
    tree        the gradients of a step packed as a tree, against one turn per row: the largest relative difference.
                Layers that are neither full nor sliding attention are trained with packing=plain
    proven      whether the version that was trained is proven to be served
    adapter     the largest difference of the learner's logprobs from those of transformers and PEFT with its adapter

    python benchmarks/architectures.py
    python benchmarks/architectures.py --only "Gemma 2" gpt-oss --json
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw import Episode, Message, Request, Task, Turn
from agentfw.errors import AgentfwError
from agentfw.learner import Batch, Scores
from agentfw.optimizer import Advantage, Loss
from agentfw.request import Generation, Sampling
from agentfw.runs.learning.proof import SLIGHT, Proof
from agentfw_benchmarks import Options, make_model, print_markdown, tell

SHAPE: dict[str, Any] = {
    "vocab_size": 384,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 5,
}
WINDOW = 24
MIXED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": WINDOW}
CHUNKED = {
    "layer_types": ["chunked_attention", "full_attention"],
    "attention_chunk_size": WINDOW,
    "no_rope_layers": [1, 0],
}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "Gemma 2": (
        "Gemma2",
        MIXED | {"head_dim": 8, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    ),
    "Gemma 3": ("Gemma3Text", MIXED | {"head_dim": 8}),
    "gpt-oss": ("GptOss", MIXED | {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "Granite": (
        "Granite",
        {"embedding_multiplier": 6.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2, "logits_scaling": 3.0},
    ),
    "Llama 3": ("Llama", {"rope_parameters": LLAMA_3}),
    "Llama 4": ("Llama4Text", {"head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 4} | CHUNKED),
    "Mistral": ("Mistral", {"sliding_window": WINDOW}),
    "Olmo 2": ("Olmo2", {}),
    "Olmo 3": ("Olmo3", MIXED),
    "Phi 2": ("Phi", {}),
    "Phi 3": ("Phi3", {"sliding_window": WINDOW}),
    "Phi 4": ("Phi3", {"partial_rotary_factor": 0.75, "tie_word_embeddings": True}),
    "Qwen 2, 2.5": ("Qwen2", MIXED | {"use_sliding_window": True}),
    "Qwen 2 MoE": ("Qwen2Moe", MIXED | EXPERTS | {"use_sliding_window": True, "shared_expert_intermediate_size": 24}),
    "Qwen 3": ("Qwen3", MIXED | {"head_dim": 8, "use_sliding_window": True}),
    "Qwen 3 MoE": ("Qwen3Moe", EXPERTS | {"head_dim": 8, "use_sliding_window": True, "sliding_window": WINDOW}),
    "Qwen 3 Next": ("Qwen3Next", EXPERTS | LINEAR | {"head_dim": 8, "shared_expert_intermediate_size": 24}),
    "SmolLM 2": ("Llama", {"tie_word_embeddings": True}),
    "SmolLM 3": ("SmolLM3", {"no_rope_layers": [1, 0], "use_sliding_window": True, "sliding_window": WINDOW}),
}
NONE_OWN: dict[str, dict[str, Any]] = {"Phi": {"num_key_value_heads": 4}}
"""What an architecture can't have."""


def model_of(title: str, folder: Path) -> Path:
    """A folder with a tokenizer, a chat template and drawn weights, also of biases, norms and sinks."""
    import torch
    import transformers

    make_model(folder, weights=False)
    name, changes = ARCHITECTURES[title]
    shape = SHAPE | changes | NONE_OWN.get(name, {})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**shape)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.data += torch.randn(parameter.shape) * 0.2
    model.save_pretrained(folder)
    return folder


def measure(title: str, home: Path) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    model = model_of(title, home / "model")
    row: dict[str, Any] = {"architecture": title, "class": f"{ARCHITECTURES[title][0]}ForCausalLM"}
    try:
        if packing(model) == "tree":
            row |= gradients_apart(model)
        row |= asyncio.run(gone_through(model, home))
    except AgentfwError as error:
        row["refused"] = str(error)
    return row


def packing(model: Path) -> str:
    """A tree, unless the model has layers that can't be packed as one."""
    import transformers

    from agentfw_plugins.models import other_layers

    return "plain" if other_layers(transformers.AutoConfig.from_pretrained(model)) else "tree"


# -- playing, training, proving ----------------------------------------------------------------------------------------


def requests(count: int, **sampling: Any) -> list[Request]:
    found = []
    for number in range(count):
        draw = random.Random(number)
        said = " ".join(draw.choice(["tea", "coffee", "mint", "round", "guest"]) for _ in range(draw.randint(1, 60)))
        messages = [Message("system", "Serve what they like. " * (number % 3 * 4 + 1)), Message("user", said)]
        settings = Sampling(**{"temperature": 1.0, "max_tokens": 20, "seed": 7} | sampling)
        found.append(Request(messages, sampling=settings, task=Task(number, seed=1)))
    return found


async def gone_through(model: Path, home: Path) -> dict[str, Any]:
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    policy = TransformersPolicy(TransformersSettings(model=str(model), device="cpu", batch=16))
    settings = LoraSettings(model=str(model), device="cpu", learning_rate=1e-3, packing=packing(model))
    learner = LoraLearner(settings)
    learner.open(home / "learner")

    async def asked(probes: Any, base: bool) -> Scores:
        return learner.score([(probe.prompt_ids, probe.token_ids) for probe in probes], base=base)

    try:
        together = await asyncio.gather(*(policy.generate(one) for one in requests(12)))
        alone = [await policy.generate(one) for one in requests(12)]
        greedy = [await policy.generate(one) for one in requests(4, temperature=0.0)]
        row = played(model, together, alone, greedy)

        episodes = [
            Episode(
                Task(number // 4, 7, sample=number % 4),
                turns=[Turn(0, 0, 1, prompt_ids=one.prompt_ids, token_ids=one.token_ids, logprobs=one.logprobs)],
            )
            for number, one in enumerate(together)
        ]
        proof = Proof(policy, asked, SLIGHT)
        await proof.begin(Evaluation(episodes))  # type: ignore[arg-type]
        advantages = [Advantage(episode.id, 0, 1.0 - 2 * (number % 2)) for number, episode in enumerate(episodes)]
        update = learner.update(Batch(episodes, advantages, Loss(), home / "learner" / "1"))
        assert update is not None
        await policy.publish(update.adapter, update.version)
        row["proven"] = (await proof.prove())["proven"] == 1
        row["adapter"] = adapter_apart(model, update.adapter, learner, together)
    finally:
        learner.close()
        await policy.close()
    return row


class Evaluation:
    """A first evaluation, as the proof reads it."""

    def __init__(self, found: Sequence[Episode]) -> None:
        self._found = found

    def episodes(self) -> Sequence[Episode]:
        return self._found


def played(
    model: Path, together: Sequence[Generation], alone: Sequence[Generation], greedy: Sequence[Generation]
) -> dict[str, Any]:
    """The policy's answers against transformers' own model."""
    import torch
    import transformers

    own = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    same = all(
        (one.token_ids, one.logprobs) == (other.token_ids, other.logprobs)
        for one, other in zip(together, alone, strict=True)
    )
    generated = []
    for answer in greedy:
        prompt = torch.tensor([answer.prompt_ids])
        said = own.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=len(answer.token_ids),
            do_sample=False,
        )[0, prompt.shape[1] :]
        generated.append(tuple(said.tolist()) == tuple(answer.token_ids))
    return {
        "played": same,
        "longest": max(len(one.prompt_ids) + len(one.token_ids) for one in together),
        "forward": max(apart(own, one.prompt_ids, one.token_ids, one.logprobs) for one in together),
        "generate": all(generated),
    }


def adapter_apart(model: Path, adapter: Path, learner: Any, answers: Sequence[Generation]) -> float:
    import torch
    import transformers
    from peft import PeftModel

    own = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    tuned = PeftModel.from_pretrained(own, adapter).eval()
    return max(
        apart(tuned, one.prompt_ids, one.token_ids, learner.logprobs(one.prompt_ids, one.token_ids)) for one in answers
    )


def apart(model: Any, prompt: Sequence[int], answer: Sequence[int], logprobs: Sequence[float]) -> float:
    """The largest difference of these logprobs from the model's own."""
    import torch

    row = torch.tensor([[*prompt, *answer]])
    with torch.no_grad():
        found = model(row).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
    theirs = found.gather(-1, row[0, len(prompt) :, None])[:, 0]
    return float((theirs - torch.tensor(logprobs)).abs().max())


# -- a tree against one turn per row -----------------------------------------------------------------------------------


def gradients_apart(model: Path) -> dict[str, float]:
    """The gradients of all adapter weights, of turns that share much, little and nothing."""
    draw = random.Random(0)
    start = [draw.randrange(6, 380) for _ in range(60)]
    turns = [(start, draw.choices(range(6, 380), k=draw.randint(5, 40))) for _ in range(5)]
    turns += [([*start, *turns[0][1], 9, 9], draw.choices(range(6, 380), k=30)) for _ in range(3)]
    turns += [(start[:20], [7, 8, 9, *start[:40]]), (start[30:], start[:9])]
    (tree, packed), (plain, padded) = (gradients(model, turns, way) for way in ("tree", "plain"))
    worst = max(float((one - other).norm() / other.norm()) for one, other in zip(tree, plain, strict=True))
    return {"tree": worst, "computed": packed / padded}


def gradients(model: Path, turns: Sequence[Any], way: str) -> tuple[list[Any], float]:
    import torch

    from agentfw.seeds import Seeds
    from agentfw_plugins.learners.descent import Descent
    from agentfw_plugins.learners.lessons import Lesson
    from agentfw_plugins.learners.network import Network
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.learners.token_tree import TurnTokens

    settings = LoraSettings.model_validate({"model": str(model), "device": "cpu", "packing": way, "gradient_clip": 1e9})
    network = Network(settings, Seeds(7))
    with torch.no_grad():  # else the second half of each adapter is zero, and so the first half's gradient
        for number, parameter in enumerate(network.parameters()):
            generator = torch.Generator().manual_seed(number)
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    found: list[Any] = []

    class Watched(torch.optim.SGD):
        """Keeps the gradients, and takes no step."""

        def step(self, closure: Any = None) -> None:
            found.extend(each.grad.clone() for each in network.parameters() if each.grad is not None)

    lessons = [
        Lesson(TurnTokens(*turn), 1.0 - number % 3, (-1.0,) * len(turn[1]), 0, number)
        for number, turn in enumerate(turns)
    ]
    figures = Descent(network, Watched(network.parameters(), lr=1.0), settings, 1.0).learn([lessons], Loss(), 1)
    return found, figures["tokens_computed"]


# -- the table ---------------------------------------------------------------------------------------------------------


def show(report: dict[str, Any]) -> None:
    heads = ["architecture", "class", "played", "forward", "`generate`", "tree", "proven", "adapter"]
    rows = []
    for row in report["rows"]:
        if "refused" in row:
            rows.append([row["architecture"], row["class"], row["refused"], "", "", "", "", ""])
            continue
        rows.append(
            [
                row["architecture"],
                f"`{row['class']}`",
                "equal" if row["played"] else "differs",
                f"{row['forward']:.0e}",
                "equal" if row["generate"] else "differs",
                f"{row['tree']:.0e}" if "tree" in row else "`packing=plain`",
                "yes" if row["proven"] else "no",
                f"{row['adapter']:.0e}",
            ]
        )
    print_markdown(heads, rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--only", nargs="+", default=list(ARCHITECTURES), choices=ARCHITECTURES, help="architectures")
    options = parser.parse_args(arguments)
    rows = []
    with contextlib.redirect_stdout(sys.stderr):
        for title in options.only:
            with tempfile.TemporaryDirectory() as home:
                rows.append(measure(title, Path(home)))
            print(f"{title} is done", file=sys.stderr)
    return tell({"rows": rows}, options.json, show)


if __name__ == "__main__":
    main()
