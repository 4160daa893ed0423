"""What a training made is a policy: by the run's name, for the same base, without saying the base again."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import RunFolderError, UnknownNameError, UsageError
from agentfw.runs import newest_version, parse_spec, policy_of_run
from agentfw.runs.run import Run
from agentfw_cli.main import main

SITE = Path(__file__).parents[1] / "site"


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Any]:
    for module in ("torch", "transformers", "peft"):
        pytest.importorskip(module)
    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(str(SITE))
        yield importlib.import_module("agentfw_laboratory.training")


SMALL: dict[str, Any] = {
    "optimizer": "grpo",
    "rewards": ["varied"],
    "tasks": 2,
    "samples": 2,
    "updates": 1,
    "max_turns": 2,
    "sampling": {"max_tokens": 12},
    "evaluation": {"every": 1, "tasks": 2, "sampling": {"temperature": 0, "max_tokens": 12}},
}


@pytest.fixture(scope="module")
def trained(laboratory: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a training of one update, whose model was given to the policy alone."""
    root = tmp_path_factory.mktemp("trained")
    model = str(importlib.import_module("agentfw_laboratory.models").make_model(root / "model"))
    return laboratory.train(
        root / "runs",
        policy={"name": "transformers", "settings": {"model": model}},
        learner={"name": "lora", "settings": {"learning_rate": 0.05}},
        **SMALL,
    ).folder


@pytest.mark.slow
def test_a_run_names_the_newest_version_of_its_training(
    trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The learner trained the policy's model, and the version answers on it."""
    from agentfw_plugins.gateway.live import opened

    folder, playing = trained, importlib.import_module("agentfw_laboratory.playing")
    host, model = playing.host(), folder.about["spec"]["policy"]["settings"]["model"]
    playing.play(folder.path.parent, episodes=1)  # a later run that is no training

    policy = policy_of_run(host, "last", folder.path.parent)

    assert folder.about["spec"]["learner"]["settings"]["model"] == model
    assert policy == {"name": "transformers", "settings": {"model": model, "adapter": str(newest_version(folder))}}
    values = {"environment": "bandit", "policy": policy, "rewards": ["varied"], "split": "validation", "episodes": 2}
    run = Run.create(
        parse_spec({**values, "max_turns": 2, "sampling": {"temperature": 0, "max_tokens": 12}}),
        host,
        tmp_path / "played",
    )
    asyncio.run(run.execute())
    turns = [turn for episode in run.folder.episodes() for turn in episode.turns]
    untrained = [turn.token_ids for episode in folder.evaluation(0).episodes() for turn in episode.turns]
    before = [turn for episode in folder.evaluation(1).episodes() for turn in episode.turns]
    assert [turn.token_ids for turn in turns] == [turn.token_ids for turn in before] != untrained
    assert {turn.version for turn in turns} == {"policy@1"}
    live = opened(tmp_path / "live", policy=str(folder.path))
    assert live.assembly.spec.policy.settings == policy["settings"]
    with pytest.raises(SystemExit):
        main(["runs", "show", str(folder.path)])
    assert f"serve what was learned: agentfw serve --policy {folder.path}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_training_begins_where_another_ended(laboratory: Any, trained: Any, tmp_path: Path) -> None:
    """The version is given to the policy alone, and the learner starts from it."""
    host = importlib.import_module("agentfw_laboratory.playing").host()
    policy = policy_of_run(host, str(trained.path), tmp_path)
    assert not isinstance(policy, str)

    second = laboratory.train(
        tmp_path / "second",
        **SMALL | {"optimizer": {"name": "grpo", "settings": {"kl": 0.1}}, "updates": 2},
        policy=policy,
        learner={"name": "lora", "settings": {"learning_rate": 0.01}},
    ).folder

    assert second.about["spec"]["learner"]["settings"]["adapter"] == policy["settings"]["adapter"]
    played = [second.evaluation(0), second.rollouts(1)]
    assert {turn.version for part in played for episode in part.episodes() for turn in episode.turns} == {"policy@0"}
    for line in second.updates():
        assert line["served"].get("probe_mismatch_most", 0) < 1e-3
        assert line["learner"].get("mismatch_largest", 0) < 1e-3, "sampler and trainer begin with the same adapter"
    expected = laboratory.left(second)
    (second.path / "summary.json").unlink()
    laboratory.resume(second)
    assert laboratory.left(second) == expected


def test_what_is_no_run_and_no_policy_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(SITE))
    host = importlib.import_module("agentfw_laboratory.playing").host()

    assert policy_of_run(host, "scripted", tmp_path) == "scripted"
    with pytest.raises(UnknownNameError, match='no policy is called "scriptd"; did you mean "scripted"'):
        policy_of_run(host, "scriptd", tmp_path)
    with pytest.raises(RunFolderError, match=r"no training in .* has a version yet"):
        policy_of_run(host, "last", tmp_path)
    with pytest.raises(RunFolderError, match="is not a run folder"):
        policy_of_run(host, str(tmp_path), tmp_path)


def test_a_training_without_a_version_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(SITE))
    laboratory = importlib.import_module("agentfw_laboratory.training")
    run = laboratory.create(tmp_path, policy={"name": "tiny", "settings": {}}, learner="lora", optimizer="grpo")

    with pytest.raises(UsageError, match="has no version yet: 0 of 4 updates are done"):
        policy_of_run(run.host, run.folder.id, tmp_path)

    state = run.folder.path / "state.json"
    state.write_text(json.dumps({"update": 1, "version": "policy@1", "adapter": "learner/00001/adapter"}))
    with pytest.raises(RunFolderError, match=r"the newest version of .* is gone"):
        policy_of_run(run.host, "last", tmp_path)
