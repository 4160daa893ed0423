"""A model of others is data: its folder runs no code of its own, and its template ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from agentfw.errors import AgentfwError
from agentfw_plugins.models import Chat, load_base


@pytest.fixture
def foreign(small_model: Path, tmp_path: Path) -> Path:
    """A copy of a small model that nobody else uses."""
    shutil.copytree(small_model, tmp_path / "foreign")
    return tmp_path / "foreign"


def test_the_code_of_a_models_folder_is_not_run_even_if_somebody_types_y(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads((foreign / "config.json").read_text())
    config |= {"model_type": "other", "auto_map": {"AutoConfig": "other.Config", "AutoModelForCausalLM": "other.Model"}}
    (foreign / "config.json").write_text(json.dumps(config))
    told = {
        **json.loads((foreign / "tokenizer_config.json").read_text()),
        "auto_map": {"AutoTokenizer": ["other.T", None]},
    }
    (foreign / "tokenizer_config.json").write_text(json.dumps(told | {"tokenizer_class": "Other"}))
    ran = tmp_path / "ran"
    (foreign / "other.py").write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")

    with pytest.raises((AgentfwError, ValueError)):
        load_base(foreign, "fp32", "cpu")
    with pytest.raises((AgentfwError, ValueError)):
        Chat(foreign)

    assert not ran.exists()
