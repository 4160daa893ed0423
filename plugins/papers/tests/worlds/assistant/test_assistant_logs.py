"""The log of the assistant's world, and the reward that is a preference model of it."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentfw import Episode, Host, Task
from agentfw.episode import Event
from agentfw.errors import SettingsError
from agentfw.testing import contract, made_by
from agentfw.testing.checks import CheckFunction, run_check
from agentfw.testing.samples import sample_episodes
from agentfw_cli.main import cli
from agentfw_papers.loops import Loop, LoopSpec, read_loop
from agentfw_papers.rewards.log_preference import LogPreferenceSettings
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.catalogue import Catalogue
from agentfw_papers.worlds.assistant.logs import write_logs
from agentfw_papers.worlds.assistant.rewards import AssistantPreference


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a world that few live in."""
    folder = tmp_path_factory.mktemp("assistant") / "logs"
    write_logs(folder, AssistantSettings(train_users=20, validation_users=2, test_users=2))
    return folder


@pytest.fixture(scope="module")
def fitted(logs: Path) -> Path:
    """A model of that log, fitted by the reward itself."""
    torch = pytest.importorskip("torch", reason="fitting needs torch")
    torch.set_num_threads(1)
    home = logs.parent / "preferences"
    AssistantPreference(LogPreferenceSettings(model=str(home), logs=str(logs), dimensions=8, epochs=1))
    return home


def host() -> Host:
    return Host.load()


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_log_has_what_a_preference_model_needs_and_no_truth(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["data", "make", "assistant", "--out", str(tmp_path / "logs")])

    likes = rows(tmp_path / "logs" / "interactions.csv")
    counts: dict[str, set[str]] = {}
    for like in likes:
        counts.setdefault(like["user"], set()).add(like["item"])
    assert result.exit_code == 0
    assert {len(items) for user, items in counts.items() if user.startswith("train")} == {60}
    assert {len(items) for user, items in counts.items() if not user.startswith("train")} == {4}
    assert len(counts) == len(rows(tmp_path / "logs" / "profiles.csv")) == 384
    assert {like["item"] for like in likes} <= {row["item"] for row in rows(tmp_path / "logs" / "items.csv")}
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        *("interactions.csv", "items.csv", "profiles.csv", "world.json"),
    ]


def chose(item: str, text: str, user: str = "train 1") -> Episode:
    effects = [{"item": item, "text": text, "verdict": "accepted"}]
    return Episode(Task(0, 7, user=user), events=[Event(1, "observation", "done", {"effects": effects})])


@pytest.mark.slow
def test_the_log_of_another_world_is_refused(fitted: Path) -> None:
    model = AssistantPreference(LogPreferenceSettings(model=str(fitted)))
    item = Catalogue(AssistantSettings(world=8)).items["dining"][0]

    with pytest.raises(SettingsError, match="is not the world"):
        asyncio.run(model.score([chose(item.id, item.text)]))


@pytest.mark.slow
def test_a_model_without_a_branch_is_fitted_where_asked_for_and_refused_elsewhere(tmp_path: Path, logs: Path) -> None:
    pytest.importorskip("torch", reason="fitting needs torch")
    settings = LogPreferenceSettings(
        model=str(tmp_path / "model"), logs=str(logs), branches="conformity", dimensions=8, epochs=1
    )
    item = Catalogue(AssistantSettings()).items["dining"][0]

    scores = asyncio.run(AssistantPreference(settings).score([chose(item.id, item.text)]))

    figures = {score.component: score.value for score in scores}
    assert figures["preference_interest"] == 0
    assert figures["preference_conformity"] != 0
    with pytest.raises(SettingsError, match="branches = conformity, not both"):
        AssistantPreference(settings.model_copy(update={"branches": "both"}))


@pytest.mark.slow
@pytest.mark.parametrize("check", contract("reward"))
def test_it_keeps_the_promises_of_a_reward_model(fitted: Path, check: CheckFunction) -> None:
    make = made_by(host(), "reward", "assistant_preference", {"model": str(fitted)})

    result = run_check(check, make, episodes=sample_episodes(), time_limit=60)

    assert result.passed, result.detail


@pytest.mark.nightly
def test_the_loop_that_ships_fits_one_model_and_each_cell_goes_on_with_what_its_users_accept(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="fitting needs torch")
    ships = read_loop(Path(host().find_spec("loop-assistant").path)).chosen(["C3"])
    loop = Loop.at(tmp_path, _small(ships), 1)

    loop.do(host())

    def models(variant: str) -> list[str]:
        found = []
        for phase in ("1-live", "1-train", "2-live", "2-train", "exam"):
            (run,) = (tmp_path / "cells" / f"{variant}-1" / phase).glob("*/run.json")
            rewards = {one["name"]: one for one in json.loads(run.read_text())["spec"]["rewards"]}
            model = Path(rewards["assistant_preference"]["settings"]["model"])
            found.append(str(model.relative_to(tmp_path)))
        return found

    for variant in ("Full", "C3"):
        start, first, again, second, exam = models(variant)
        assert start == "shared/preferences-1"
        assert (first, second) == (again, exam)
        assert first.startswith(f"cells/{variant}-1/1-live/")
        assert second.startswith(f"cells/{variant}-1/2-live/")


def _small(spec: LoopSpec) -> LoopSpec:
    """The loop with two rounds of few episodes and a quick fit."""
    *others, preference = spec.run["rewards"]
    quick = {**preference, "settings": {**preference["settings"], "dimensions": 8, "epochs": 2}}
    return spec.model_copy(
        update={
            "rounds": 2,
            "run": {**spec.run, "rewards": [*others, quick]},
            "live": {**spec.live, "episodes": 12, "concurrency": 12},
            "train": {**spec.train, "updates": 1, "tasks": 2, "samples": 2, "evaluation": {"every": 1, "tasks": 2}},
            "exam": {**spec.exam, "episodes": 6},
        }
    )
