"""Figures of the pages come from kept results, and the commands that print them exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentfw_benchmarks.kept import kept_results
from agentfw_benchmarks.numbers import numbers
from agentfw_benchmarks.page_figures import figures_of, origins

from .snippets import BESIDE, PAGES, ROOT

RESULTS = kept_results()
NUMBERS = {name: kept.numbers for name, kept in RESULTS.items()}
_COMMAND = re.compile(r"python ((?:plugins/\w+/)?benchmarks/\w+\.py)([^`|\n]*)")
_TABLE = re.compile(r"(?P<above>[^\n]*)\n(?:\n)?(?P<head>^\|[^\n]+\|)\n\|[ :|-]+\|$", re.M)
NOT_YET = {"index.md"}
"""Results pages whose tables don't say yet whether their results are kept."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_figure_of_a_page_is_in_the_result_that_it_names(page: Path) -> None:
    figures = list(figures_of(page.read_text("utf-8"), page.name))

    found = origins(figures, NUMBERS)
    missing = [f"line {one.line}: {one.text}" for one in figures if not any(found[name][one] for name in one.names)]

    assert set(found) <= set(RESULTS)
    assert missing == []


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "results" in (page.parent.name, page.stem) and page.name not in NOT_YET],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_table_of_results_says_where_its_figures_are_kept_or_why_not(page: Path) -> None:
    text = page.read_text("utf-8")

    silent = [
        found["head"]
        for found in _TABLE.finditer(text)
        if not re.match("<!-- (figures|not kept): .+ -->", found["above"])
    ]

    assert silent == []


@pytest.mark.parametrize(
    "page",
    [*PAGES, *(folder / "benchmarks" / "README.md" for folder in (ROOT, *BESIDE.values()))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_command_that_measures_exists_and_has_these_options(page: Path) -> None:
    called = _COMMAND.findall(page.read_text("utf-8").replace("\\\n", " "))

    wrong = [f"{program}{words}" for program, words in called if not has_options(ROOT / program, words)]

    assert wrong == []


def has_options(program: Path, words: str) -> bool:
    """Whether the program is there and declares each option, itself or in the library's `Options`."""
    if not program.is_file() and program.name != "NAME.py":
        return False
    source = program.read_text("utf-8") if program.is_file() else ""
    options = set(re.findall(r"(?<!\S)--([a-z][\w-]*)", re.split("#| --new ", words)[0])) - {"json", "help"}
    return all(f'"--{name}"' in source or re.search(rf"\b{name.replace('-', '_')}=", source) for name in options)


def test_every_kept_result_has_a_program() -> None:
    gone = [name for name, kept in RESULTS.items() if not has_options(ROOT / kept.words[0], kept.command)]

    assert RESULTS
    assert gone == []


def texts_found(page: str, result: object) -> list[str]:
    """The figures of a page that are in a result."""
    found = origins(figures_of(page, "page.md"), {"one": numbers(result)})
    return [figure.text for figure, places in found["one"].items() if places]


def test_a_figure_is_looked_for_as_the_page_rounds_it_and_a_row_in_one_record() -> None:
    page = "<!-- figures: one; given: 0.95 -->\nIt is 0.984 (0.95 wanted), so 98%, in 12.5 ms.\n\nNot checked: 0.7\n"

    assert texts_found(page, {"share": 0.98361, "seconds": 0.01249}) == ["0.984", "98", "12.5"]
    assert texts_found(page, {"share": 0.9829, "seconds": 0.01261}) == ["98"]
    assert texts_found(page, ["| only printed | 0.984 ± 0.097 |"]) == ["0.984", "98"]

    page = "<!-- figures: one -->\n| loop | 0.501 | 0.25 | 0.125 |\n| event | 0.501 | 0.99 | 0.125 |\n"
    result = {"rows": [{"gain": 0.501, "missed": {"mean": 0.25}, "late": 0.125}, {"gain": 0.7, "missed": 0.99}]}

    found = origins(figures_of(page, "page.md"), {"one": numbers(result)})["one"]

    assert [(one.line, one.text) for one, places in found.items() if not places] == [(3, "0.99")]
