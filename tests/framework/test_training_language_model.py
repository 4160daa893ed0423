"""A whole training with a real language model, adapters and exact tokens: from random weights to a perfect answer."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import AgentfwError
from agentfw.runs.results.run_report import write_report

REPORTED = "On policy: no clipping took part."
ANSWER = '<tool_call>{"name": "say", "arguments": {"word": "juice"}}</tool_call>'


@pytest.fixture(autouse=True)
def with_torch() -> None:
    for module in ("torch", "transformers", "peft"):
        pytest.importorskip(module)


@pytest.mark.slow
def test_a_language_model_learns_an_answer_from_a_teacher(trainings: Any, tmp_path: Path) -> None:
    model = str(importlib.import_module("agentfw_laboratory.models").make_model(tmp_path / "model"))

    folder = trainings.train(
        tmp_path / "runs",
        environment={"name": "bandit", "settings": {"rounds": 2}},
        policy={"name": "transformers", "settings": {"model": model}},
        teacher={"name": "scripted", "settings": {"replies": [ANSWER, ANSWER]}},
        optimizer="imitation",
        learner={"name": "sft", "settings": {"model": model, "learning_rate": 0.02, "epochs": 12}},
        tasks=4,
        samples=1,
        max_turns=4,
        sampling={"max_tokens": 60},
        evaluation={"every": 4, "tasks": 2, "sampling": {"temperature": 0}},
    ).folder

    first, last = (folder.evaluation(number) for number in (0, 4))
    assert [record["utility"] for record in first.metrics()] == [0, 0]
    assert [turn.text for episode in last.episodes() for turn in episode.turns] == [ANSWER] * 4
    assert {turn.version for episode in last.episodes() for turn in episode.turns} == {"policy@4"}
    served = [line["served"] for line in folder.updates()]
    assert all(figures["proven"] == 1 for figures in served)
    assert all(figures["probe_mismatch_most"] < 1e-4 for figures in served), "sampler and trainer agree"


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_sampler_and_learner_agree_at_the_temperature_of_the_rollouts(
    trainings: Any, tmp_path: Path, steps: int
) -> None:
    """Rollouts at 0.4, evaluations at 0.6 and top_p 0.9: neither is mistaken for another model."""
    model = str(importlib.import_module("agentfw_laboratory.models").make_model(tmp_path / "model"))

    folder = trainings.train(
        tmp_path / "runs",
        environment={"name": "bandit", "settings": {"rounds": 2}},
        policy={"name": "transformers", "settings": {"model": model}},
        optimizer={"name": "grpo", "settings": {"importance_cap": 2.0}},
        rewards=["varied"],
        learner={"name": "lora", "settings": {"model": model, "learning_rate": 0.02, "steps": steps}},
        updates=2,
        tasks=2,
        samples=2,
        max_turns=2,
        sampling={"temperature": 0.4, "max_tokens": 12},
        evaluation={"every": 2, "tasks": 2, "sampling": {"temperature": 0.6, "top_p": 0.9, "max_tokens": 12}},
    ).folder

    turns = [turn for episode in folder.rollouts(2).episodes() for turn in episode.turns]
    assert {(turn.temperature, turn.top_p) for turn in turns} == {(0.4, 1.0)}
    figures = [line["learner"] for line in folder.updates()]
    assert all(each["mismatch_largest"] < 1e-3 and each["importance_capped"] == 0 for each in figures)
    assert [each["on_policy"] for each in figures] == [float(steps == 1)] * 2
    write_report(folder)
    assert (REPORTED in (folder.path / "report.html").read_text()) == (steps == 1)


def trained(trainings: Any, root: Path, policy: str, learner: str, *, updates: int = 1, **optimizer: float) -> Any:
    """A short training whose policy and learner have these precisions."""
    make_model = importlib.import_module("agentfw_laboratory.models").make_model
    model = str(make_model(root / "model", hidden_size=64, intermediate_size=128, initializer_range=0.15))
    return trainings.train(
        root / "runs",
        environment={"name": "bandit", "settings": {"rounds": 2}},
        policy={"name": "transformers", "settings": {"model": model, "precision": policy, "device": "cpu"}},
        optimizer={"name": "grpo", "settings": optimizer},
        rewards=["varied"],
        learner={"name": "lora", "settings": {"model": model, "precision": learner, "learning_rate": 1e-3}},
        updates=updates,
        tasks=2,
        samples=3,
        max_turns=2,
        sampling={"max_tokens": 16},
        evaluation={"every": 2, "tasks": 2},
    ).folder


@pytest.mark.nightly
def test_four_bits_on_both_sides_are_one_model(trainings: Any, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")

    lines = trained(trainings, tmp_path, "nf4", "nf4", updates=2).updates()

    assert all(line["learner"]["mismatch_largest"] < 1e-4 for line in lines)
    assert all(line["learner"]["importance_corrected"] == 0 for line in lines)
    assert all(line["served"]["proven"] == 1 for line in lines)


@pytest.mark.slow
def test_a_sampler_without_the_four_bits_that_are_trained_is_an_error(trainings: Any, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")

    with pytest.raises(AgentfwError, match="before anything was learned") as raised:
        trained(trainings, tmp_path, "fp32", "nf4")

    assert "set policy.model to learner.model, and policy.precision to the learner's" in raised.value.fix


@pytest.mark.slow
def test_a_sampler_that_differs_on_purpose_is_corrected_and_the_report_says_how_much(
    trainings: Any, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")

    folder = trained(trainings, tmp_path, "fp32", "nf4", importance_cap=2.0)

    figures = [line["learner"] for line in folder.updates()]
    assert all(each["mismatch"] > 0.1 and each["importance_corrected"] > 0.01 for each in figures)
    write_report(folder)
    page = (folder.path / "report.html").read_text()
    assert "of the sampled tokens counted less or not at all" in page[: page.index("<svg")]


@pytest.mark.slow
def test_logprobs_that_are_recorded_wrongly_are_an_error(
    trainings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy answers the probe correctly. What it records of its own samples is of another temperature."""
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy

    async def answer(policy: TransformersPolicy, request: Any, heard: Any) -> Any:
        found = await correct(policy, request, heard)
        return dataclasses.replace(found, logprobs=tuple(value / 2 for value in found.logprobs))

    correct = TransformersPolicy._answer
    monkeypatch.setattr(TransformersPolicy, "_answer", answer)

    with pytest.raises(AgentfwError, match="the rollouts were recorded with and the learner's differ"):
        trained(trainings, tmp_path, "fp32", "fp32")
