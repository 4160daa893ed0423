"""What a training made can leave: as an adapter, and as a whole model that needs nothing but transformers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import own_logprobs

from agentfw_cli.main import main

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
    """A training of an adapter, which no test changes."""
    return trained(trainings, tmp_path_factory.mktemp("runs"), model)


def trained(trainings: Any, root: Path, model: Path, spec: Any = None, **settings: Any) -> Any:
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
    return trainings.train(root, **given | (spec or {})).folder


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


@pytest.mark.slow
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
    assert furthest(model, run) > 1e-3, "it has learned something"
    assert {path.name for path in model.iterdir()} <= {path.name for path in (tmp_path / "merged").iterdir()}


@pytest.mark.slow
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
    base = AutoModelForCausalLM.from_pretrained(model, local_files_only=True)
    merged = PeftModel.from_pretrained(base, target).merge_and_unload()
    merged.save_pretrained(tmp_path / "plain")
    assert furthest(tmp_path / "plain", run) < 1e-4
    assert export(str(run.path), str(target)) == 2, "nothing is overwritten"
    assert "already exists and is not overwritten" in capsys.readouterr().err


def test_what_has_nothing_to_export_is_told(trainings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bandit = trainings.train(tmp_path / "runs").folder

    assert export(str(bandit.path), str(tmp_path / "out"), "--merge") == 2
    assert "is no language model" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_rows_for_other_libraries_have_the_exact_tokens_and_what_they_were_worth(adapter: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    run = adapter
    told = json.loads((run.rollouts(1).path / "advantages.json").read_text())
    worth = {(episode, turn): value for episode, turns in told.items() for turn, value in turns}
    expected = {}
    for episode in run.rollouts(1).episodes():
        for turn in episode.turns:
            if (episode.id, turn.index) in worth:
                key = (*turn.prompt_ids, *turn.token_ids)
                expected[key] = (turn.token_ids, turn.logprobs, worth[episode.id, turn.index])

    for library, names in {
        "trl": ("prompt_ids", "completion_ids", "tool_mask", "old_per_token_logps"),
        "verl": ("prompts", "responses", "response_mask", "rollout_log_probs"),
    }.items():
        assert export(str(run.path), str(tmp_path / library), "--to", library) == 0
        found = {}
        for row in parquet.read_table(tmp_path / library / "00001.parquet").to_pylist():
            prompt, response, mask, logprobs = (row[name] for name in names)
            values = row["advantages"] if library == "verl" else [row["advantages"]] * len(mask)
            ends = [place for place, on in enumerate(mask) if on and not (place + 1 < len(mask) and mask[place + 1])]
            begun = 0
            for end in ends:
                own = [place for place in range(begun, end + 1) if mask[place]]
                ids, lps = (tuple(some[place] for place in own) for some in (response, logprobs))
                found[*prompt, *response[: end + 1]] = ids, lps, values[end]
                begun = end + 1
        assert found == expected


RATE, STEPS = 0.01, 2
CONVERSATIONS = {
    "environment": "inbox",
    "optimizer": {"name": "grpo", "settings": {"aggregation": "token_mean", "kl": 0.0}},
    "max_turns": 4,
    "sampling": {"max_tokens": 24},
}
"""Their turns share what was said before, so their answers are masked parts of one row."""


@pytest.fixture(scope="module")
def of_two_steps(
    trainings: Any, model: Path, adapter: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Path]:
    """A training that goes on from an adapter and takes two steps on what it played, and that adapter."""
    folder = tmp_path_factory.mktemp("steps")
    assert export(str(adapter.path), str(folder / "start")) == 0
    given = {"adapter": str(folder / "start"), "learning_rate": RATE, "steps": STEPS}
    return trained(trainings, folder / "runs", model, CONVERSATIONS, **given), folder / "start"


def padded(rows: list[list[Any]], side: str = "right", value: Any = 0) -> Any:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value, padding_side=side)


@pytest.mark.nightly
def test_trl_takes_the_same_steps_on_what_was_exported(
    of_two_steps: tuple[Any, Path], model: Path, tmp_path: Path
) -> None:
    """Two steps of its GRPOTrainer, the second off policy: the loss of the first and of both are those recorded."""
    pytest.importorskip("trl")
    import datasets
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    run, start = of_two_steps
    assert export(str(run.path), str(tmp_path / "rows"), "--to", "trl") == 0
    rows = datasets.load_dataset("parquet", data_files=str(tmp_path / "rows" / "00001.parquet"), split="train")
    losses: list[float] = []

    class Handed(GRPOTrainer):  # type: ignore[misc]
        """Learns from the rows, where it would have played."""

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            columns = rows.to_dict()
            handed = {"advantages": padded([[each] for each in columns["advantages"]])[:, 0]}
            handed["prompt_ids"] = padded(columns["prompt_ids"], "left")
            handed["prompt_mask"] = padded([[1] * len(ids) for ids in columns["prompt_ids"]], "left")
            for name in ("completion_ids", "completion_mask", "tool_mask", "old_per_token_logps"):
                handed[name] = padded(columns[name])
            handed["num_items_in_batch"] = handed["tool_mask"].sum()
            return handed

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            loss = super()._compute_loss(model, inputs)
            losses.append(float(loss.detach()))
            return loss

    base = AutoModelForCausalLM.from_pretrained(model, local_files_only=True)
    Handed(
        model=PeftModel.from_pretrained(base, start, is_trainable=True),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=GRPOConfig(
            output_dir=str(tmp_path / "trl"),
            per_device_train_batch_size=len(rows),
            num_generations=len(rows),
            loss_type="dapo",
            max_steps=STEPS,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            beta=0.0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=datasets.Dataset.from_dict({"prompt": ["x"] * len(rows)}),
        processing_class=AutoTokenizer.from_pretrained(model),
    ).train()

    [line] = run.updates()
    assert abs(losses[1] - losses[0]) > 1e-3, "the second step is off policy"
    assert any(0 in mask for mask in rows["tool_mask"]), "turns share a row"
    assert sum(losses) / STEPS == pytest.approx(line["learner"]["loss"], abs=1e-5)
