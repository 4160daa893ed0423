"""docs/hooks.md is what the hookspecs say."""

from __future__ import annotations

from pathlib import Path

from agentfw import hookspecs
from agentfw.component import KINDS
from agentfw.host.hookdocs import hook_docs, render

PAGE = Path(__file__).parents[2] / "docs" / "hooks.md"


def test_the_page_is_up_to_date() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""

    assert written == render(), "docs/hooks.md is old; run: python -m agentfw.host.hookdocs > docs/hooks.md"


def test_every_hook_is_on_the_page() -> None:
    marked = {name for name, value in vars(hookspecs).items() if hasattr(value, "agentfw_spec")}

    assert {hook.name for hook in hook_docs()} == marked
    assert {kind.hook for kind in KINDS.values()} <= marked


def test_a_section_tells_how_to_write_the_hook() -> None:
    section = render().partition("\n## agentfw_updated\n")[2].partition("\n## ")[0]

    assert "def agentfw_updated(run: RunInfo, version: str, metrics: Mapping[str, float]) -> None" in section
    for label in ("Called", "With", "Returns", "Combined", "Since"):
        assert f"- **{label}:** " in section
