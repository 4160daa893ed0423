"""What single pages promise: README, news, the papers' claims, the settings, and why a training doesn't learn.

And the generated ones: they have what a reader looks for, from the code as it is. They are written at night, as the
sites are built.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

import pytest
from hook_page import hook_docs, hook_page
from papers_page import VERDICTS, papers
from settings_tables import insert, tables

from agentfw import hookspecs
from agentfw.component import KINDS
from agentfw.runs.records.summary import WHY_NO_LEARNING, nothing_learned
from agentfw.runs.spec.run_spec import RunSpec, parse_spec
from agentfw.runs.spec.schema import value_type

from .snippets import ROOT

README = (ROOT / "README.md").read_text("utf-8")
NO_LEARNING = ROOT / "docs" / "guides" / "why-no-learning.md"
COUNTS = ("groups", "groups_alike", "groups_learned")


def test_the_readme_is_a_first_screen_with_three_doors_and_two_pictures() -> None:
    doors = re.findall(r"^\*\*You [^*]+\*\*.+?```sh\n(.+?)```", README, re.M | re.S)
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)

    assert len(README.split()) <= 550, "it is read in two minutes"
    assert [len(door.splitlines()) <= 3 for door in doors] == [True] * 3
    assert [(ROOT / picture).is_file() for picture in pictures] == [True] * 2
    assert re.findall(r"^pip install .*pytest", README, re.M) != [], "ci takes its command from here"


def test_a_news_fragment_is_one_line_of_a_known_type_which_towncrier_finds_a_place_for() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
    name = rf"\+[a-z-]+\.({'|'.join(each['directory'] for each in configured['type'])})\.md"
    fragments = [path for path in (ROOT / "news").iterdir() if path.name != "README.md"]

    wrong = [
        path.name
        for path in fragments
        if not re.fullmatch(name, path.name) or not re.fullmatch(r"\S[^\n]{10,250}\.\n", path.read_text("utf-8"))
    ]

    assert wrong == []
    assert "<!-- towncrier release notes start -->\n" in (ROOT / configured["filename"]).read_text("utf-8")


@pytest.mark.parametrize(
    "claim", [claim for paper in papers() for claim in paper["claim"]], ids=lambda one: one["claim"][:30]
)
def test_a_claim_of_a_paper_has_a_verdict_with_a_reason_and_figures_of_the_page_it_names(claim: dict[str, str]) -> None:
    page = (ROOT / claim["from"]).read_text("utf-8") if "from" in claim else ""

    assert claim["verdict"] in VERDICTS
    assert "why" in claim or claim["verdict"] == "same"
    assert ("ours" in claim) == ("from" in claim)
    assert "ours" in claim or claim["verdict"] in ("not measured", "not told apart")
    assert [figure for figure in re.findall(r"\d+\.\d+", claim.get("ours", "")) if figure not in page] == []
    # A training that is compared with itself, by a setting that changes nothing, is no finding.
    assert claim["verdict"] != "same" or "[+0.000, +0.000]" not in claim["ours"]


def test_every_key_of_a_spec_is_explained_and_the_examples_are_specs() -> None:
    made = tables()
    page = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    examples = [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", page, re.S)]

    silent = [name for name in RunSpec.model_fields if not re.search(rf"^- `{name}[`=].*: \w", made, re.M)]

    assert silent == []
    assert [parse_spec(example).episodes for example in examples if "environment" in example] == [24]
    with pytest.raises(ValueError, match="the page needs the line"):
        insert("# Settings\n")


def test_why_a_training_does_not_learn_names_figures_that_are_recorded_and_messages_as_they_are_printed() -> None:
    sources = [*(ROOT / "framework").rglob("*.py"), *(ROOT / "plugins" / "agentfw_plugins").rglob("*.py")]
    code, page = "\n".join(path.read_text("utf-8") for path in sources), NO_LEARNING.read_text("utf-8")
    cases = [(8, 8, 0), (8, 2, 0), (0, 0, 0), (8, 2, 6)]
    messages = [nothing_learned({"rollouts": dict(zip(COUNTS, case, strict=True)), "served": {}}) for case in cases]

    named = re.findall(r"`(?:rollouts|learner|served)\.([a-z_]+)`", page)

    assert len(named) > 6
    assert [name for name in named if not re.search(rf"\b{name}\b[\"\s]*[=:,)]", code)] == []
    assert [message for message in messages if f"`{message}`" not in page] == []
    assert str(NO_LEARNING.relative_to(ROOT)) in WHY_NO_LEARNING


# -- pages that are made from the code ---------------------------------------------------------------------------------

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
