"""Each fault of publishing, made to happen with a real model, is called by its name.

What the learner says is computed by transformers and PEFT alone: whatever the policy does wrong, they don't.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import own_logprobs

from agentfw.episode import Message
from agentfw.errors import AgentfwError
from agentfw.policy import Request, Sampling
from agentfw.runs.proof import Probe, arithmetic, check

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from agentfw_plugins.models import load_base  # noqa: E402
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings  # noqa: E402

Make = Callable[..., Path]


@dataclass
class Training:
    """A base, two versions, a probe, and what a learner thinks of it."""

    model: Path
    first: Path
    second: Path
    probe: Probe
    base: Sequence[float]
    previous: Sequence[float]
    newest: Sequence[float]
    noise: float

    def check(self, served: Sequence[float]) -> bool:
        return check(served, self.newest, self.base, self.previous, self.noise)


def changed(adapter: Path, folder: Path, change: Callable[[str, Any], Any]) -> Path:
    from safetensors.torch import load_file, save_file

    shutil.copytree(adapter, folder)
    weights = folder / "adapter_model.safetensors"
    save_file({name: change(name, one) for name, one in load_file(weights).items()}, weights, {"format": "pt"})
    return folder


def learner(model: Path, adapter: Path | None, probe: Probe) -> list[float]:
    from peft import PeftModel

    loaded: Any = load_base(model, "fp32", "cpu")
    if adapter is not None:
        loaded = PeftModel.from_pretrained(loaded, adapter)
    return own_logprobs(loaded, probe.prompt_ids, probe.token_ids)


def served(model: Path, probe: Probe, *adapters: Path) -> Sequence[float]:
    """What a policy thinks to which these adapters were published, one after the other."""

    async def use() -> Sequence[float]:
        policy = TransformersPolicy(TransformersSettings(model=str(model), device="cpu"))
        try:
            for adapter in adapters:
                await policy.publish(adapter, adapter.name)
            return await policy.logprobs(probe.prompt_ids, probe.token_ids)
        finally:
            await policy.close()

    return asyncio.run(use())


@pytest.fixture(
    scope="module",
    params=[pytest.param(0.1, marks=pytest.mark.nightly), 0.003],
    ids=["large", "careful"],
)
def training(
    request: pytest.FixtureRequest, make_model: Make, make_adapter: Make, tmp_path_factory: pytest.TempPathFactory
) -> Training:
    """Two updates of a size: from half a nat a token, as after a long training, to a thousandth, a first step."""
    folder = tmp_path_factory.mktemp("training")
    model = make_model(folder / "model")
    first = make_adapter(model, folder / "first", seed=1, scale=request.param * 0.6)
    generator = torch.Generator().manual_seed(2)
    scale = request.param * 0.3
    second = changed(
        first, folder / "second", lambda name, one: one + torch.randn(one.shape, generator=generator) * scale
    )

    async def sample() -> tuple[Probe, Sequence[float]]:
        policy = TransformersPolicy(TransformersSettings(model=str(model), device="cpu"))
        asked = Request([Message("user", "the guest would like green tea")], sampling=Sampling(max_tokens=48, seed=1))
        answer = await policy.generate(asked)
        await policy.close()
        return Probe(answer.prompt_ids, answer.token_ids), answer.logprobs

    probe, sampled = asyncio.run(sample())
    base, previous, newest = (learner(model, adapter, probe) for adapter in (None, first, second))
    return Training(model, first, second, probe, base, previous, newest, arithmetic(sampled, base))


def test_what_was_published_is_proven_and_each_fault_of_it_is_called_by_its_name(
    training: Training, make_model: Make, tmp_path: Path
) -> None:
    from peft import PeftModel

    def lacking(part: str) -> Path:
        return changed(
            training.second, tmp_path / part, lambda name, one: torch.zeros_like(one) if part in name else one
        )

    other = make_model(tmp_path / "other", seed=5)

    assert training.check(served(training.model, training.probe, training.first, training.second))
    for model, adapters, fault in (
        (training.model, (training.second, training.first), "the previous version: its adapter is stale"),
        (training.model, (lacking("layers.1"),), "a part of"),
        (training.model, (lacking("down_proj"),), "a part of"),
        (other, (training.second,), "another model|neither the newest version"),
    ):
        with pytest.raises(AgentfwError, match=fault):
            training.check(served(model, training.probe, *adapters))
    with pytest.raises(AgentfwError, match="before anything was learned"):
        arithmetic(served(other, training.probe), training.base)
    # The last one, because who loads a model shares its weights.
    merged = shutil.copytree(training.model, tmp_path / "merged")
    tuned = PeftModel.from_pretrained(load_base(training.model, "fp32", "cpu"), training.second)
    tuned.merge_and_unload().save_pretrained(merged)
    with pytest.raises(AgentfwError, match="applies it twice"):
        training.check(served(merged, training.probe, training.second))
