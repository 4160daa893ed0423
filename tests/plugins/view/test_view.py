"""`agentfw view`: what a person finds in it, over HTTP and in a real Chromium, and that nothing is out of sight."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from command_line import Agentfw
from serving_gateways import CLIENT

from agentfw.runs import RunFolder, compare_runs
from agentfw_plugins.view.annotations import with_annotations
from agentfw_plugins.view.difference import Side, pairs_of, remarkable
from agentfw_plugins.view.index import Index
from agentfw_plugins.view.search import Filter, find

from .conftest import HOST, play, viewed

View = Callable[..., str]


@pytest.fixture(scope="module")
def url(recorded: Path) -> Iterator[str]:
    with viewed(recorded) as address:
        yield address


def read(url: str) -> str:
    answer = CLIENT.get(url, follow_redirects=True)
    assert answer.status_code == 200, answer.text
    return unescape(re.sub(r"<(style|script)>.*?</\1>", "", answer.text, flags=re.S))


def shown(page: str) -> list[str]:
    """The episodes of a table, as links."""
    return re.findall(r'<td data-label="episode"><a href="([^"]+)"', page)


def runs_of(runs: Path) -> list[RunFolder]:
    folders = [RunFolder.open(path) for path in sorted(runs.glob("*inbox*"))]
    return sorted(folders, key=lambda folder: str(folder.about["created"]))


@pytest.mark.parametrize(
    ("filter", "count"),
    [
        ("", 4),
        ("failure=refused", 2),
        ("tool=open_message", 4),
        ("tool=open_messag_", 0),
        ("user=nobody", 0),
        ("outcome=balanced>=0", 4),
        ("outcome=balanced>2", 0),
        ("text=ADA first", 4),
        ('text="first Ada"', 0),
        ("text=%27 OR * NEAR( -", 0),
        ("text=open_message 99", 2),
        ("least=-1", 1),
        ("most=-1.505", 1),
        ("least=-1.5&most=-1.005", 2),
        ("ended=finished&version=script", 4),
        ("ended=ended", 0),
        ("version=scrip", 0),
        ("failure=empty", 0),
        ("mark=unrated", 4),
        ("mark=rated", 0),
    ],
)
def test_episodes_are_filtered(url: str, filter: str, count: int) -> None:
    page = read(f"{url}/?{filter}".replace("%27", "'"))

    assert len(shown(page)) == count


def test_the_address_keeps_what_was_chosen(url: str) -> None:
    answer = CLIENT.get(f"{url}/?text=mail&run=&failure=&sort=reward&order=up", follow_redirects=True)

    assert str(answer.url) == f"{url}/?text=mail&sort=reward&order=up"
    rewards = [float(one) for one in re.findall(r'data-label="reward">(-?[\d.]+)<', answer.text)]
    assert rewards == sorted(rewards)
    assert 'name="text" value="mail"' in answer.text


def test_a_filter_that_means_nothing_is_told(url: str) -> None:
    for filter in ("outcome=error", "least=much", "failure=bad", "sort=luck", "text=* -", "mark=odd"):
        answer = CLIENT.get(f"{url}/?{filter}")

        assert answer.status_code == 400, filter
        assert "Traceback" not in answer.text


def test_the_page_of_an_episode_has_its_scores_with_their_rule_and_its_prompt(recorded: Path, url: str) -> None:
    folder = runs_of(recorded)[1]
    episode = next(folder.episodes())
    page = read(f"{url}/episode/{folder.id}/{episode.id}")

    assert f"utility<small>{HOST.find('reward', 'utility').component.summary}" in page
    assert episode.messages[0].content in page
    assert f'id="turn-{len(episode.turns)}"' in page
    assert f'data-messages="{" ".join(map(str, episode.turns[1].shown))}"' in page
    for event in episode.events:
        assert str(event.data.get("text", "")) in page


def test_two_runs_are_compared_task_by_task_as_in_the_terminal_by_any_figure(recorded: Path, url: str) -> None:
    careful, failed = runs_of(recorded)
    found = compare_runs([careful, failed])
    figure = found[-1].figure
    page = read(f"{url}/runs")
    asked, back = (
        read(f"{url}/runs?left={left.id}&right={right.id}&figure=reward")
        for left, right in ((careful, failed), (failed, careful))
    )
    by_figure = read(f"{url}/runs?left={careful.id}&right={failed.id}&figure={figure}")

    assert f'<option value="{careful.id}" selected>' in page, "the run before is the first side"
    assert page.index("most changed") < page.index("worst") < page.index("median") < page.index("best")
    numbers = r'class="number (?:bad|good|)">([+-][\d.]+)<'
    first, second = ([float(number) for number in re.findall(numbers, one)] for one in (asked, back))
    assert len(first) == 2
    assert abs(first[0]) >= abs(first[1])
    assert first == [-one for one in second]
    assert min(first) > 0, "what is nowhere written twice costs less than opening what is there"
    for row in found:
        for one in (*row.intervals, row.differences[1]):
            assert f">{one}</td>" in by_figure, row.figure
    for folder in (careful, failed):
        assert f'href="./run/{folder.id}"' in by_figure
        for episode in folder.episodes():
            assert f'href="./episode/{folder.id}/{episode.id}"' in by_figure


def test_pairs_are_of_one_sample_the_most_changed_first_and_the_worst_is_what_is_not_better() -> None:
    def side(*values: float) -> Side:
        tasks = zip([("a", 0), ("a", 1), ("b", 0)], values, strict=True)
        same = [
            {"environment": "e", "task": task, "sample": at, "figures": {"error": one}} for (task, at), one in tasks
        ]
        return Side("run", RunFolder(Path(), {}), None, same)

    pairs = pairs_of(side(1, 5, 2), side(0, 2, 4), "error")

    assert [pair.change for pair in pairs] == [-3, 2, -1]
    looked_at = [(name, pair.after) for name, pair in remarkable(pairs, "lower")]
    assert looked_at == [("most changed", 2), ("worst", 4), ("median", 2), ("best", 0)]


def test_evaluations_are_told_apart_in_lists_ratings_and_comparisons(runs: Path, view: View) -> None:
    run = runs_of(runs)[0]
    for number, reward in enumerate((0.9, 0.5, 1.0)):
        place = run.path / "evaluations" / f"{number:05d}"
        place.mkdir(parents=True)
        for journal in ("episodes.jsonl", "metrics.jsonl"):
            line = json.loads((run.path / journal).read_text().splitlines()[0])
            for index in range(30):
                name = {"episode": f"{index:05d}-0", "reward": reward} if "episode" in line else {}
                line |= name or {"task": {**line["task"], "index": index}}
                with (place / journal).open("a") as file:
                    file.write(json.dumps(line) + "\n")
    url, second = view(runs), f"{run.id}/evaluations/00001/00001-0"
    CLIENT.post(f"{url}/annotate", data={"episode": second, "turn": "0", "rating": "5"})

    assert len(shown(read(f"{url}/?stage=evaluation+1"))) == 30
    first, last, beyond = (shown(read(f"{url}/?stage=evaluation&page={page}")) for page in (1, 2, 9))
    assert (len({*first}), len({*first, *last})) == (50, 90)
    assert last == beyond
    assert shown(read(f"{url}/?mark=rated")) == [f"./episode/{second}"]
    own = next(one for one in run.episodes() if one.id == "00001-0")
    assert with_annotations(own, run.path).events == own.events, "it is another episode's"
    page = read(f"{url}/run/{run.id}")
    assert page.count("fell most") == 1
    assert page.index("stage=evaluation+1") < page.index("fell most") < page.index("stage=evaluation+0")
    third = read(f"{url}/episode/{run.id}/evaluations/00002/00001-0")
    pair = f"pair?left={second}&right={run.id}/evaluations/00002/00001-0"
    assert re.findall(r'href="[./]*([^"]+)">What the version before did', third) == [pair]


def test_a_folder_of_pages_has_the_runs_that_were_named_and_nothing_of_others(
    recorded: Path, agentfw: Agentfw, tmp_path: Path
) -> None:
    careful, careless = runs_of(recorded)
    words = ("view", careless.id, "--runs", str(recorded), "--bundle", str(tmp_path / "site"))

    made, again = agentfw(*words), agentfw(*words)

    assert (made.code, again.code) == (0, 2)
    files = {file.name: file.read_text("utf-8") for file in (tmp_path / "site").iterdir()}
    assert len([name for name in files if name.startswith(careless.id)]) == 4, "two episodes, and their records"
    assert [name for name, text in files.items() if careful.id in name + text] == []


def test_what_comes_while_the_page_is_open_is_shown(
    recorded: Path, tmp_path: Path, view: View, chromium: Callable[..., Any]
) -> None:
    first, second = runs_of(recorded)
    shutil.copytree(first.path, tmp_path / first.id)
    browser = chromium()
    browser.open(view(tmp_path))
    browser.wait("document.querySelectorAll('.episodes tbody tr').length === 2")

    shutil.copytree(second.path, tmp_path / second.id)

    browser.wait("document.querySelectorAll('.episodes tbody tr').length === 4")


def test_all_links_lead_below_the_prefix_of_a_proxy(recorded: Path, view: View) -> None:
    _, failed = runs_of(recorded)
    url = view(recorded, "/agents/view")
    waiting, seen = [f"{url}/"], set[str]()
    while waiting:
        answer = CLIENT.get(waiting.pop(), follow_redirects=True)
        assert answer.status_code == 200, answer.url
        for attribute, link in re.findall(r'(href|src|action)="([^"#]+)', answer.text):
            found = urljoin(str(answer.url), unescape(link))
            path = found.partition("?")[0]
            if urlsplit(found).netloc == urlsplit(url).netloc and path not in seen:  # one page of each kind is enough
                assert path.startswith(f"{url}/"), (answer.url, link)
                seen.add(path)
                waiting += [found] if attribute != "action" else []  # a form may be one that is posted
    answer = CLIENT.get(f"{url}/?text=mail&run=", follow_redirects=True)
    missing = CLIENT.get(f"{url}/episode/{failed.id}/nothing")

    assert {path.removeprefix(url).split("/")[1] for path in seen} >= {"", "episode", "pair", "runs"}
    assert str(answer.url) == f"{url}/?text=mail"
    assert missing.status_code == 404
    assert 'href="../../"' in missing.text


def test_other_hosts_are_refused(url: str) -> None:
    for path in ("/", "/runs", "/news", "/record/x"):
        assert CLIENT.get(f"{url}{path}", headers={"host": "evil.example"}).status_code == 403
    policy = CLIENT.get(url).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


OUT_OF_SIGHT = """(() => {
    const parts = document.querySelectorAll("main :is(td, th, dd, h1, p, pre, a, button, input, select)");
    const cut = [...parts].filter((one) => {
        const box = one.getBoundingClientRect();
        return one.checkVisibility() && !one.closest("pre") && (box.right > innerWidth + 1 || box.left < -1);
    });
    return cut.map((one) => `${one.tagName} ${one.textContent.trim().slice(0, 40)}`);
})()"""


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
    assert name in CLIENT.get(f"{url}/").text


def test_an_episode_that_was_left_out_says_why_and_is_found_by_it(runs: Path, view: View) -> None:
    reason = {"episode": "00009-0", "stage": "play", "error": "PluginError", "reason": "the drawer is stuck"}
    run = runs_of(runs)[0]
    (run.path / "failed.jsonl").write_text(json.dumps(reason) + "\n")
    (file := run.path / "metrics.jsonl").write_text(re.sub(r'"missed":[\d.]+', '"missed":NaN', file.read_text()))
    url = view(runs)

    for page in (f"{url}/?failure=left_out", f"{url}/?text=drawer", f"{url}/episode/{run.id}/00009-0"):
        assert "the drawer is stuck" in read(page)
    with (run.path / "failed.jsonl").open("a") as failed:
        failed.write('{"retried": ["00009-0"]}\n')
        failed.write(json.dumps(reason | {"episode": "00000-0"}) + '\n{"retried": ["00000-0"]}\n')
    index = Index(runs)
    index.refresh()
    with index.reading() as rows:
        found = {row["episode"]: row["state"] for row in find(rows, Filter(run=run.id, sort="answer_tokens")).rows}
    assert found == {"00000-0": "ended", "00001-0": "ended", "00009-0": "in progress"}, "it is played again"


def test_a_comparison_says_of_how_many_common_tasks_the_differences_are(tmp_path: Path, view: View) -> None:
    whole, short = play(tmp_path), play(tmp_path, episodes=1)

    page = read(f"{view(tmp_path)}/runs?left={whole.id}&right={short.id}")

    assert "1 task that both have played (of 2 and 1; the differences are of these alone), with" in page


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
