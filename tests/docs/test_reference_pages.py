"""The generated pages of all references say what the code says today."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from component_page import value_type
from hook_page import hook_docs, hook_page
from write_reference import CALENDAR, CORE, PAPERS, ROOT

from agentfw import hookspecs
from agentfw.component import KINDS
from agentfw_cli.main import _COMMANDS

HOW = "run: python docs_making/write_reference.py"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    pytest.importorskip("agentfw_calendar")
    pytest.importorskip("agentfw_papers")
    # In a process of its own: what other tests have loaded or changed is on no page.
    code = "import json; from write_reference import reference_pages; print(json.dumps(reference_pages()))"
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs_making", capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(made.stdout)
    return found


def test_every_generated_page_is_up_to_date(pages: dict[str, str]) -> None:
    stale = [path for path, text in pages.items() if _written(ROOT / path) != text]

    assert stale == [], HOW


def test_no_generated_page_is_left_over(pages: dict[str, str]) -> None:
    found = [path for folder in (CALENDAR, CORE, PAPERS) for path in (ROOT / folder).rglob("*.md")]

    left = [path for path in found if _written(path).startswith("<!-- Generated")]

    assert {path.relative_to(ROOT).as_posix() for path in left} <= pages.keys()


def test_every_component_is_on_the_page_of_its_kind(pages: dict[str, str]) -> None:
    assert "\n## calendar\n" in pages[f"{CORE}/components/environment.md"]
    assert re.search(r"^- `warm_up=3` \(≥ 1\): \w", pages[f"{CORE}/components/optimizer.md"], re.M)
    assert {f"{CORE}/components/{kind}.md" for kind in KINDS} <= pages.keys()
    assert "\n## kitchen\n" in pages[f"{PAPERS}/components/policy.md"]


def test_settings_of_several_components_are_listed_once_with_each_default(pages: dict[str, str]) -> None:
    optimizers = pages[f"{CORE}/components/optimizer.md"]

    (row,) = re.findall(r"^- `clip_high=.*$", optimizers, re.M)

    assert row.startswith("- `clip_high=0.2`, ")
    assert "`0.0004` in gspo" in row
    assert "\n## gspo\n\nAlso the [shared settings](#shared-by-dapo-" in optimizers


def test_options_of_several_commands_are_explained_once(pages: dict[str, str]) -> None:
    commands = pages[f"{CORE}/command-line.md"]
    recall = commands.partition("### agentfw memory recall\n")[2].partition("\n### ")[0]

    assert commands.count("Directory of runs. Default: ./runs.") == 1
    assert "All of them have `--store` and `--tenant`." in commands.partition("## agentfw memory\n")[2]
    assert "Also: `-k`, `--where` ([above](#agentfw-memory))." in recall
    assert "  --why " in recall
    assert "  --store" not in recall


def test_every_spec_is_linked_to_its_file(pages: dict[str, str]) -> None:
    files = re.findall(r"^- \[`([\w-]+)`\]\(.*?/blob/main/(\S+)\): \w", pages[f"{CORE}/specs.md"], re.M)

    assert {"default", "train-calendar", "serve"} <= {name for name, _ in files}
    assert [path for _, path in files if not (ROOT / path).is_file()] == []


def test_every_command_is_on_the_page_of_commands(pages: dict[str, str]) -> None:
    for name in [*_COMMANDS, "runs resume", "memory recall", "data make calendar"]:
        assert f"# agentfw {name}\n" in pages[f"{CORE}/command-line.md"]
    for name in ["calendar", "calendar decide", "calendar serve"]:
        assert f"# agentfw {name}\n" in pages[f"{CALENDAR}/command-line.md"]
    for name in ["proactive", "proactive domain check", "data warm merchant"]:
        assert f"# agentfw {name}\n" in pages[f"{PAPERS}/command-line.md"]


def test_a_reference_has_nothing_of_the_other_distribution(pages: dict[str, str]) -> None:
    core = "".join(text for path, text in pages.items() if path.startswith(f"{CORE}/"))

    assert not re.search(
        r"agentfw calendar |agentfw proactive|agentfw data make (?!calendar|\[)|## kitchen|`merchant", core
    )
    assert "# agentfw run\n" not in pages[f"{PAPERS}/command-line.md"]
    assert "`train-calendar`" not in pages[f"{PAPERS}/specs.md"]


def test_every_hook_is_on_the_page_of_hooks() -> None:
    marked = {name for name, value in vars(hookspecs).items() if hasattr(value, "agentfw_spec")}

    assert {hook.name for hook in hook_docs()} == marked
    assert {kind.hook for kind in KINDS.values()} <= marked


def test_a_section_tells_how_to_write_the_hook() -> None:
    section = hook_page().partition("\n## agentfw_run_started\n")[2].partition("\n## ")[0]

    assert "def agentfw_run_started(" in section
    for label in ("Called", "With", "Returns", "Combined", "Since"):
        assert f"- **{label}:** " in section


def test_a_hook_like_an_earlier_one_has_only_what_differs() -> None:
    section = hook_page().partition("\n## agentfw_updated\n")[2].partition("\n## ")[0]

    assert "- **Called:** after each update" in section
    assert "- **Combined:**" not in section
    assert section.rstrip().endswith("- Otherwise as [`agentfw_run_started`](#agentfw_run_started).")


def test_the_type_of_a_setting_reads_like_a_sentence() -> None:
    assert value_type({"type": "integer", "minimum": 1, "maximum": 5}, {}) == "integer, 1 to 5"
    assert value_type({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {}) == "number > 0, ≤ 1"
    assert value_type({"enum": ["one", "multi"]}, {}) == "`one`, `multi`"
    assert value_type({"anyOf": [{"type": "number"}, {"type": "null"}]}, {}) == "number or none"
    assert value_type({"$ref": "#/$defs/Dish"}, {"Dish": {"type": "object"}}) == "table"


def _written(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
