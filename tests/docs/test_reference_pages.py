"""The generated pages of all sites have what a reader looks for, from the code as it is.

They are written at night, as the sites are built.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from hook_page import hook_docs, hook_page

from agentfw import hookspecs
from agentfw.component import KINDS
from agentfw.runs.spec.schema import value_type

from .snippets import ROOT

CORE, PAPERS, CALENDAR = "agentfw", "agentfw-papers", "agentfw-calendar"

Pages = dict[str, dict[str, str]]
"""The text of each page of a site, by its path below reference/."""


@pytest.fixture(scope="module")
def pages() -> Pages:
    for needed in ("mkdocs", "agentfw_calendar", "agentfw_papers"):
        pytest.importorskip(needed)
    # In a process of its own: what other tests have loaded or changed is on no page.
    code = "import json, generated_pages as g; print(json.dumps({s: g.generated_pages(s) for s in g.SITES}))"
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs_making", capture_output=True, text=True, check=True
    )
    return {
        site: {path.removeprefix("reference/"): text for path, text in found.items()}
        for site, found in json.loads(made.stdout).items()
    }


@pytest.mark.nightly
def test_every_documented_class_and_function_is_explained(pages: Pages) -> None:
    sections = re.split(r"^### `", pages[CORE]["python.md"], flags=re.M)[1:]
    code = re.compile(r"\n    (?:@dataclass\n    )?(?:class (?!\w+\(\w*Settings\))|def |async def )")
    prose = re.compile(r"^(?!- <a|<a |Also here)\S", re.M)

    silent = [
        name
        for name, _, rest in (one.partition("`") for one in sections)
        if code.match(rest[1:]) and not prose.search(rest)
    ]

    assert len(sections) > 300
    assert silent == []


@pytest.mark.nightly
def test_every_component_is_on_the_page_of_its_kind(pages: Pages) -> None:
    assert "\n## calendar\n" in pages[CORE]["components/environment.md"]
    assert re.search(r"^- `warm_up=3` \(≥ 1\): \w", pages[CORE]["components/optimizer.md"], re.M)
    assert {f"components/{kind}.md" for kind in KINDS} <= pages[CORE].keys()
    assert "\n## kitchen\n" in pages[PAPERS]["components/policy.md"]


@pytest.mark.nightly
def test_every_spec_is_linked_to_its_file(pages: Pages) -> None:
    files = re.findall(r"^- \[`([\w-]+)`\]\(.*?/blob/main/(\S+)\): \w", pages[CORE]["specs.md"], re.M)

    assert {"default", "train-calendar", "serve"} <= {name for name, _ in files}
    assert [path for _, path in files if not (ROOT / path).is_file()] == []


@pytest.mark.nightly
def test_every_command_is_on_the_page_of_commands(pages: Pages) -> None:
    for name in ["run", "serve", "doctor", "runs resume", "memory recall"]:
        assert f"# agentfw {name}\n" in pages[CORE]["command-line.md"]
    for name in ["calendar", "calendar decide", "calendar serve"]:
        assert f"# agentfw {name}\n" in pages[CALENDAR]["command-line.md"]
    for name in ["proactive", "proactive domain check", "data make merchant"]:
        assert f"# agentfw {name}\n" in pages[PAPERS]["command-line.md"]


@pytest.mark.nightly
def test_a_reference_has_nothing_of_the_other_distribution(pages: Pages) -> None:
    core = "".join(pages[CORE].values())

    assert not re.search(
        r"agentfw calendar |agentfw proactive|agentfw data make (?!calendar|\[)|## kitchen|`merchant", core
    )
    assert "# agentfw run\n" not in pages[PAPERS]["command-line.md"]
    assert "`train-calendar`" not in pages[PAPERS]["specs.md"]


def test_every_hook_is_on_the_page_of_hooks() -> None:
    marked = {name for name, value in vars(hookspecs).items() if hasattr(value, "agentfw_spec")}

    assert {hook.name for hook in hook_docs()} == marked
    assert {kind.hook for kind in KINDS.values()} <= marked


def test_a_section_tells_how_to_write_the_hook() -> None:
    section = hook_page().partition("\n## agentfw_run_started\n")[2].partition("\n## ")[0]

    assert "def agentfw_run_started(" in section
    for label in ("Called", "With", "Returns", "Combined", "Since"):
        assert f"- **{label}:** " in section


def test_the_type_of_a_setting_reads_like_a_sentence() -> None:
    assert value_type({"type": "integer", "minimum": 1, "maximum": 5}, {}) == "integer, 1 to 5"
    assert value_type({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {}) == "number > 0, ≤ 1"
    assert value_type({"enum": ["one", "multi"]}, {}) == "`one`, `multi`"
    assert value_type({"anyOf": [{"type": "number"}, {"type": "null"}]}, {}) == "number or none"
    assert value_type({"$ref": "#/$defs/Dish"}, {"Dish": {"type": "object"}}) == "table"
