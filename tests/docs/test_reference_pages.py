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
def test_a_type_is_shown_as_a_user_writes_it(pages: Pages) -> None:
    members = re.findall(r"^- <a .*?</a>(.*)", pages[CORE]["python.md"], re.M)

    assert [one for one in members if one.startswith("`weight: float | str = Field(1.0, ")]
    assert [one for one in members if "Annotated[" in one] == []


@pytest.mark.nightly
def test_every_component_spec_and_command_is_on_the_pages_of_its_distribution_and_on_no_other(pages: Pages) -> None:
    core, papers = pages[CORE], pages[PAPERS]
    files = re.findall(r"^- \[`([\w-]+)`\]\(.*?/blob/main/(\S+)\): \w", core["specs.md"], re.M)

    assert "\n## calendar\n" in core["components/environment.md"]
    assert re.search(r"^- `warm_up=3` \(≥ 1\): \w", core["components/optimizer.md"], re.M)
    assert {f"components/{kind}.md" for kind in KINDS} <= core.keys()
    assert "\n## kitchen\n" in papers["components/policy.md"]
    assert {"default", "train-calendar", "serve"} <= {name for name, _ in files}
    assert [path for _, path in files if not (ROOT / path).is_file()] == []
    for site, commands in {
        CORE: ("run", "serve", "doctor", "runs resume", "memory recall"),
        CALENDAR: ("calendar", "calendar decide", "calendar serve"),
        PAPERS: ("proactive", "proactive domain check", "data make merchant"),
    }.items():
        assert [name for name in commands if f"# agentfw {name}\n" not in pages[site]["command-line.md"]] == []
    others = r"agentfw calendar |agentfw proactive|agentfw data make (?!calendar|\[)|## kitchen|`merchant"
    assert not re.search(others, "".join(core.values()))
    assert "# agentfw run\n" not in papers["command-line.md"]
    assert "`train-calendar`" not in papers["specs.md"]


def test_every_hook_is_on_the_page_of_hooks_which_tells_how_to_write_it() -> None:
    marked = {name for name, value in vars(hookspecs).items() if hasattr(value, "agentfw_spec")}
    section = hook_page().partition("\n## agentfw_run_started\n")[2].partition("\n## ")[0]

    assert {hook.name for hook in hook_docs()} == marked
    assert {kind.hook for kind in KINDS.values()} <= marked
    assert "def agentfw_run_started(" in section
    for label in ("Called", "With", "Returns", "Combined", "Since"):
        assert f"- **{label}:** " in section


def test_the_type_of_a_setting_reads_like_a_sentence() -> None:
    assert value_type({"type": "integer", "minimum": 1, "maximum": 5}, {}) == "integer, 1 to 5"
    assert value_type({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {}) == "number > 0, ≤ 1"
    assert value_type({"enum": ["one", "multi"]}, {}) == "`one`, `multi`"
    assert value_type({"anyOf": [{"type": "number"}, {"type": "null"}]}, {}) == "number or none"
    assert value_type({"$ref": "#/$defs/Dish"}, {"Dish": {"type": "object"}}) == "table"
