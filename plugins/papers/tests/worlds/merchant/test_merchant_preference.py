"""The reward that is a preference model of what merchants took on before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from agentfw import Episode, Host, Task
from agentfw.episode import Event
from agentfw.testing import contract, made_by
from agentfw.testing.checks import CheckFunction, run_check
from agentfw.testing.samples import sample_episodes
from agentfw_papers.loops import Loop, read_loop
from agentfw_papers.rewards.log_preference import LogPreferenceSettings
from agentfw_papers.worlds.merchant.logs import write_logs
from agentfw_papers.worlds.merchant.merchant_settings import MerchantSettings
from agentfw_papers.worlds.merchant.merchants import Merchants
from agentfw_papers.worlds.merchant.rewards import MerchantPreference


def fitted(home: Path, **more: Any) -> str:
    """A model that the reward itself has fitted: of the default world, or of a log."""
    torch = pytest.importorskip("torch", reason="fitting needs torch")
    torch.set_num_threads(1)
    MerchantPreference(LogPreferenceSettings(model=str(home), dimensions=16, **more))
    return str(home)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("merchant")
    write_logs(folder / "logs", MerchantSettings(train_merchants=20, validation_merchants=2, test_merchants=2))
    return fitted(folder / "model", logs=str(folder / "logs"), epochs=1)


def host() -> Host:
    return Host.load()


def took_on(item: str, text: str, merchant: str = "train 1") -> Episode:
    effects = [{"item": item, "text": text, "verdict": "accepted"}]
    return Episode(Task(0, 7, user=merchant), events=[Event(1, "observation", "reaction", {"effects": effects})])


@pytest.mark.nightly
def test_products_that_suit_the_merchant_are_rewarded(tmp_path: Path) -> None:
    model = MerchantPreference(LogPreferenceSettings(model=fitted(tmp_path / "model", epochs=16)))
    merchants = Merchants(MerchantSettings())
    better = []

    for number in range(60):
        merchant = merchants.merchant(f"train {number}")
        category = list(merchants.market.categories)[number % 12]
        products = sorted(
            merchants.market.categories[category].products,
            key=lambda product: merchants.truth(merchant, category, product),
        )
        low, high = (
            next(
                score.value
                for score in asyncio.run(model.score([took_on(one, merchants.in_words(category, one), merchant.name)]))
                if score.counts
            )
            for one in (products[0], products[-1])
        )
        better.append(high > low)

    # Chance is 0.5, with a standard error of 0.065.
    assert fmean(better) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("check", contract("reward"))
def test_it_keeps_the_promises_of_a_reward_model(model: str, check: CheckFunction) -> None:
    make = made_by(host(), "reward", "merchant_preference", {"model": model})

    result = run_check(check, make, episodes=sample_episodes(), time_limit=60)

    assert result.passed, result.detail


@pytest.mark.nightly
def test_the_loop_that_ships_hands_on_the_weights_and_the_preference_model(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="fitting needs torch")
    ships = read_loop(Path(host().find_spec("loop-merchant").path)).chosen(["A1"])
    *others, preference = ships.run["rewards"]
    quick = {**preference, "settings": {**preference["settings"], "dimensions": 8, "epochs": 2}}
    small = ships.model_copy(
        update={
            "run": {**ships.run, "rewards": [*others, quick]},
            "live": {**ships.live, "episodes": 12, "concurrency": 12},
            "train": {**ships.train, "updates": 1, "tasks": 2, "samples": 2, "evaluation": {"every": 1, "tasks": 2}},
            "exam": {**ships.exam, "episodes": 4},
        }
    )

    Loop.at(tmp_path, small, 1).do(host())

    def spec(variant: str, phase: str) -> dict[str, object]:
        (about,) = (tmp_path / "cells" / f"{variant}-1" / phase).glob("*/run.json")
        found: dict[str, object] = json.loads(about.read_text("utf-8"))["spec"]
        return found

    for variant in ("Full", "A1"):
        first, second, exam = (spec(variant, phase) for phase in ("1-live", "2-live", "exam"))
        assert f"{variant}-1/2-train/" in json.dumps(exam["policy"])
        assert f"{variant}-1/2-live/" in json.dumps(exam["rewards"])
        assert first["environment"] != second["environment"]
