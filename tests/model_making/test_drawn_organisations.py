"""Drawn organisations: years can be made in each, no two share their words, and lessons are played in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_organisations import write_organisations
from tiny_lessons import play

from agentfw_plugins.worlds.calendar.dataset import Dataset, is_sound
from agentfw_plugins.worlds.calendar.schema import load_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    write_organisations(folder, count=5, seed=3)
    return folder


@pytest.mark.slow
def test_a_year_can_be_made_in_each(folder: Path) -> None:
    schemas = load_folder(folder)

    assert len(schemas) == 5
    for schema in schemas:
        dataset = Dataset(9, (schema,))
        user = dataset.user(dataset.users("test")[0])
        assert all(is_sound(shown, user) for shown in dataset.calendar(user).rounds)


@pytest.mark.slow
def test_one_seed_draws_the_same_files_and_another_seed_others(folder: Path, tmp_path: Path) -> None:
    write_organisations(tmp_path / "again", count=2, seed=3)
    write_organisations(tmp_path / "other", count=2, seed=4)

    texts = {path.read_text("utf-8") for path in folder.iterdir()}
    assert {path.read_text("utf-8") for path in (tmp_path / "again").iterdir()} <= texts
    assert not {path.read_text("utf-8") for path in (tmp_path / "other").iterdir()} & texts


@pytest.mark.slow
def test_every_second_year_is_played_in_a_drawn_organisation(folder: Path) -> None:
    names = {schema.archetype for schema in load_folder(folder)}

    years = list(play("train", 4, processes=1, organisations=str(folder)))

    drawn = [any(name in year[0][0][-1].content for name in names) for year in years]
    assert drawn == [False, True, False, True]
