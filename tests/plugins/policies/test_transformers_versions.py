"""A model in this process gets other weights: adapters, whole models, and what isn't one of them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import make, request, together, using

from agentfw.errors import AgentfwError, SettingsError
from agentfw.policy import Generation

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from safetensors.torch import load_file, save_file  # noqa: E402

from agentfw_plugins.models import load_base  # noqa: E402
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy  # noqa: E402

Make = Callable[..., Path]


def test_adapters_beside_each_other_answer_as_if_alone_and_have_one_base(
    small_model: Path, make_adapter: Make, tmp_path: Path
) -> None:
    adapters = [make_adapter(small_model, tmp_path / f"adapter{n}", seed=n) for n in (1, 2)]
    asked = [request(n, max_tokens=10, temperature=1.0) for n in range(4)]
    broken = Path(shutil.copytree(adapters[0], tmp_path / "broken"))
    tensors = load_file(broken / "adapter_model.safetensors")
    save_file({name: tensor * float("nan") for name, tensor in tensors.items()}, broken / "adapter_model.safetensors")

    async def alone(policy: TransformersPolicy, adapter: Path) -> list[Generation]:
        return await together(await policy.beside(adapter, "alone"), asked)

    async def mixed(policy: TransformersPolicy) -> tuple[list[list[Generation]], int]:
        others = [await policy.beside(adapter, f"v{n}+ana") for n, adapter in enumerate(adapters, 1)]
        faulty = await policy.beside(broken, "faulty")
        fails = asyncio.create_task(faulty.generate(asked[0]))
        found = await asyncio.gather(*(together(one, asked) for one in (policy, *others)))
        with pytest.raises(AgentfwError, match="the model's logits are NaN"):  # and nobody else's answer fails with it
            await fails
        await faulty.close()
        weights = {
            one.data_ptr(): one.nbytes
            for each in (policy, *others)
            for one in (await asyncio.wrap_future(each._engine.call(each._engine.model))).parameters()
        }
        await others[0].close()
        assert [one.token_ids for one in await together(others[1], asked)] == [one.token_ids for one in found[2]]
        return found, sum(weights.values())

    found, size = using(make(small_model), mixed)
    expected = [using(make(small_model), partial(alone, adapter=adapter)) for adapter in adapters]
    merged = using(make(small_model, adapter=str(adapters[0])), lambda policy: together(policy, asked))

    assert [one.version for one in (found[0][0], found[1][0], found[2][0])] == [str(small_model), "v1+ana", "v2+ana"]
    for mine, theirs in zip(found[1:], expected, strict=True):
        assert [(one.token_ids, one.logprobs) for one in mine] == [(one.token_ids, one.logprobs) for one in theirs]
    for beside, its in zip(found[1], merged, strict=True):
        assert beside.token_ids == its.token_ids
        assert list(beside.logprobs) == pytest.approx(list(its.logprobs), abs=1e-4)
    alone_size = sum(one.nbytes for one in load_base(small_model, "fp32", "cpu").parameters())
    files = sum((adapter / "adapter_model.safetensors").stat().st_size for adapter in adapters)
    assert size <= alone_size + files


def test_an_adapter_of_the_settings_answers_as_a_published_one(
    small_model: Path, make_model: Make, make_adapter: Make, tmp_path: Path
) -> None:
    adapter = make_adapter(small_model, tmp_path / "adapter", seed=1)
    ask = request(3, max_tokens=10, temperature=1.0)

    base = load_base(small_model, "fp32", "cpu")
    before = [weight.clone() for weight in base.parameters()]

    async def publish(policy: TransformersPolicy) -> Generation:
        await policy.generate(ask)  # nothing of which is of use for what is published
        await policy.publish(adapter, "adapter")
        return await policy.generate(ask)

    expected = using(make(small_model), publish)

    assert using(make(small_model, adapter=str(adapter)), lambda policy: policy.generate(ask)) == expected
    assert all(map(torch.equal, base.parameters(), before)), "whoever else has loaded the base keeps it"
    whole = make_model(tmp_path / "whole", seed=5)
    own = using(make(whole), lambda policy: policy.generate(ask))
    served = using(make(small_model, adapter=str(whole)), lambda policy: policy.generate(ask))
    assert (served.token_ids, served.logprobs) == (own.token_ids, own.logprobs)


def test_an_adapter_of_another_base_is_refused_before_anything_is_loaded(
    small_model: Path, make_model: Make, make_adapter: Make, tmp_path: Path
) -> None:
    other = make_adapter(make_model(tmp_path / "wide", hidden_size=64), tmp_path / "other")

    with pytest.raises(SettingsError, match="doesn't fit the model") as caught:
        make(small_model, adapter=str(other))
    assert caught.value.fix == "use the model that it was trained on"
    sibling = make_adapter(small_model, tmp_path / "sibling")  # of the same shape, on other weights
    (sibling / "agentfw.json").write_text('{"version": "policy@1", "base": "0123456789abcdef"}')
    with pytest.raises(SettingsError, match="was trained on another base than") as caught:
        make(small_model, adapter=str(sibling))
    assert "\n" not in caught.value.message
    with pytest.raises(SettingsError, match=r"is no adapter: it has no adapter_config.json"):
        make(small_model, adapter=str(tmp_path))


def test_requests_in_flight_end_with_the_version_that_they_began_with(
    small_model: Path, make_adapter: Make, tmp_path: Path
) -> None:
    adapter = make_adapter(small_model, tmp_path / "adapter")
    requests = [request(number, max_tokens=30) for number in range(6)]

    async def use(policy: TransformersPolicy) -> list[Generation]:
        flying = [asyncio.ensure_future(policy.generate(one)) for one in requests]
        await asyncio.sleep(0)
        publishing = asyncio.ensure_future(policy.publish(adapter, "p@1"))
        await asyncio.sleep(0)
        asked_meanwhile = await together(policy, requests)
        await publishing
        return [*asked_meanwhile, *await asyncio.gather(*flying)]

    answered = using(make(small_model, batch=2), use)
    base = using(make(small_model), lambda policy: together(policy, requests))

    answers, flown = answered[:6], answered[6:]
    assert flown == base
    assert {answer.version for answer in answers} == {"p@1"}
    assert [answer.token_ids for answer in answers] != [answer.token_ids for answer in base]


def broken_adapter(adapter: Path, folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Path:
    from safetensors.torch import load_file, save_file

    shutil.copytree(adapter, folder)
    weights = folder / "adapter_model.safetensors"
    save_file(change(load_file(weights)), weights, {"format": "pt"})
    return folder


def test_an_adapter_that_does_not_fit_is_refused_and_the_one_before_stays(
    make_model: Make, make_adapter: Make, small_model: Path, tmp_path: Path
) -> None:
    good = make_adapter(small_model, tmp_path / "good")
    wide = make_model(tmp_path / "wide", hidden_size=64)
    bad = [
        make_adapter(wide, tmp_path / "of-another-base"),
        broken_adapter(good, tmp_path / "lacking", lambda found: dict(list(found.items())[2:])),
        broken_adapter(
            good, tmp_path / "strange", lambda found: found | {"base_model.model.no.lora_A.weight": torch.ones(1)}
        ),
    ]

    async def use(policy: TransformersPolicy) -> None:
        await policy.publish(good, "p@1")
        before = await policy.generate(request(2))
        for adapter in bad:
            with pytest.raises(SettingsError, match="doesn't fit the model"):
                await policy.publish(adapter, "p@2")
            assert await policy.generate(request(2)) == before
        with pytest.raises(SettingsError, match="neither an adapter nor a model"):
            await policy.publish(tmp_path, "p@2")

    using(make(small_model), use)
