"""What a page of `agentfw view` looks like: nothing is out of sight or cut off, and everything says what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import play
from .test_view import read, runs_of

View = Callable[..., str]
OUT_OF_SIGHT = """(() => {
    const parts = document.querySelectorAll("main :is(td, th, dd, h1, p, pre, a, button, input, select)");
    const cut = [...parts].filter((one) => {
        const box = one.getBoundingClientRect();
        return one.checkVisibility() && !one.closest("pre") && (box.right > innerWidth + 1 || box.left < -1);
    });
    return cut.map((one) => `${one.tagName} ${one.textContent.trim().slice(0, 40)}`);
})()"""


@pytest.mark.slow
def test_everything_on_a_page_is_in_sight_also_on_a_telephone_and_with_long_names(
    runs: Path, view: View, chromium: Callable[..., Any]
) -> None:
    careful, failed = runs_of(runs)
    name = f"{'somebody' * 8}@department.example.org"
    for journal in ("episodes.jsonl", "metrics.jsonl"):
        file = failed.path / journal
        file.write_text(file.read_text().replace('"user":"user"', f'"user":"{name}"'))
    url = view(runs)
    browser = chromium()
    browser.size(380, 800)
    one, other = (f"{folder.id}/00000-0" for folder in (careful, failed))

    for page in ("/", "/?failure=refused&tool=open_message", f"/episode/{other}", f"/pair?left={one}&right={other}"):
        browser.open(f"{url}{page}")
        browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

        assert browser.evaluate(OUT_OF_SIGHT) == [], page
        assert browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, (
            page
        )
    assert name in httpx.get(f"{url}/").text


def test_an_episode_that_was_left_out_says_why_and_is_found_by_it(runs: Path, view: View) -> None:
    reason = {"episode": "00009-0", "stage": "play", "error": "PluginError", "reason": "the drawer is stuck"}
    (runs_of(runs)[0].path / "failed.jsonl").write_text(json.dumps(reason) + "\n")
    url = view(runs)

    for page in (f"{url}/?failure=left_out", f"{url}/?text=drawer", f"{url}/episode/{runs_of(runs)[0].id}/00009-0"):
        assert "the drawer is stuck" in read(page)


def test_a_run_in_which_no_episode_has_ended_yet_says_so(tmp_path: Path, view: View) -> None:
    folder = play(tmp_path)
    for file in folder.path.glob("*.jsonl"):
        file.write_text("")
    url = view(tmp_path)

    for address in ("/", f"/?run={folder.id}"):
        assert "No episode has ended yet" in read(f"{url}{address}")
    assert "No episode matches" in read(f"{url}/?run={folder.id}&text=mail")
    assert "no two runs to compare" in read(f"{url}/runs")
    assert "<select" not in read(f"{url}/runs")


def test_a_page_that_does_not_exist_leads_back(recorded: Path, view: View) -> None:
    answer = httpx.get(f"{view(recorded)}/nothing/here")

    assert answer.status_code == 404
    assert 'class="button" href="../' in answer.text
    assert answer.headers["content-security-policy"]
