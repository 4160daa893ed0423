"""Models are found by the name that a distribution gives them, and otherwise by their path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.errors import SettingsError
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


def test_the_models_that_ship_are_found_and_listed() -> None:
    assert locate("tiny").name == "tiny"
    with pytest.raises(SettingsError) as caught:
        locate("tinny")
    assert "tiny, tiny-early, tiny-sums" in caught.value.fix


def test_an_adapter_says_what_to_set_instead(
    make_model: Callable[..., Path], make_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    base = make_model(tmp_path / "base")
    adapter = make_adapter(base, tmp_path / "adapter")

    with pytest.raises(SettingsError, match=r"is an adapter of .*, and no model") as caught:
        locate(str(adapter))

    assert caught.value.fix == f"set policy.model={base} and policy.adapter={adapter}"


def test_a_run_says_how_its_policy_is_meant(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")

    with pytest.raises(SettingsError, match="is a run, and no model") as caught:
        locate(str(tmp_path))

    assert f"--policy {tmp_path}" in caught.value.fix
