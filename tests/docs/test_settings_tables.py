"""docs/reference/settings.md says what the spec's fields say, and its examples are specs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from settings_tables import insert, tables

from agentfw.runs.spec.run_spec import RunSpec, parse_spec

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_every_key_is_explained() -> None:
    made = tables()

    for name, field in RunSpec.model_fields.items():
        assert field.description, f"{name} has no description"
        assert re.search(rf"^- `{name}[`=].*: \w", made, re.M)


def test_the_examples_are_specs() -> None:
    examples = [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.S)]

    assert [parse_spec(example).episodes for example in examples if "environment" in example] == [24]


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="the page needs the line"):
        insert("# Settings\n")
