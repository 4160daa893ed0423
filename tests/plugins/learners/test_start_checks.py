"""An adapter is refused, by name, where it would be computed otherwise than it was trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import SettingsError, UsageError
from agentfw_plugins.learners.settings import LoraSettings

from .conftest import batch_of, updated

pytest.importorskip("peft")

from agentfw_plugins.learners.model_learner import LoraLearner

PROMPT, ANSWER = (10, 11, 12, 13), (20, 21, 22)


@pytest.fixture(scope="module")
def trained(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of rank 8 and alpha 16 that has learned something."""
    learner = LoraLearner(LoraSettings(model=str(small_model), learning_rate=1e-2))
    return updated(learner, batch_of(tmp_path_factory.mktemp("trained") / "update", [(PROMPT, ANSWER, 1.0)])).adapter


@pytest.fixture
def adapter(trained: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "adapter"))


def change(adapter: Path, **values: Any) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def begin(model: Path, adapter: Path, **settings: Any) -> LoraLearner:
    learner = LoraLearner(LoraSettings(model=str(model), adapter=str(adapter), **settings))
    learner.logprobs(PROMPT, ANSWER)
    return learner


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "fix"),
    [
        ({"lora_alpha": 32}, "set learner.alpha=32"),
        ({"r": 4}, "set learner.rank=4"),
        ({"target_modules": ["q_proj"]}, 'set learner.modules=["q_proj"]'),
        ({"use_rslora": True}, "set learner.rank_stabilised=true"),
        ({"use_dora": True}, "set learner.dora=true"),
        ({"layers_to_transform": [0]}, "set learner.layers=[0]"),
        ({"bias": "all"}, "merge_and_unload"),
        ({"alpha_pattern": {"q_proj": 4}}, "merge_and_unload"),
        ({"rank_pattern": {"q_proj": 4}}, "merge_and_unload"),
        ({"init_lora_weights": "pissa"}, "merge_and_unload"),
        ({"peft_type": "LOHA"}, "merge_and_unload"),
        ({"invented_tomorrow": True}, "merge_and_unload"),
    ],
)
def test_what_changes_the_computation_is_refused_by_name(
    small_model: Path, adapter: Path, values: dict[str, Any], fix: str
) -> None:
    change(adapter, **values)

    with pytest.raises(SettingsError) as caught:
        begin(small_model, adapter)

    assert next(iter(values)) in str(caught.value)
    assert fix in caught.value.fix


@pytest.mark.slow
def test_settings_that_follow_the_adapter_take_it(small_model: Path, adapter: Path) -> None:
    """Another alpha on both sides: it loads, and its logprobs are those of that alpha."""
    plain = begin(small_model, adapter).logprobs(PROMPT, ANSWER)
    change(adapter, lora_alpha=32)

    doubled = begin(small_model, adapter, alpha=32).logprobs(PROMPT, ANSWER)

    assert max(abs(one - other) for one, other in zip(plain, doubled, strict=True)) > 1e-3


@pytest.mark.parametrize(
    "values",
    [
        {"base_model_name_or_path": "elsewhere", "peft_version": "0.1", "lora_dropout": 0.1, "inference_mode": False},
        {"init_lora_weights": "gaussian"},
        {"target_modules": ".*_proj"},
        {"invented_tomorrow": None},
    ],
)
def test_where_an_adapter_comes_from_is_no_reason_to_refuse_it(
    small_model: Path, adapter: Path, values: dict[str, Any]
) -> None:
    change(adapter, **values)

    assert begin(small_model, adapter).logprobs(PROMPT, ANSWER)


def test_without_a_config_nobody_knows_its_scale(small_model: Path, adapter: Path) -> None:
    (adapter / "adapter_config.json").unlink()

    with pytest.raises(UsageError, match=r"no adapter_config\.json"):
        begin(small_model, adapter)
