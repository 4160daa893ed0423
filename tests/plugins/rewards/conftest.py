"""A town where half of the people like museums and the other half football, and everybody goes to the market."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

PLACES = {
    "museum": [f"the museum of {what}" for what in ("painting", "sculpture", "printing", "glass", "maps", "clocks")],
    "football": [
        f"a football match of the {who}" for who in ("juniors", "veterans", "city", "harbour", "school", "army")
    ],
    "market": [f"the market on {day}" for day in ("Monday", "Friday")],
}


class Town(NamedTuple):
    likes: Path
    items: Path
    profiles: Path
    model: Path


def write(path: Path, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def tables(folder: Path) -> Town:
    items = [(f"{kind}-{place}", text) for kind, texts in PLACES.items() for place, text in enumerate(texts)]
    likes, profiles = [], []
    for number in range(24):
        kind = ("museum", "football")[number % 2]
        # Each leaves out one place of their kind, so that there is something to find.
        own = [name for name, _ in items if name.startswith(kind) and not name.endswith(str(number % 6))]
        likes += [(f"user-{number}", name) for name in [*own, "market-0", "market-1"]]
        profiles.append((f"user-{number}", f"often seen at a {kind}"))
    profiles.append(("newcomer", "often seen at a museum"))
    return Town(
        write(folder / "likes.csv", ("user", "item"), likes),
        write(folder / "items.csv", ("item", "text"), items),
        write(folder / "profiles.csv", ("user", "profile"), profiles),
        folder / "preferences",
    )


SETTINGS = {"dimensions": 16, "epochs": 40, "profile_epochs": 20, "batch": 64, "validation": 0.0}


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    torch = pytest.importorskip("torch", reason="fitting needs torch")
    torch.set_num_threads(1)  # on a busy machine threads that wait for each other would take the most of the time
    from agentfw_rewardmodels import PreferenceModel, PreferenceSettings

    made = tables(tmp_path_factory.mktemp("town"))
    settings = PreferenceSettings.from_mapping(SETTINGS)
    model = PreferenceModel.fit(
        made.likes, items=made.items, profiles=made.profiles, settings=settings, encoder="hash:256"
    )
    model.save(made.model)
    return made
