"""The generated pages of docs/reference/ say what the code says today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from component_page import value_type
from hook_page import hook_docs, hook_page
from write_reference import REFERENCE, reference_pages

from agentfw import hookspecs
from agentfw.component import KINDS
from agentfw_cli.main import _COMMANDS

HOW = "run: python docs_making/write_reference.py"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages()


def test_every_generated_page_is_up_to_date(pages: dict[str, str]) -> None:
    stale = [path for path, text in pages.items() if _written(REFERENCE / path) != text]

    assert stale == [], HOW


def test_every_component_is_on_the_page_of_its_kind(pages: dict[str, str]) -> None:
    assert "\n## calendar\n" in pages["components/environment.md"]
    assert re.search(r"\| `warm_up` \| integer, .* \| `3` \| .+ \|", pages["components/optimizer.md"])
    assert {f"components/{kind}.md" for kind in KINDS} <= pages.keys()


def test_every_command_is_on_the_page_of_commands(pages: dict[str, str]) -> None:
    for name in [*_COMMANDS, "runs resume", "memory recall"]:
        assert f"# agentfw {name}\n" in pages["command-line.md"]


def test_every_hook_is_on_the_page_of_hooks() -> None:
    marked = {name for name, value in vars(hookspecs).items() if hasattr(value, "agentfw_spec")}

    assert {hook.name for hook in hook_docs()} == marked
    assert {kind.hook for kind in KINDS.values()} <= marked


def test_a_section_tells_how_to_write_the_hook() -> None:
    section = hook_page().partition("\n## agentfw_updated\n")[2].partition("\n## ")[0]

    assert "def agentfw_updated(" in section
    for label in ("Called", "With", "Returns", "Combined", "Since"):
        assert f"- **{label}:** " in section


def test_the_type_of_a_setting_reads_like_a_sentence() -> None:
    assert value_type({"type": "integer", "minimum": 1, "maximum": 5}, {}) == "integer, at least 1, at most 5"
    assert value_type({"enum": ["one", "multi"]}, {}) == "`one`, `multi`"
    assert value_type({"anyOf": [{"type": "number"}, {"type": "null"}]}, {}) == "number or none"
    assert value_type({"$ref": "#/$defs/Dish"}, {"Dish": {"type": "object"}}) == "table"


def _written(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
