"""Feedback has a name, and each rating that teaches no version says why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from command_line import Agentfw
from waiting import until

from agentfw import Episode
from agentfw.episode import Event, Task, Turn
from agentfw_plugins.gateway.learning.ratings import fresh, left_out, read_ratings, why_ignored
from agentfw_plugins.rewards.measured import Feedback, Metric, feedback_of

from .conftest import CLIENT, Served
from .test_sessions import body

Serve = Callable[..., Served]


def ask(gateway: Served, session: str, said: str = "Which tea?") -> None:
    CLIENT.post(f"{gateway.session(session)}/chat/completions", json=body(said)).raise_for_status()


def give(gateway: Served, **feedback: Any) -> httpx.Response:
    return CLIENT.post(f"{gateway.url}/feedback", json={"session": "tea", **feedback})


def test_feedback_with_a_metric_is_kept_beside_the_thumbs(serve: Serve) -> None:
    gateway = serve()
    ask(gateway, "tea")

    solved = give(gateway, metric="solved", value=True, comment="at once")
    stars = give(gateway, metric="stars", value=4, turn=-1, demonstration="A green one.")
    thumb = give(gateway, value="bad", turn=0)

    assert solved.json() == {"session": "tea", "value": True, "turn": None, "metric": "solved"}
    assert (stars.json()["turn"], thumb.json()["value"]) == (0, -1.0)
    shown = CLIENT.get(f"{gateway.url}/s/tea").json()["feedback"]
    assert [(one.get("metric", ""), one["value"], one["text"]) for one in shown] == [
        ("solved", True, "at once"),
        ("stars", 4.0, "A green one."),
        ("", -1.0, ""),
    ]
    address = f"{gateway.url}/view/episode/{gateway.live.folder.id}/00000-0"

    def on_the_page(words: str) -> bool:
        return words in " ".join(CLIENT.get(address).text.split())

    until(lambda: on_the_page("stars: 4, corrected: A green one."))  # the pages read it a moment later
    assert on_the_page("solved: true: at once")
    episode = gateway.episode()
    for metric, given in (
        ("", (0, -1.0, "")),
        ("solved", (None, 1.0, "")),
        ("stars>=5", (0, -1.0, "A green one.")),
        ("stars<=3", (0, -1.0, "A green one.")),
    ):
        assert [one[:3] for one in feedback_of(episode, Metric.read(metric))] == [given]


@pytest.mark.parametrize(
    ("feedback", "field"),
    [
        ({"metric": "a b", "value": 1}, "metric"),
        ({"metric": "stars", "value": [4]}, "value"),
        ({"value": 4}, "value"),
        ({"value": 1, "words": "a", "comment": "b"}, "words"),
        ({"value": 1, "correction": "a", "demonstration": "b"}, "correction"),
        ({"value": 1, "turn": -2}, "turn"),
    ],
)
def test_feedback_that_says_nothing_clear_is_refused_by_the_fields_name(
    gateway: Served, feedback: dict[str, Any], field: str
) -> None:
    ask(gateway, "refused")

    answer = CLIENT.post(f"{gateway.url}/feedback", json={"session": "refused", **feedback})

    assert answer.status_code == 400
    assert field in answer.json()["error"]["message"]


def test_a_metric_is_given_on_the_command_line(gateway: Served, agentfw: Agentfw) -> None:
    ask(gateway, "by-command")

    agentfw("feedback", "by-command", "false", "--metric", "solved", "--url", gateway.url)
    agentfw("feedback", "by-command", "4.5", "--metric", "stars", "--turn", "-1", "--url", gateway.url)
    refused = agentfw("feedback", "by-command", "nan", "--metric", "stars", "--url", gateway.url)

    assert "the gateway refused: value must be" in refused.err
    episode = gateway.episode("by-command")
    found = [(one.data["metric"], one.data["value"]) for one in episode.events if one.name == "feedback"]
    assert found == [("solved", False), ("stars", 4.5)]
    after = [agentfw("feedback", "by-command", "good", *more, "--url", gateway.url) for more in (["--end"], [])][1]
    assert "fix: rate it on its page: agentfw view" in after.told(1)


def test_a_report_of_ended_sessions_names_the_file_whose_figures_are_gone(gateway: Served, agentfw: Agentfw) -> None:
    ask(gateway, "tea")
    CLIENT.post(f"{gateway.url}/s/tea/end").raise_for_status()
    folder = gateway.live.folder.path
    (folder / "metrics.jsonl").unlink()

    assert "metrics.jsonl lacks the figures" in agentfw("report", str(folder)).err


def rated(*answers: tuple[str, tuple[int, ...]], **feedback: Any) -> Episode:
    """A session whose answers ended like this and have these tokens, and what was said of them."""
    model = feedback.pop("model", "")
    turns = [Turn(i, 0, 1, text="yes", finish=end, token_ids=ids, model=model) for i, (end, ids) in enumerate(answers)]
    events = [Event(0, "observation", "feedback", {"turn": None, "at": 1.0, **feedback})]
    return Episode(Task(0, seed=7, query="tea"), turns=turns, events=events)


@pytest.mark.parametrize(
    ("episode", "metric", "why"),
    [
        (rated(("stop", (1,)), value=1.0), "", ""),
        (rated(("stop", (1,)), value=0.2), "", "neither good"),
        (rated(("length", (1,)), value=1.0), "", "cut off at its maximum of tokens"),
        (rated(("stop", ()), value=1.0), "", "tokens of the answer aren't recorded"),
        (rated(("interrupted", (1,)), value=1.0), "", "interrupted"),
        (rated(("stop", (1,)), value=1.0, model="fast"), "", "another model"),
        (rated(value=1.0), "", "no answer yet"),
        (rated(("stop", (1,)), value=1.0), "solved", "learn from the metric solved"),
        (rated(("stop", (1,)), value=True, metric="solved"), "", "feedback without a metric"),
        (rated(("stop", (1,)), value=False, metric="solved"), "solved", ""),
        (rated(("stop", (1,)), value=2, metric="stars"), "stars>=4", ""),
    ],
)
def test_a_rating_that_teaches_no_version_says_why(episode: Episode, metric: str, why: str) -> None:
    about = next(event.data for event in episode.events if event.name == "feedback")

    found = why_ignored(episode, metric, about)

    assert why in found
    assert bool(found) == bool(why)


def test_a_rating_of_an_answer_counts_more_than_one_of_its_session() -> None:
    episode = rated(("stop", (1,)), ("stop", (2,)), value=1.0)
    episode.events.append(Event(0, "observation", "feedback", {"turn": 1, "at": 2.0, "value": -1.0}))

    older = rated(("stop", (1,)), value=-0.5, at=0.5)
    ratings = read_ratings([episode, older], metric="")
    assert [(one.liked, one.at) for one in ratings] == [(False, 0.5), (True, 1.0), (False, 2.0)], "the newest last"
    assert fresh(ratings, 1.0) == 1, "what was learned from isn't new"


def test_versions_learn_from_the_metric_that_is_named_and_the_others_are_counted() -> None:
    episodes = [
        rated(("stop", (1,)), ("length", (2,)), value=5, metric="stars"),
        rated(("stop", (1,)), value=-1.0),
        rated(("stop", (1,)), value=1, metric="stars"),
    ]

    ratings = read_ratings(episodes, metric="stars>=4")

    assert [one.liked for one in ratings] == [True, True, False]
    assert dict(left_out(episodes, (), "stars>=4")) == {
        "the answer was cut off at its maximum of tokens: raise max_tokens": 1
    }


def test_metrics_are_components_that_are_in_no_reward() -> None:
    episode = rated(("stop", (1,)), value=4, metric="stars")
    episode.events += rated(("stop", (1,)), value=1.0, turn=7).events

    scores = asyncio.run(Feedback().score([episode]))

    assert [(one.component, one.value, one.counts, one.turn) for one in scores] == [
        ("metric:stars", 4.0, False, None),
        ("feedback", 1.0, True, None),
    ], "there is no such answer, so it is about the session"
