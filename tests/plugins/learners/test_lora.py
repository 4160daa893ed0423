"""The learner `lora`: what an update leaves, how it goes on, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import own_logprobs

from agentfw.errors import UsageError
from agentfw.learner import Batch
from agentfw.optimizer import Loss

from .conftest import updated

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from safetensors.torch import load_file  # noqa: E402

from agentfw_plugins.learners.model_learner import LoraLearner  # noqa: E402

Make = Callable[..., LoraLearner]
MakeBatch = Callable[..., Batch]
PROMPT = (10, 11, 12, 13)
GOOD, BAD = (20, 21, 22), (30, 31, 32)
PAIR = ([(PROMPT, GOOD, 1.0)], [(PROMPT, BAD, -1.0)])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_several_answers_are_scored_as_each_alone(learner_of: Make, make_batch: MakeBatch) -> None:
    """Answers of one prompt share a tree, and the last has a prompt of its own."""
    learner = learner_of()
    learner.update(make_batch(*PAIR))
    answers = [(PROMPT, GOOD), (PROMPT, BAD), ((*PROMPT, *GOOD), (40,)), ((7, 8), (9, 10, 11, 12, 13))]

    several = learner.score(answers).logprobs

    alone = [value for answer in answers for value in learner.score([answer]).logprobs]
    assert list(several) == pytest.approx(alone, abs=1e-5)
    assert len(several) == sum(len(answer) for _, answer in answers)


def test_how_far_an_update_is_is_told_piece_by_piece(learner_of: Make, make_batch: MakeBatch) -> None:
    told: list[tuple[int, int, float]] = []
    batch = replace(make_batch([([1, 2], [3, 4], 1.0)], [([1, 2], [5], -1.0)]), tell=lambda *news: told.append(news))

    updated(learner_of(), batch)

    done, of, memory = told[-1]
    assert done == of == len(told)
    assert memory > 0


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"weights": "all", "learning_rate": 1e-3, "precision": "bf16"},
        {"optimizer": "adamw_8bit"},
        {"precision": "bf16"},
    ],
)
def test_what_was_better_than_expected_becomes_likelier(
    learner_of: Make, make_batch: MakeBatch, changes: dict[str, Any]
) -> None:
    learner = learner_of(**changes)
    before = [sum(learner.logprobs(PROMPT, answer)) for answer in (GOOD, BAD)]

    for _ in range(3):
        learner.update(make_batch(*PAIR))

    after = [sum(learner.logprobs(PROMPT, answer)) for answer in (GOOD, BAD)]
    assert after[0] > before[0] + 0.1
    assert after[1] < before[1] - 0.1
    base = [sum(learner.logprobs(PROMPT, answer, base=True)) for answer in (GOOD, BAD)]
    assert base == pytest.approx(before, abs=1e-4)


@pytest.mark.parametrize("form", [{}, {"layers": (1,)}, {"rank_stabilised": True}, {"dora": True}])
def test_an_adapter_is_one_that_peft_loads(
    learner_of: Make, make_batch: MakeBatch, small_model: Path, form: dict[str, Any]
) -> None:
    from peft import PeftModel
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM

    learner = learner_of(**form)
    update = updated(learner, make_batch(*PAIR))
    with safe_open(update.adapter / "adapter_model.safetensors", "pt") as file:
        layers = {int(name.split(".layers.")[1].split(".")[0]) for name in file.keys()}  # noqa: SIM118
    assert layers == set(form.get("layers", (0, 1)))
    served = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(small_model), update.adapter)

    assert update.version == "policy@1"
    assert own_logprobs(served, PROMPT, GOOD) == pytest.approx(list(learner.logprobs(PROMPT, GOOD)), abs=1e-5)


def test_steps_that_are_too_small_for_bf16_add_up_in_its_masters(
    learner_of: Make, make_batch: MakeBatch, small_model: Path
) -> None:
    """Of the largest weights, a step is about 1e-5; the next number in bf16 is at least 2e-3 of it away."""
    from agentfw_plugins.models import load_base

    name = "model.layers.0.mlp.down_proj.weight"
    start = load_base(small_model, "fp32", "cpu").state_dict()[name].clone()
    large = start.abs() > start.abs().quantile(0.99)
    rate = 1e-5 * float(start[large].abs().min())
    learner = learner_of(weights="all", precision="bf16", learning_rate=rate)

    for _ in range(10):
        update = updated(learner, make_batch(*PAIR))

    assert torch.equal(start[large].bfloat16() + rate, start[large].bfloat16())
    moved = (load_file(update.adapter / "model.safetensors")[name] - start)[large].abs() / rate
    assert 5 < moved.median() <= 10.1


def test_an_adapter_of_a_base_in_bf16_is_computed_as_it_is_served_and_learns_in_fp32(
    learner_of: Make, make_batch: MakeBatch
) -> None:
    """Half of the distance from a weight to the next number in bf16 takes many steps of this size."""
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    rate = 1e-5
    learner = learner_of(precision="bf16", learning_rate=rate)
    first = updated(learner, make_batch(*PAIR))
    start = load_file(first.adapter / "adapter_model.safetensors")
    for _ in range(10):
        update = updated(learner, make_batch(*PAIR))

    weights = load_file(update.adapter / "adapter_model.safetensors")
    large = {name: start[name].abs() > 0.05 for name in weights if "lora_A" in name}
    moved = torch.cat([(weights[name] - start[name])[some].abs() / rate for name, some in large.items()])
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert 5 < moved.median() <= 10.1
    policy = TransformersPolicy(TransformersSettings(model=learner.settings.model, precision="bf16"))
    asyncio.run(policy.publish(update.adapter, update.version))
    served = asyncio.run(policy.logprobs(PROMPT, GOOD))
    assert served == pytest.approx(list(learner.logprobs(PROMPT, GOOD)), abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"weights": "all", "precision": "bf16"},
        {"precision": "bf16"},
        {"optimizer": "adamw_8bit", "rank": 64},
        {"steps": 2},
    ],
)
def test_to_go_on_after_a_break_is_to_go_on_to_the_last_bit(
    learner_of: Make, tmp_path: Path, make_batch: MakeBatch, changes: dict[str, Any]
) -> None:
    changes = {"minibatches": 2, "warmup": 3, **changes}
    batch = make_batch(
        *PAIR, [(PROMPT[:2], (5, 6), 0.5), ((*PROMPT, *GOOD, 9), (7,), -0.5)], loss=Loss(kl=0.01), tasks=2
    )
    whole = learner_of(**changes)
    whole.open(tmp_path / "whole")
    for number in (1, 2, 3):
        whole.update(Batch(batch.episodes, batch.advantages, batch.loss, tmp_path / "whole" / f"{number}"))

    broken = tmp_path / "broken"
    state: Mapping[str, Any] = {}
    for number in (1, 2, 3):
        learner = learner_of(**changes)
        learner.open(broken)
        learner.restore(json.loads(json.dumps(state)))
        # What a killed update leaves behind.
        (broken / f"{number}.unfinished").mkdir(parents=True)
        (broken / f"{number}.unfinished" / "torn").write_text("half a li")
        update = updated(learner, Batch(batch.episodes, batch.advantages, batch.loss, broken / f"{number}"))
        state = learner.state()
        if number == 1:  # a run's folder may be moved
            shutil.move(broken, tmp_path / "moved")
            broken = tmp_path / "moved"

    assert update.version == "policy@3"
    assert files(broken / "3") == files(tmp_path / "whole" / "3")
    assert sorted(path.name for path in broken.iterdir()) == ["1", "2", "3"]


def test_sampler_and_learner_are_compared_at_the_temperature_of_the_sampler(
    learner_of: Make, make_batch: MakeBatch, small_model: Path
) -> None:
    """One turn at 0.4, one at 1.3: with the sampler's own logprobs there is no mismatch, and without them there is."""
    from agentfw_plugins.models import load_base

    network = load_base(small_model, "fp32", "cpu")
    warm = make_batch(*PAIR, loss=Loss(importance_cap=2.0))
    for episode, temperature in zip(warm.episodes, (0.4, 1.3), strict=True):
        (turn,) = episode.turns
        turn.temperature = temperature
        turn.logprobs = tuple(own_logprobs(network, PROMPT, turn.token_ids, temperature))
    raw = make_batch(*PAIR)
    for episode in raw.episodes:
        (turn,) = episode.turns
        turn.temperature = 0.4
        turn.logprobs = tuple(own_logprobs(network, PROMPT, turn.token_ids, 1.0))

    matching, differing = updated(learner_of(), warm).metrics, updated(learner_of(), raw).metrics

    assert matching["mismatch_largest"] < 1e-4
    assert matching["importance_capped"] == 0
    assert differing["mismatch"] > 0.1


def test_figures_say_what_was_done(learner_of: Make, make_batch: MakeBatch) -> None:
    learner = learner_of()
    own = list(learner.logprobs(PROMPT, GOOD))
    batch = make_batch(*PAIR, [(PROMPT, (40, 41), 0.0)], [(PROMPT, (50,), 1.0)], logprobs=None)
    for episode, logprobs in zip(batch.episodes, (own, [v - 0.5 for v in learner.logprobs(PROMPT, BAD)]), strict=False):
        episode.turns[0].logprobs = tuple(logprobs)
    batch.episodes[3].turns[0].logprobs = ()
    some = Batch(batch.episodes, batch.advantages[:3], batch.loss, batch.folder)

    metrics = updated(learner, some).metrics

    assert metrics["tokens_trained"] == 6
    assert metrics["tokens_masked"] == 2  # an advantage of zero teaches nothing
    assert metrics["tokens_dropped"] == 1  # no advantage at all
    assert metrics["tokens_computed"] == 4 + 2 + 2
    assert metrics["tokens_plain"] == 2 * 6
    assert metrics["mismatch"] == pytest.approx(0.25, abs=1e-4)
    assert metrics["mismatch_largest"] == pytest.approx(0.5, abs=1e-4)
    assert metrics["ratio"] == 1
    assert 0 < metrics["entropy"] <= math.log(384)
    assert metrics["gradient_norm"] > 0
    assert metrics["tokens_per_second"] > 0
    assert metrics["peak_memory_mb"] > 0


@pytest.mark.parametrize("loss", [Loss(), Loss(kl=0.04)], ids=["nothing acts", "a penalty at its start"])
def test_a_batch_that_changes_no_weight_gives_no_version(learner_of: Make, make_batch: MakeBatch, loss: Loss) -> None:
    learner, undisturbed = learner_of(), learner_of()
    empty = make_batch([(PROMPT, GOOD, 0.0)], loss=loss)

    assert learner.update(empty) is None
    update = updated(learner, make_batch(*PAIR))

    assert not empty.folder.exists()
    assert update.version == "policy@1"
    other = updated(undisturbed, make_batch(*PAIR))
    assert files(update.adapter) == files(other.adapter), "neither momentum nor the number of steps has moved"


def test_the_learning_rate_rises_and_falls(learner_of: Make, make_batch: MakeBatch) -> None:
    """To 0.01 in two steps, in half a cosine to a tenth of that after six, and there it stays."""
    learner = learner_of(warmup=2, decay=6)

    rates = [updated(learner, make_batch(*PAIR)).metrics["learning_rate"] for _ in range(8)]

    fall = 0.0045 * math.sqrt(0.5)
    assert rates == pytest.approx([0.005, 0.01, 0.01, 0.0055 + fall, 0.0055, 0.0055 - fall, 0.001, 0.001])


def test_a_training_may_begin_with_an_adapter(learner_of: Make, make_batch: MakeBatch) -> None:
    first = learner_of()
    adapter = updated(first, make_batch(*PAIR)).adapter

    second = learner_of(adapter=str(adapter))

    assert second.logprobs(PROMPT, GOOD) == first.logprobs(PROMPT, GOOD)
    # Where it begins is what it is measured from, also when it has gone on from there.
    began = second.logprobs(PROMPT, GOOD)
    assert second.logprobs(PROMPT, GOOD, base=True) == began
    second.update(make_batch(*PAIR))
    assert second.logprobs(PROMPT, GOOD, base=True) == began
    assert second.logprobs(PROMPT, GOOD) != began


def test_nothing_is_overwritten(learner_of: Make, make_batch: MakeBatch) -> None:
    learner = learner_of()
    batch = make_batch(*PAIR)
    learner.update(batch)
    before = files(batch.folder)

    with pytest.raises(UsageError, match="already exists and is not overwritten"):
        learner.update(batch)

    assert files(batch.folder) == before
