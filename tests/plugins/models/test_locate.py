"""Models are found by the name that a distribution gives them, and otherwise by their path."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentfw.errors import DuplicateComponentError, SettingsError
from agentfw_plugins.models import locate


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def install(site: Path, name: str, model: str) -> Path:
    """A distribution that brings a model. Its package can't be imported."""
    folder = site / name / "models" / model
    folder.mkdir(parents=True)
    for file in ("config.json", "tokenizer.json"):
        (folder / file).write_text("{}")
    (site / name / "__init__.py").write_text("raise RuntimeError('imported')")
    metadata = site / f"{name}-1.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 1.0.0\n")
    (metadata / "entry_points.txt").write_text(f"[agentfw.models]\n{name} = {name}.models\n")
    return folder


def test_a_model_of_a_plugin_is_found_without_importing_the_plugin(site: Path) -> None:
    folder = install(site, "teahouse", "oolong")

    assert locate("oolong") == folder
    assert locate(str(folder)) == folder


def test_two_models_of_one_name_are_told(site: Path) -> None:
    folders = [install(site, name, "oolong") for name in ("teahouse", "teashop")]

    with pytest.raises(DuplicateComponentError, match='the model "oolong" is there twice') as caught:
        locate("oolong")

    assert all(str(folder) in caught.value.message for folder in folders)


def test_the_models_that_ship_are_found_and_listed() -> None:
    assert locate("tiny").name == "tiny"
    with pytest.raises(SettingsError) as caught:
        locate("tinny")
    assert "tiny, tiny-early, tiny-sums" in caught.value.fix


def test_a_package_that_is_gone_is_no_trouble(site: Path) -> None:
    install(site, "teahouse", "oolong")
    (site / "teahouse" / "models").rename(site / "elsewhere")

    with pytest.raises(SettingsError, match="there is no model folder oolong"):
        locate("oolong")
