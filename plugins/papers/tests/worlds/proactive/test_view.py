"""The page that `agentfw view` has for a proactive run, in a real Chromium where there is one."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentfw import Run
from agentfw.errors import UsageError
from agentfw.report.statistics import bootstrap
from agentfw.runs import RunFolder, parse_spec
from agentfw.testing import fresh_host
from agentfw_papers.timing import Opportunity, Windows
from agentfw_papers.worlds.proactive.environment import Proactive, read_turn
from agentfw_papers.worlds.proactive.settings import ProactiveSettings
from agentfw_papers.worlds.proactive.view import view_page
from agentfw_papers.worlds.proactive.view_data import mark_of
from agentfw_plugins.view.bundle import write_bundle
from agentfw_plugins.view.index import Index

HOST = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False)
EVIL = '</script><script>window.taken=1</script><img src=x onerror="window.taken=1"> \x00\x1b[31m\u202e'

Browsers = Callable[..., Any]
"""The fixture `chromium`: starts a browser."""


def run(root: Path, unit: str = "dialogue", *, episodes: int = 6, **policy: Any) -> RunFolder:
    spec = {
        "environment": {"name": "proactive", "settings": {"unit": unit, "dialogues": 60}},
        "policy": {"name": "scripted", "settings": policy},
        "rewards": ["proactive_ac"],
        "episodes": episodes,
    }
    made = Run.create(parse_spec(spec), HOST, root)
    asyncio.run(made.execute())
    return RunFolder.open(made.folder.path)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("runs"))


def page(folder: RunFolder, tmp_path: Path, **options: Any) -> Path:
    file = tmp_path / "view.html"
    file.write_bytes(view_page(folder, HOST, **options).encode())
    return file


def data_of(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert found
    return json.loads(found[1])


# -- what the page says ------------------------------------------------------------------------------------------------


def test_its_figures_are_those_of_the_run(played: RunFolder) -> None:
    html = view_page(played, HOST)

    for name, label in (("ac", "AC"), ("pt", "PT"), ("balance", "balance")):
        values = [record["outcome"][name] for record in played.metrics()]
        found = bootstrap([float(value) for value in values])
        assert f"<th scope=row>{label}</th><td>{found.estimate:.3f} " in html
    for record in played.metrics():
        assert f"<td data-figure=balance data-value={record['outcome']['balance']:.6f}>" in html


@pytest.mark.slow
def test_single_turns_are_gathered_by_dialogue(tmp_path: Path) -> None:
    folder = run(tmp_path, "turn", episodes=40)

    html = view_page(folder, HOST)

    dialogues = data_of(html)["dialogues"]
    expected = Counter(record["user"] for record in folder.metrics())
    assert {one["id"]: len(one["stages"][0]) for one in dialogues} == expected


def test_a_mark_says_how_a_prediction_stands_to_the_window() -> None:
    windows = Windows({"send-link": (4, 5, 9)})

    marks = {turn: mark_of(Opportunity("send-link", "ready_to_trigger"), turn, windows) for turn in (3, 4, 7, 9, 10)}

    assert marks == {3: "early", 4: "right", 7: "early", 9: "right", 10: "late"}
    assert mark_of(Opportunity("send-link", "pending"), 4, windows) == "waiting"
    assert mark_of(Opportunity("notify-team", "triggered"), 4, windows) == "never"


def test_an_input_is_marked_wrong_where_the_reference_says_otherwise(tmp_path: Path) -> None:
    folder = run(tmp_path, replies=("pull-up-account pending customer_name=Nobody",))

    html = view_page(folder, HOST)

    inputs = {
        (value, wrong)
        for one in data_of(html)["dialogues"]
        for number, turn in one["stages"][0].items()
        for each in turn["predicted"]
        if any(row["name"] == each["name"] for row in one["references"].get(number, []))
        for name, value, wrong in each["inputs"]
        if name == "customer_name"
    }
    assert ("Nobody", True) in inputs


def test_the_judge_says_why(tmp_path: Path) -> None:
    spec = parse_spec(
        {
            "environment": {"name": "proactive", "settings": {"dialogues": 20, "answers": "lines"}},
            "policy": {"name": "scripted", "settings": {"replies": ["search-faq ready_to_trigger", "nothing"]}},
            "rewards": [{"name": "rubric", "settings": {"policy": "timing_judge"}}],
            "episodes": 4,
            "samples": 2,
        }
    )
    made = Run.create(spec, HOST, tmp_path)
    asyncio.run(made.execute())

    html = view_page(RunFolder.open(made.folder.path), HOST)

    reasons = [turn["reason"] for one in data_of(html)["dialogues"] for turn in one["stages"][0].values()]
    assert len(reasons) == 4
    assert all(reason.startswith("hits ") for reason in reasons)


@pytest.mark.slow
def test_the_end_of_a_run_and_its_report_name_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentfw", "run", "proactive", "--episodes", "1", "--runs", str(tmp_path / "mine")]

    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)

    [folder] = (tmp_path / "mine").iterdir()
    assert f"agentfw view mine/{folder.name}" in done.stderr
    assert f"agentfw view {folder.name}" in (folder / "report.html").read_text()


def test_figures_where_something_is_expected_stand_below_the_others(played: RunFolder) -> None:
    html = view_page(played, HOST)

    means = []
    for episode in played.episodes():
        expected = {one.round for one in episode.measures if one.name == "expected" and one.value}
        silent = [one.value for one in episode.measures if one.name == "silent" and one.round in expected]
        means.append(sum(silent) / len(silent))
    below = html.partition("At turns where the reference expects an action")[2]
    assert f"<th scope=row>silent</th><td>{bootstrap(means).estimate:.3f} " in below


@pytest.mark.slow
def test_sixty_dialogues_are_at_most_five_megabytes(tmp_path: Path) -> None:
    folder = run(tmp_path, episodes=60)

    html = view_page(folder, HOST)

    assert len(data_of(html)["dialogues"]) == 60
    assert len(html.encode()) < 5_000_000


def test_of_many_dialogues_the_worst_the_middle_and_the_best_can_be_opened(played: RunFolder) -> None:
    wanted = played.metrics()[0]["user"]

    found = data_of(view_page(played, HOST, most=1, episode=wanted))

    by_balance = sorted(played.metrics(), key=lambda record: (record["outcome"]["balance"], record["user"]))
    assert found["dialogues"][0]["id"] == wanted
    assert [name for _, name in found["extremes"]][::2] == [by_balance[0]["user"], by_balance[-1]["user"]]
    assert {name for _, name in found["extremes"]} <= {one["id"] for one in found["dialogues"]}


def test_a_dialogue_that_is_not_there_is_an_error(played: RunFolder) -> None:
    with pytest.raises(UsageError, match="nobody"):
        view_page(played, HOST, episode="nobody")


def test_a_run_in_another_world_is_refused(tmp_path: Path) -> None:
    made = Run.create(parse_spec({"environment": "inbox", "policy": "random", "episodes": 1}), HOST, tmp_path)

    with pytest.raises(UsageError, match="inbox"):
        view_page(made.folder, HOST)


def test_a_run_that_has_just_begun_says_so(tmp_path: Path) -> None:
    spec = parse_spec({"environment": "proactive", "policy": "scripted", "episodes": 3})
    made = Run.create(spec, HOST, tmp_path)

    html = view_page(made.folder, HOST)

    assert "0 of 3 episodes are done" in html
    assert "no prediction to show yet" in html


def test_of_a_damaged_journal_the_rest_is_shown(played: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(played.path, copy)
    lines = (copy / "episodes.jsonl").read_text().splitlines(keepends=True)
    (copy / "episodes.jsonl").write_text("".join([*lines[:3], lines[3].replace('"turns"', '"tuns"'), *lines[4:]]))

    html = view_page(RunFolder.open(copy), HOST)

    assert "Not all episodes can be read" in html
    assert len(data_of(html)["dialogues"]) == 3


# -- as a part of `agentfw view` ---------------------------------------------------------------------------------------


@contextmanager
def viewed(runs: Path) -> Iterator[str]:
    """`agentfw view`. Gives its address."""
    command = [sys.executable, "-m", "agentfw", "view", "--runs", str(runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@pytest.mark.slow
def test_agentfw_view_leads_to_the_page_of_a_run(played: RunFolder, chromium: Browsers) -> None:
    with viewed(played.path.parent) as url:
        browser = chromium()
        browser.open(url)
        browser.wait("document.querySelectorAll('.episodes tbody tr').length")
        browser.open(url)  # with the runs, which are read by now
        browser.follow(".runs .chip")
        browser.wait("document.querySelector('.grid')")
        dialogues = browser.evaluate("document.querySelectorAll('#dialogues tbody tr').length")
        browser.follow("main a")
        browser.wait("document.querySelectorAll('.episodes tbody tr').length")

        assert dialogues == len(data_of(view_page(played, HOST))["dialogues"])
        assert [one for one in browser.problems if not one.startswith(url)] == []


def test_a_bundle_has_the_page_of_a_run(played: RunFolder, tmp_path: Path) -> None:
    index = Index(played.path.parent)
    index.refresh()
    write_bundle(index, [played.path.name], tmp_path / "site", HOST)

    page = (tmp_path / "site" / f"{played.path.name}~inspect.html").read_text("utf-8")
    assert data_of(page) == data_of(view_page(played, HOST))
    episode = next(
        one for one in (tmp_path / "site").glob("*.html") if "inspect" not in one.name and one.name != "index.html"
    )
    assert f'href="{played.path.name}~inspect.html"' in episode.read_text("utf-8").replace("%7E", "~")


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_grid_has_the_references_and_the_predictions(played: RunFolder, tmp_path: Path, chromium: Browsers) -> None:
    episode = next(iter(played.episodes()))
    environment = Proactive(ProactiveSettings(unit="dialogue", dialogues=60))
    example = environment.example(episode.task)
    predicted = Counter(
        mark_of(one, turn.round, example.annotation.windows)
        for turn in episode.turns
        for one in read_turn(turn, environment.catalog).opportunities
    )

    browser = chromium()
    browser.open(page(played, tmp_path, episode=example.id))

    assert browser.evaluate("document.querySelectorAll('.grid .band').length") == sum(
        map(len, example.annotation.windows.values())
    )
    assert browser.evaluate("document.querySelectorAll('.grid .tick').length") == len(example.dialogue.triggers)
    for mark, count in predicted.items():
        assert browser.evaluate(f"document.querySelectorAll('.grid .mark.{mark}').length") == count
    assert browser.problems == []


@pytest.mark.slow
def test_turns_are_chosen_with_the_keyboard(played: RunFolder, tmp_path: Path, chromium: Browsers) -> None:
    browser = chromium()
    browser.open(page(played, tmp_path))
    texts = browser.evaluate("data.dialogues[0].turns.map((one) => one.text)")

    browser.evaluate("document.querySelector('.grid button[aria-pressed=true]').focus()")
    for key, turn in (("Home", 1), ("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", len(texts))):
        browser.press(key)

        assert browser.evaluate("document.activeElement.textContent") == str(turn)
        assert browser.evaluate("document.querySelectorAll('.talk li').length") == turn
        assert browser.evaluate("document.querySelector('.talk .now').textContent").endswith(texts[turn - 1])
    assert browser.problems == []


@pytest.mark.slow
def test_the_table_can_be_sorted_and_filtered(played: RunFolder, tmp_path: Path, chromium: Browsers) -> None:
    browser = chromium()
    browser.open(page(played, tmp_path))
    balances = sorted(record["outcome"]["balance"] for record in played.metrics())
    visible = "[...document.querySelectorAll('#dialogues tbody tr')].filter((row) => !row.hidden)"

    browser.evaluate(
        "[...document.querySelectorAll('[data-sort]')].find((one) => one.textContent === 'balance').click()"
    )
    shown = browser.evaluate(
        f"{visible}.map((row) => Number(row.querySelector('[data-figure=balance]').dataset.value))"
    )
    browser.evaluate(
        "element('figure').value = 'balance'; element('from').value = '%f'; "
        "element('filters').dispatchEvent(new Event('input'))" % ((balances[2] + balances[3]) / 2)
    )

    assert shown == pytest.approx(balances, abs=1e-6)
    assert browser.evaluate(f"{visible}.length") == sum(one > (balances[2] + balances[3]) / 2 for one in balances)


@pytest.mark.slow
def test_no_text_of_a_model_becomes_markup(tmp_path: Path, chromium: Browsers) -> None:
    folder = run(tmp_path, "turn", episodes=1, replies=(f"x</script><b>bold pending\n{EVIL * 12_000}",))

    file = page(folder, tmp_path)
    browser = chromium()
    browser.open(file)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    assert browser.evaluate("window.taken") is None
    assert browser.evaluate("document.querySelectorAll('main img, main b:not(.legend b)').length") == 0
    assert "</script><script>window.taken=1</script>" in browser.evaluate(
        "document.querySelector('#turn pre').textContent"
    )
    assert "\x00" not in file.read_text()
    assert file.stat().st_size < 5_000_000
    assert browser.problems == []


@pytest.mark.slow
def test_it_can_be_read_without_scripts_and_on_a_narrow_screen(
    played: RunFolder, tmp_path: Path, chromium: Browsers
) -> None:
    file = page(played, tmp_path)
    narrow, still = chromium(), chromium(scripting=False)
    narrow.size(350, 800)

    narrow.open(file)
    still.open(file)

    assert narrow.evaluate("document.documentElement.scrollWidth") == 350
    assert narrow.problems == []
    words = json.dumps(still.call("DOM.getDocument", depth=-1))
    assert "Scripting is off" in words
    assert all(record["user"] in words for record in played.metrics())


@pytest.mark.slow
def test_a_training_shows_its_first_and_last_evaluation_beside_each_other(
    played: RunFolder, tmp_path: Path, chromium: Browsers
) -> None:
    """The folder of a training, made of two runs over the same dialogues."""
    later = run(tmp_path / "runs", replies=("search-faq ready_to_trigger",))
    training = tmp_path / "training"
    for number, folder in ((0, played), (2, later)):
        stage = training / "evaluations" / f"{number:05d}"
        stage.mkdir(parents=True)
        for name in ("episodes.jsonl", "metrics.jsonl"):
            shutil.copy(folder.path / name, stage / name)
    about = json.loads((played.path / "run.json").read_text())
    (training / "run.json").write_text(json.dumps({**about, "updates": 2, "episodes": 6}))

    browser = chromium()
    browser.open(page(RunFolder.open(training), tmp_path))

    assert browser.evaluate("[...document.querySelectorAll('#grids h3')].map((one) => one.textContent)") == [
        "after 0 updates",
        "after 2 updates",
    ]
    assert browser.evaluate("document.querySelectorAll('#grids .grid').length") == 2
    assert browser.problems == []
