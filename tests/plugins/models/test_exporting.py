"""What a training made can leave: as an adapter, and as a whole model that needs nothing but transformers."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import own_logprobs

from agentfw.episode import Episode, Task, Turn
from agentfw.errors import UsageError
from agentfw.runs import RunFolder
from agentfw_cli.main import main
from agentfw_plugins.models.export_command import sequences_of

SITE = Path(__file__).parents[2] / "site"


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    for module in ("torch", "transformers", "peft"):
        pytest.importorskip(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield importlib.import_module("agentfw_laboratory.training")


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("base") / "model", hidden_size=64, intermediate_size=128)


@pytest.fixture(scope="module")
def adapter(trainings: Any, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return trained(trainings, tmp_path_factory.mktemp("runs"), model)


def trained(trainings: Any, root: Path, model: Path, **settings: Any) -> Any:
    precision = {"precision": settings.get("precision", "auto")}
    given: dict[str, Any] = {
        "policy": {"name": "transformers", "settings": {"model": str(model), **precision}},
        "optimizer": "grpo",
        "rewards": ["varied"],
        "learner": {"name": "lora", "settings": {"learning_rate": 0.05, **settings}},
        "tasks": 2,
        "samples": 2,
        "updates": 1,
        "max_turns": 2,
        "sampling": {"max_tokens": 12},
        "evaluation": {"every": 1, "tasks": 2},
    }
    return trainings.train(root, **given).folder


def export(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["export", *words])
    return int(ended.value.code or 0)


def furthest(folder: Path, run: Any) -> float:
    """How far plain transformers is from what was recorded when the newest version played."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
    most = 0.0
    for episode in run.evaluation(1).episodes():
        for turn in episode.turns:
            found = own_logprobs(model, turn.prompt_ids, turn.token_ids)
            most = max(most, *(abs(one - other) for one, other in zip(found, turn.logprobs, strict=True)))
    return most


def is_as_any_file(folder: Path) -> bool:
    """Whether all files can be read by whoever can read what this user writes."""
    (beside := folder.with_name("any")).touch()
    return {path.stat().st_mode for path in folder.iterdir()} == {beside.stat().st_mode}


@pytest.mark.parametrize(
    "settings",
    [{}, pytest.param({"precision": "nf4"}, marks=pytest.mark.nightly), {"weights": "all"}],
    ids=["adapter", "four bits", "all weights"],
)
def test_a_merged_model_says_what_the_trained_one_said(
    trainings: Any, model: Path, adapter: Any, tmp_path: Path, settings: dict[str, Any]
) -> None:
    if settings.get("precision") == "nf4":
        pytest.importorskip("bitsandbytes")
    run = trained(trainings, tmp_path / "runs", model, **settings) if settings else adapter

    assert export(str(run.path), str(tmp_path / "merged"), "--merge") == 0

    assert furthest(tmp_path / "merged", run) < 1e-4
    assert is_as_any_file(tmp_path / "merged")
    assert furthest(model, run) > 1e-3, "it has learned something"
    assert {path.name for path in model.iterdir()} <= {path.name for path in (tmp_path / "merged").iterdir()}


def test_an_adapter_is_exported_as_plain_peft_reads_it(
    model: Path, adapter: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    run, target = adapter, tmp_path / "adapter"
    capsys.readouterr()

    assert export(str(run.path), str(target), "--json") == 0

    told = json.loads(capsys.readouterr().out)
    assert told == {"run": run.id, "version": "policy@1", "folder": str(target), "whole": False}
    assert is_as_any_file(target)
    base = AutoModelForCausalLM.from_pretrained(model, local_files_only=True)
    merged = PeftModel.from_pretrained(base, target).merge_and_unload()
    merged.save_pretrained(tmp_path / "plain")
    assert furthest(tmp_path / "plain", run) < 1e-4
    assert export(str(run.path), str(target)) == 2, "nothing is overwritten"
    assert "already exists and is not overwritten" in capsys.readouterr().err
    half = RunFolder.open(Path(shutil.copytree(run.path, tmp_path / run.id)))
    settings = half.about["settings"]
    half.rewrite({**half.about, "settings": {**settings, "learner": {**settings["learner"], "precision": "bf16"}}})
    assert export(str(half.path), str(tmp_path / "half"), "--merge") == 0
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16", "as its weights are"


def test_what_has_nothing_to_export_is_told(trainings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bandit = trainings.train(tmp_path / "runs").folder

    assert export(str(bandit.path), str(tmp_path / "out"), "--merge") == 2
    assert "is no language model" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_row_goes_on_while_the_prompt_does_and_for_trl_while_the_advantage_is_the_same() -> None:
    turns = [
        Turn(0, 0, 1, prompt_ids=(1, 2), token_ids=(3, 4), logprobs=(-1.0, -2.0)),
        Turn(1, 1, 2, prompt_ids=(1, 2, 3, 4, 5), token_ids=(6,), logprobs=(-3.0,)),
        Turn(2, 2, 3, prompt_ids=(1, 9), token_ids=(8,), logprobs=(-4.0,)),
        Turn(3, 3, 4, prompt_ids=(1, 9, 8), token_ids=(7,)),
    ]
    episode, told = Episode(Task(0, 7), turns=turns), {0: 1.0, 1: 1.0, 2: 2.0}

    first, second = sequences_of(episode, told, one_advantage=True)
    assert (first.prompt, first.response, first.mask, first.turns) == ([1, 2], [3, 4, 5, 6], [1, 1, 0, 1], [0, 1])
    assert (first.logprobs, first.advantages) == ([-1.0, -2.0, 0.0, -3.0], [1.0] * 4)
    assert (second.prompt, second.response, second.advantages) == ([1, 9], [8], [2.0])
    told[1] = -1.0
    assert [row.turns for row in sequences_of(episode, told, one_advantage=True)] == [[0], [1], [2]]
    both, _ = sequences_of(episode, told, one_advantage=False)
    assert both.advantages == [1.0, 1.0, 0.0, -1.0]
    with pytest.raises(UsageError, match="turn 3 of episode 00000-0 has no logprobs"):
        sequences_of(episode, {**told, 3: 1.0}, one_advantage=True)


def test_rows_for_other_libraries_have_the_exact_tokens_and_what_they_were_worth(adapter: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    run = adapter
    told = json.loads((run.rollouts(1).path / "advantages.json").read_text())

    for library, names in {
        "trl": ("prompt_ids", "completion_ids", "tool_mask", "old_per_token_logps"),
        "verl": ("prompts", "responses", "response_mask", "rollout_log_probs"),
    }.items():
        assert export(str(run.path), str(tmp_path / library), "--to", library) == 0
        expected = [
            one
            for episode in run.rollouts(1).episodes()
            for one in sequences_of(episode, dict(told.get(episode.id, ())), one_advantage=library == "trl")
        ]
        rows = parquet.read_table(tmp_path / library / "00001.parquet").to_pylist()
        for row, one in zip(rows, expected, strict=True):
            assert [row[name] for name in names] == [one.prompt, one.response, one.mask, one.logprobs]
            assert row["advantages"] == (one.advantages if library == "verl" else one.advantages[0])
            last = max(place for place, on in enumerate(one.mask) if on)
            rewards = [row["reward"] * (place == last) for place in range(len(one.mask))]
            assert row.get("token_level_rewards", rewards) == rewards
    damaged = Path(shutil.copytree(run.path, tmp_path / "damaged" / run.id))
    (damaged / "rollouts" / "00001" / "advantages.json").write_text("{")
    assert export(str(damaged), str(tmp_path / "rows"), "--to", "trl") == 2
    assert not (tmp_path / "rows").exists(), "all rows or none"
