"""The learner `lora`: what it refuses, and what fails half-way."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentfw.boundary.settings_input import validate
from agentfw.engine import Engine, Resources
from agentfw.errors import AgentfwError, SettingsError, UsageError
from agentfw.learner import Batch
from agentfw.optimizer import Loss
from agentfw_plugins.learners.descent import Descent
from agentfw_plugins.learners.settings import LoraSettings

from .conftest import updated

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from agentfw_plugins.learners.model_learner import LoraLearner  # noqa: E402
from agentfw_plugins.models import base  # noqa: E402
from agentfw_plugins.models.checkpoint import count_weights  # noqa: E402

Make = Callable[..., LoraLearner]
MakeBatch = Callable[..., Batch]
PROMPT = (10, 11, 12, 13)
GOOD, BAD = (20, 21, 22), (30, 31, 32)
PAIR = ([(PROMPT, GOOD, 1.0)], [(PROMPT, BAD, -1.0)])


def refused(learner: LoraLearner, batch: Batch, kind: type[AgentfwError] = UsageError) -> str:
    """The update is refused with a fix, and leaves nothing on the disk and nothing in memory."""
    before = learner.logprobs(PROMPT, GOOD)
    with pytest.raises(kind) as caught:
        learner.update(batch)
    assert caught.value.fix
    assert not batch.folder.exists()
    assert learner.logprobs(PROMPT, GOOD) == before
    return str(caught.value)


def test_what_can_not_be_learned_from_is_refused_by_name(learner_of: Make, make_batch: MakeBatch) -> None:
    learner = learner_of()

    assert "nothing to learn from" in refused(learner, make_batch())
    assert "no turn has an advantage" in refused(learner, Batch(make_batch(*PAIR).episodes, [], Loss(), Path("none")))
    assert "turns with an advantage has tokens" in refused(learner, make_batch([(PROMPT, (), 1.0)]))
    assert "token 384" in refused(learner, make_batch([(PROMPT, (384,), 1.0)]))
    assert "3 tokens and 2 logprobs" in refused(learner, make_batch([(PROMPT, GOOD, 1.0)], logprobs=[-1.0, -2.0]))
    assert "not a finite number" in refused(learner, make_batch([(PROMPT, GOOD, 1.0)], logprobs=[-1.0, math.nan, 0.0]))
    capped = Loss(importance_cap=2.0)
    assert "no logprobs of the sampler" in refused(learner, make_batch(*PAIR, loss=capped, logprobs=[]))
    assert "dpo" in refused(learner, make_batch(*PAIR, loss=Loss("dpo")))
    twice = make_batch(*PAIR)
    doubled = Batch(twice.episodes, [*twice.advantages, twice.advantages[0]], Loss(), twice.folder)
    assert "two advantages" in refused(learner, doubled)
    cold, narrow, constrained = make_batch(*PAIR), make_batch(*PAIR), make_batch(*PAIR)
    cold.episodes[0].turns[0].temperature = 0.0
    narrow.episodes[1].turns[0].top_p = 0.9
    constrained.episodes[0].turns[0].constrained = True
    assert "turn 0 of episode 00000-0 was sampled at temperature 0" in refused(learner, cold)
    assert "turn 0 of episode 00000-1 was sampled with top_p 0.9" in refused(learner, narrow)
    assert "JSON schema" in refused(learner, constrained)
    warm = make_batch(*PAIR)
    warm.episodes[0].turns[0].temperature = 0.7
    for logprobs, said in (
        ((-1.0,) * 3, "the teacher's logprobs are those at 1"),
        ((-1.0,), "1 logprobs of the teacher"),
    ):
        taught = Batch(warm.episodes, warm.advantages, Loss(), warm.folder, teacher=[logprobs])
        assert said in refused(learner, taught)
    assert "the step was not taken" in refused(learner, make_batch([(PROMPT, GOOD, 1e30)]), AgentfwError)


def test_a_training_goes_on_with_its_own_optimizer_and_base_alone(
    learner_of: Make, make_batch: MakeBatch, make_model: Callable[..., Path], tmp_path: Path
) -> None:
    learner = learner_of()
    updated(learner, make_batch(*PAIR))

    with pytest.raises(SettingsError, match="the state of adamw, which adamw_8bit can't go on with") as caught:
        learner_of(optimizer="adamw_8bit").restore(learner.state())
    assert caught.value.fix == "set learner.optimizer=adamw"
    with pytest.raises(SettingsError, match="was trained on another base"):
        learner_of(model=str(make_model(tmp_path / "other", seed=1))).restore(learner.state())


@pytest.mark.parametrize("when", ["computing", "writing"])
def test_an_update_that_fails_half_way_never_was(
    learner_of: Make, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    learner = learner_of()
    learner.update(make_batch(*PAIR))
    batch, again = make_batch(*PAIR), make_batch(*PAIR)

    with monkeypatch.context() as broken:
        if when == "computing":
            step = torch.optim.AdamW.step

            def step_and_fail(*given: Any, **named: Any) -> None:
                step(*given, **named)
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")

            broken.setattr(torch.optim.AdamW, "step", step_and_fail)
            assert "have enough memory" in refused(learner, batch, AgentfwError)
        else:
            broken.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            assert "No space left" in refused(learner, batch, AgentfwError)

    assert updated(learner, again).version == "policy@2"
    assert not batch.folder.with_name(f"{batch.folder.name}.unfinished").exists()


def test_full_memory_says_what_to_lower(
    learner_of: Make, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(Descent, "learn", fail)
    with pytest.raises(AgentfwError) as caught:
        learner_of(tokens=1000).update(make_batch(*PAIR))

    assert "set learner.tokens=500 or learner.checkpointing=true" in caught.value.fix
    assert caught.value.change == "learner.tokens=500"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"weights": "all", "precision": "nf4"}, "is trained in fp32 or bf16"),
        ({"weights": "all", "adapter": "somewhere"}, "leave adapter out"),
        ({"warmup": 5, "decay": 5}, "includes the warm-up"),
        ({"workers": 0}, "must be at least 1"),
        ({"sharded": True}, "two or more"),
        ({"sharded": True, "workers": 2, "weights": "all"}, "trains an adapter"),
        ({"sharded": True, "workers": 2, "optimizer": "adamw_8bit"}, "optimizer = adamw"),
    ],
)
def test_settings_that_do_not_fit_together(values: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        validate(LoraSettings, values, "learner")


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"weights": "all"}, r"needs 1128\.9 GB to train all of its 70\.6 billion weights, and this machine has"),
        ({"precision": "nf4"}, r"needs 42\.3 GB to train an adapter of 70\.6 billion weights, and this machine has"),
    ],
)
def test_a_model_of_70_billion_weights_is_refused_with_what_it_needs_before_it_is_loaded(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], needs: str
) -> None:
    shape = {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **shape}
    folder = tmp_path / "large"
    shutil.copytree(small_model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(base, "machine_memory", lambda: 24 * 10**9)
    learner = LoraLearner(LoraSettings(model=str(folder), device="cpu", **changes))

    with pytest.raises(SettingsError, match=needs) as caught:
        learner.logprobs(PROMPT, GOOD)

    assert "\n" not in caught.value.message
    assert ("divide it among processes" in caught.value.fix) == ("weights" not in changes)


def test_a_model_that_fits_once_but_not_in_each_process_of_this_machine_is_refused_before_any_starts(
    small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 4 * count_weights(small_model)
    monkeypatch.setattr(base, "machine_memory", lambda: int(2.5 * size))

    def learner(workers: int, engine: Engine) -> LoraLearner:
        return LoraLearner(LoraSettings(model=str(small_model), device="cpu", workers=workers), engine)

    with pytest.raises(SettingsError, match="in 3 processes") as caught:
        learner(3, Machine()).logprobs(PROMPT, GOOD)
    assert "fewer processes (learner.workers)" in (caught.value.fix or "")

    with pytest.raises(Started):
        learner(2, Machine()).logprobs(PROMPT, GOOD)
    with pytest.raises(Started):
        learner(3, Cluster()).logprobs(PROMPT, GOOD)


class Started(Exception):
    """A worker would be started."""


class Machine(Engine):
    def require(self, resources: Sequence[Resources], who: str) -> None:
        raise Started


class Cluster(Machine):
    one_machine = False
