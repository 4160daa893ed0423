"""Whole trainings with a real language model and exact tokens, and what they made as a policy of other runs."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentfw.episode import Episode, Turn
from agentfw.errors import AgentfwError, RunFolderError, UnknownNameError, UsageError
from agentfw.runs import RunFolder, newest_version, parse_spec, policy_of_run
from agentfw.runs.results.run_report import write_report
from agentfw.runs.run import Run
from agentfw_cli.main import main

SITE = Path(__file__).parents[1] / "site"
REPORTED = "On policy: no clipping took part."
ANSWER = '<tool_call>{"name": "say", "arguments": {"word": "juice"}}</tool_call>'
GREEDY = {"temperature": 0, "max_tokens": 12}
SMALL: dict[str, Any] = {
    "environment": {"name": "bandit", "settings": {"rounds": 2}},
    "optimizer": "grpo",
    "rewards": ["varied"],
    "tasks": 2,
    "samples": 2,
    "updates": 1,
    "max_turns": 2,
    "sampling": {"max_tokens": 12},
    "evaluation": {"every": 1, "tasks": 2, "sampling": GREEDY},
}


@pytest.fixture(scope="module")
def laboratory() -> Iterator[ModuleType]:
    for module in ("torch", "transformers", "peft"):
        pytest.importorskip(module)
    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(str(SITE))
        yield importlib.import_module("agentfw_laboratory.training")


def made(folder: Path, **changes: Any) -> str:
    return str(importlib.import_module("agentfw_laboratory.models").make_model(folder, **changes))


def train(laboratory: Any, root: Path, model: str, learner: Mapping[str, Any], **values: Any) -> RunFolder:
    """A training whose learner `lora`, if it isn't another, has these settings, and whose policy those of `policy`."""
    policy = {"name": "transformers", "settings": {"model": model, **values.pop("policy", {})}}
    learns = learner if "name" in learner else {"name": "lora", "settings": learner}
    folder: RunFolder = laboratory.train(
        root / "runs", **{**SMALL, "policy": policy, "learner": learns, **values}
    ).folder
    return folder


def turns_of(episodes: Iterable[Episode]) -> list[Turn]:
    return [turn for episode in episodes for turn in episode.turns]


@pytest.mark.nightly
def test_a_language_model_learns_an_answer_from_a_teacher(laboratory: Any, tmp_path: Path) -> None:
    """From random weights to a perfect answer."""
    model = made(tmp_path / "model")

    folder = train(
        laboratory,
        tmp_path,
        model,
        {"name": "sft", "settings": {"model": model, "learning_rate": 0.02, "epochs": 12}},
        teacher={"name": "scripted", "settings": {"replies": [ANSWER, ANSWER]}},
        optimizer="imitation",
        rewards=[],
        updates=4,
        tasks=4,
        samples=1,
        max_turns=4,
        sampling={"max_tokens": 60},
        evaluation={"every": 4, "tasks": 2, "sampling": {"temperature": 0}},
    )

    first, last = (folder.evaluation(number) for number in (0, 4))
    assert [record["utility"] for record in first.metrics()] == [0, 0]
    assert [(turn.text, turn.version) for turn in turns_of(last.episodes())] == [(ANSWER, "policy@4")] * 4
    served = [line["served"] for line in folder.updates()]
    assert all(figures["proven"] == 1 for figures in served)
    assert all(figures["probe_mismatch_most"] < 1e-4 for figures in served), "sampler and trainer agree"


@pytest.mark.parametrize("steps", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_sampler_and_learner_agree_at_the_rollouts_temperature(laboratory: Any, tmp_path: Path, steps: int) -> None:
    """Rollouts at 0.4, evaluations at 0.6 and top_p 0.9: neither is mistaken for another model."""
    model = made(tmp_path / "model")

    folder = train(
        laboratory,
        tmp_path,
        model,
        {"model": model, "learning_rate": 0.02, "steps": steps},
        optimizer={"name": "grpo", "settings": {"importance_cap": 2.0}},
        updates=2,
        sampling={"temperature": 0.4, "max_tokens": 12},
        evaluation={"every": 2, "tasks": 2, "sampling": {"temperature": 0.6, "top_p": 0.9, "max_tokens": 12}},
    )

    turns = turns_of(folder.rollouts(2).episodes())
    assert {(turn.temperature, turn.top_p) for turn in turns} == {(0.4, 1.0)}
    figures = [line["learner"] for line in folder.updates()]
    assert all(each["mismatch_largest"] < 1e-3 and each["importance_capped"] == 0 for each in figures)
    assert [each["on_policy"] for each in figures] == [float(steps == 1)] * 2
    write_report(folder)
    assert (REPORTED in (folder.path / "report.html").read_text()) == (steps == 1)


def of_precisions(
    laboratory: Any, root: Path, policy: str, learner: str, *, updates: int = 1, **optimizer: float
) -> RunFolder:
    """A short training whose policy and learner have these precisions."""
    model = made(root / "model", hidden_size=64, intermediate_size=128, initializer_range=0.15)
    return train(
        laboratory,
        root,
        model,
        {"model": model, "precision": learner, "learning_rate": 1e-3},
        policy={"precision": policy, "device": "cpu"},
        optimizer={"name": "grpo", "settings": optimizer},
        updates=updates,
        samples=3,
        sampling={"max_tokens": 16},
    )


@pytest.mark.nightly
def test_four_bits_on_both_sides_are_one_model(laboratory: Any, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")

    lines = of_precisions(laboratory, tmp_path, "nf4", "nf4", updates=2).updates()

    assert all(line["learner"]["mismatch_largest"] < 1e-4 for line in lines)
    assert all(line["learner"]["importance_corrected"] == 0 for line in lines)
    assert all(line["served"]["proven"] == 1 for line in lines)


def test_a_sampler_without_the_four_bits_that_are_trained_is_an_error_unless_it_is_meant_and_then_corrected(
    laboratory: Any, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")

    with pytest.raises(AgentfwError, match="before anything was learned") as raised:
        of_precisions(laboratory, tmp_path / "error", "fp32", "nf4")
    folder = of_precisions(laboratory, tmp_path / "meant", "fp32", "nf4", importance_cap=2.0)

    assert "set policy.model to learner.model, and policy.precision to the learner's" in raised.value.fix
    figures = [line["learner"] for line in folder.updates()]
    assert all(each["mismatch"] > 0.1 and each["importance_corrected"] > 0.01 for each in figures)
    write_report(folder)
    page = (folder.path / "report.html").read_text()
    assert "of the sampled tokens counted less or not at all" in page[: page.index("<svg")]


def test_wrongly_kept_logprobs_are_an_error(laboratory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy answers the probe correctly. What it records of its own samples is of another temperature."""
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy

    async def answer(policy: TransformersPolicy, request: Any, heard: Any) -> Any:
        found = await correct(policy, request, heard)
        return dataclasses.replace(found, logprobs=tuple(value / 2 for value in found.logprobs))

    correct = TransformersPolicy._answer
    monkeypatch.setattr(TransformersPolicy, "_answer", answer)

    with pytest.raises(AgentfwError, match="the rollouts were recorded with and the learner's differ"):
        of_precisions(laboratory, tmp_path, "fp32", "fp32")


# -- what a training made is a policy: by the run's name, for the same base, without saying the base again -------------


@pytest.fixture(scope="module")
def trained(laboratory: Any, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The folder of a training of one update, whose model was given to the policy alone."""
    root = tmp_path_factory.mktemp("trained")
    return train(laboratory, root, made(root / "model"), {"learning_rate": 0.05})


def test_a_run_names_the_newest_version_of_its_training(
    laboratory: Any, trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The learner trained the policy's model, and the version answers on it."""
    from agentfw_plugins.gateway.live import opened

    playing = importlib.import_module("agentfw_laboratory.playing")
    host, model = playing.host(), trained.about["spec"]["policy"]["settings"]["model"]
    playing.play(trained.path.parent, episodes=1)  # a later run that is no training

    policy = policy_of_run(host, "last", trained.path.parent)

    assert trained.about["spec"]["learner"]["settings"]["model"] == model
    assert policy == {"name": "transformers", "settings": {"model": model, "adapter": str(newest_version(trained))}}
    values = {"policy": policy, "rewards": ["varied"], "split": "validation", "episodes": 2, "sampling": GREEDY}
    spec = parse_spec({"environment": SMALL["environment"], "max_turns": 2, **values})
    run = Run.create(spec, host, tmp_path / "played")
    asyncio.run(run.execute())
    turns, untrained, before = (
        turns_of(each.episodes()) for each in (run.folder, trained.evaluation(0), trained.evaluation(1))
    )
    assert [turn.token_ids for turn in turns] == [turn.token_ids for turn in before]
    assert [turn.token_ids for turn in turns] != [turn.token_ids for turn in untrained]
    assert {turn.version for turn in turns} == {"policy@1"}
    live = opened(tmp_path / "live", policy=str(trained.path))
    assert live.assembly.spec.policy.settings == policy["settings"]
    with pytest.raises(SystemExit):
        main(["runs", "show", str(trained.path)])
    assert f"serve what was learned: agentfw serve --policy {trained.path}" in capsys.readouterr().err


def test_a_training_begins_where_another_ended(laboratory: Any, trained: RunFolder, tmp_path: Path) -> None:
    """The version is given to the policy alone, and the learner starts from it."""
    policy: Any = policy_of_run(laboratory.host(), str(trained.path), tmp_path)

    second = laboratory.train(
        tmp_path / "second",
        **SMALL | {"optimizer": {"name": "grpo", "settings": {"kl": 0.1}}, "updates": 2},
        policy=policy,
        learner={"name": "lora", "settings": {"learning_rate": 0.01}},
    ).folder

    assert second.about["spec"]["learner"]["settings"]["adapter"] == policy["settings"]["adapter"]
    for part in (second.evaluation(0), second.rollouts(1)):
        assert {turn.version for turn in turns_of(part.episodes())} == {"policy@0"}
    for line in second.updates():
        assert line["served"].get("probe_mismatch_most", 0) < 1e-3
        assert line["learner"].get("mismatch_largest", 0) < 1e-3, "sampler and trainer begin with the same adapter"
    expected = laboratory.left(second)
    (second.path / "summary.json").unlink()
    laboratory.resume(second)
    assert laboratory.left(second) == expected


def test_what_is_no_run_no_policy_or_no_version_is_told(trainings: Any, tmp_path: Path) -> None:
    host = trainings.host()
    assert policy_of_run(host, "scripted", tmp_path) == "scripted"
    with pytest.raises(UnknownNameError, match='no policy is called "scriptd"; did you mean "scripted"'):
        policy_of_run(host, "scriptd", tmp_path)
    with pytest.raises(RunFolderError, match=r"no training in .* has a version yet"):
        policy_of_run(host, "last", tmp_path)
    with pytest.raises(RunFolderError, match="is not a run folder"):
        policy_of_run(host, str(tmp_path), tmp_path)

    run = trainings.create(tmp_path, policy={"name": "tiny", "settings": {}}, learner="lora", optimizer="grpo")
    with pytest.raises(UsageError, match="has no version yet: 0 of 4 updates are done"):
        policy_of_run(run.host, run.folder.id, tmp_path)

    state = run.folder.path / "state.json"
    state.write_text(json.dumps({"update": 1, "version": "policy@1", "adapter": "learner/00001/adapter"}))
    with pytest.raises(RunFolderError, match=r"the newest version of .* is gone"):
        policy_of_run(run.host, "last", tmp_path)
