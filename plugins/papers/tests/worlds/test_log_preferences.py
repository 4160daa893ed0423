"""The logs of the assistant's and the merchants' worlds, and the rewards that are preference models of them."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from click.testing import CliRunner

from agentfw import Episode, Host, Task
from agentfw.episode import Event
from agentfw.errors import SettingsError
from agentfw.testing import check_component, made_by
from agentfw_cli.main import cli
from agentfw_papers.loops import Loop, read_loop
from agentfw_papers.rewards.log_preference import LogPreferenceSettings
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.catalogue import Catalogue
from agentfw_papers.worlds.assistant.logs import write_logs
from agentfw_papers.worlds.assistant.rewards import AssistantPreference
from agentfw_papers.worlds.merchant.logs import write_logs as write_logs_of_merchants
from agentfw_papers.worlds.merchant.merchant_settings import MerchantSettings
from agentfw_papers.worlds.merchant.merchants import Merchants
from agentfw_papers.worlds.merchant.rewards import MerchantPreference


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a world of assistants that few live in."""
    folder = tmp_path_factory.mktemp("assistant") / "logs"
    write_logs(folder, AssistantSettings(train_users=20, validation_users=2, test_users=2))
    return folder


def fitted(reward: type[AssistantPreference | MerchantPreference], home: Path, **more: Any) -> str:
    """A model that the reward itself has fitted."""
    torch = pytest.importorskip("torch", reason="fitting needs torch")
    torch.set_num_threads(1)
    reward(LogPreferenceSettings(model=str(home), **more))
    return str(home)


@pytest.fixture(scope="module")
def of_assistants(logs: Path) -> str:
    return fitted(AssistantPreference, logs.parent / "model", logs=str(logs), dimensions=8, epochs=1)


@pytest.fixture(scope="module")
def of_merchants(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("merchant")
    few = MerchantSettings(train_merchants=20, validation_merchants=2, test_merchants=2)
    write_logs_of_merchants(folder / "logs", few)
    return fitted(MerchantPreference, folder / "model", logs=str(folder / "logs"), dimensions=8, epochs=1)


def test_the_log_has_what_a_preference_model_needs_and_no_truth(tmp_path: Path) -> None:
    def rows(name: str) -> list[dict[str, str]]:
        with (tmp_path / "logs" / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    result = CliRunner().invoke(cli, ["data", "make", "assistant", "--out", str(tmp_path / "logs")])

    likes = rows("interactions.csv")
    counts: dict[str, set[str]] = {}
    for like in likes:
        counts.setdefault(like["user"], set()).add(like["item"])
    assert result.exit_code == 0
    assert {len(items) for user, items in counts.items() if user.startswith("train")} == {60}
    assert {len(items) for user, items in counts.items() if not user.startswith("train")} == {4}
    assert len(counts) == len(rows("profiles.csv")) == 384
    assert {like["item"] for like in likes} <= {row["item"] for row in rows("items.csv")}
    files = {path.name for path in (tmp_path / "logs").iterdir()}
    assert files == {"interactions.csv", "items.csv", "profiles.csv", "world.json"}


def chose(item: str, text: str, user: str = "train 1") -> Episode:
    effects = [{"item": item, "text": text, "verdict": "accepted"}]
    return Episode(Task(0, 7, user=user), events=[Event(1, "observation", "done", {"effects": effects})])


def test_a_foreign_log_and_a_model_without_a_branch_are_refused(tmp_path: Path, logs: Path, of_assistants: str) -> None:
    other, own = (Catalogue(AssistantSettings(world=world)).items["dining"][0] for world in (8, 7))
    model = {"model": str(tmp_path / "model"), "logs": str(logs), "dimensions": 8, "epochs": 1}
    settings = LogPreferenceSettings.model_validate({**model, "branches": "conformity"})

    small = AssistantPreference(LogPreferenceSettings(model=of_assistants))
    with pytest.raises(SettingsError, match="is not the world"):
        asyncio.run(small.score([chose(other.id, other.text)]))
    scores = asyncio.run(AssistantPreference(settings).score([chose(own.id, own.text)]))
    with pytest.raises(SettingsError, match="branches = conformity, not both"):
        AssistantPreference(settings.model_copy(update={"branches": "both"}))

    figures = {score.component: score.value for score in scores}
    assert figures["preference_interest"] == 0
    assert figures["preference_conformity"] != 0


@pytest.mark.parametrize("world", ["assistant", "merchant"])
def test_they_keep_the_promises_of_a_reward_model(world: str, of_assistants: str, of_merchants: str) -> None:
    model = {"assistant": of_assistants, "merchant": of_merchants}[world]
    make = made_by(Host.load(), "reward", f"{world}_preference", {"model": model})

    results = check_component("reward", make, time_limit=60)
    assert [(one.promise, one.detail) for one in results if not one.passed] == []


@pytest.mark.nightly
def test_products_that_suit_the_merchant_are_rewarded(tmp_path: Path) -> None:
    home = fitted(MerchantPreference, tmp_path / "model", dimensions=16, epochs=16)
    model = MerchantPreference(LogPreferenceSettings(model=home))
    merchants = Merchants(MerchantSettings())
    better = []

    for number in range(60):
        merchant = merchants.merchant(f"train {number}")
        category = list(merchants.market.categories)[number % 12]
        products = merchants.market.categories[category].products
        low, *_, high = sorted(products, key=lambda one: merchants.truth(merchant, category, one))
        rewards = [
            next(score.value for score in asyncio.run(model.score([episode])) if score.counts)
            for episode in (chose(one, merchants.in_words(category, one), merchant.name) for one in (low, high))
        ]
        better.append(rewards[1] > rewards[0])

    # Chance is 0.5, with a standard error of 0.065.
    assert fmean(better) > 0.7


# -- the loops that ship, in a small size ------------------------------------------------------------------------------


def specs(folder: Path, name: str, variant: str, exam: int) -> dict[str, Sequence[dict[str, Any]]]:
    """The specs of the runs of two rounds, with few episodes and a quick fit: of `Full` and of a variant, by phase."""
    pytest.importorskip("torch", reason="fitting needs torch")
    ships = read_loop(Path(Host.load().find_spec(name).path)).chosen([variant])
    *others, preference = ships.run["rewards"]
    quick = {**preference, "settings": {**preference["settings"], "dimensions": 8, "epochs": 2}}
    update = {
        "rounds": 2,
        "run": {**ships.run, "rewards": [*others, quick]},
        "live": {**ships.live, "episodes": 12, "concurrency": 12},
        "train": {**ships.train, "updates": 1, "tasks": 2, "samples": 2, "evaluation": {"every": 1, "tasks": 2}},
        "exam": {**ships.exam, "episodes": exam},
    }
    small = ships.model_copy(update=update)
    Loop.at(folder, small, 1).do(Host.load())
    found: dict[str, list[dict[str, Any]]] = {}
    for one in ("Full", variant):
        for phase in ("1-live", "1-train", "2-live", "2-train", "exam"):
            (about,) = (folder / "cells" / f"{one}-1" / phase).glob("*/run.json")
            found.setdefault(one, []).append(json.loads(about.read_text("utf-8"))["spec"])
    return dict(found)


@pytest.mark.nightly
def test_the_assistants_loop_fits_one_model_and_each_cell_goes_on_with_what_its_users_accept(tmp_path: Path) -> None:
    for variant, phases in specs(tmp_path, "loop-assistant", "C3", 6).items():
        rewards = [{one["name"]: one["settings"] for one in spec["rewards"]} for spec in phases]
        start, first, again, second, exam = (
            str(Path(one["assistant_preference"]["model"]).relative_to(tmp_path)) for one in rewards
        )
        assert start == "shared/preferences-1"
        assert (first, second) == (again, exam)
        assert first.startswith(f"cells/{variant}-1/1-live/")
        assert second.startswith(f"cells/{variant}-1/2-live/")


@pytest.mark.nightly
def test_the_merchants_loop_hands_on_the_weights_and_the_preference_model(tmp_path: Path) -> None:
    for variant, (first, _, second, _, exam) in specs(tmp_path, "loop-merchant", "A1", 4).items():
        assert f"{variant}-1/2-train/" in json.dumps(exam["policy"])
        assert f"{variant}-1/2-live/" in json.dumps(exam["rewards"])
        assert first["environment"] != second["environment"]
