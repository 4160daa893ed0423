"""The world of the assistant: what is hidden stays hidden, every fault has a way out, and no call breaks an app."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml

from agentfw import Episode, Generation, Intervention, Moment, Request, Task
from agentfw.errors import SettingsError
from agentfw.report.statistics import bootstrap
from agentfw_papers.worlds.assistant import rewards
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.card_teacher import CardTeacher, CardTeacherSettings
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_papers.worlds.assistant.linear_policy import LinearPolicy, LinearSettings
from agentfw_plugins.policies.scripted import ScriptedPolicy

from ..playing import Read
from ..playing import play as play_in

VISIBLE = {"procedure", "proactive", "visible_personal", "stars"}
"""What rewards may read."""


def world(**settings: Any) -> Assistant:
    return Assistant(AssistantSettings.model_validate(settings))


def play(task: Task, policy: Any = None, **settings: Any) -> Episode:
    return play_in(world(**settings), policy or ScriptedPolicy(), task)


def many(count: int, policy: Any = None, **settings: Any) -> list[Episode]:
    return [play(task, policy, **settings) for task in world(**settings).tasks(count, 7, "test")]


def test_samples_of_a_task_begin_alike_and_users_with_one_query_are_shown_the_same_offers() -> None:
    env = world()
    tasks = env.tasks(400, 7, "train")
    by_query: dict[str, set[tuple[str, ...]]] = {}
    for task in tasks:
        offers = tuple(item.id for item in env.errands.errand(task.user, task.index // 240 + 1).parts[0].offers)
        by_query.setdefault(task.query, set()).add(offers)

    assert all(len(offers) == 1 for offers in by_query.values())
    assert max(sum(task.query == query for task in tasks) for query in by_query) >= 8
    assert len({task.user for task in tasks}) == 240


def test_references_stand_where_they_should() -> None:
    env = world()
    found: dict[str, list[float]] = {}
    for task in env.tasks(1500, 7, "test"):
        for name, figures in env.references(task).items():
            found.setdefault(name, []).append(figures["satisfaction"])
    means = {name: fmean(values) for name, values in found.items()}

    assert means["knows the truth"] == 1.0
    assert means["random"] == pytest.approx(0.5, abs=0.02)
    assert means["random"] < means["most famous"] <= 0.60
    assert means["most famous"] < means["stated profile"] <= 0.70
    assert means["stated profile"] + 0.15 < means["knows the circle"] < 1.0


def test_rewards_read_the_visible_view_only() -> None:
    played = many(20)
    read = [Read(episode.outcome) for episode in played]
    for episode, outcome in zip(played, read, strict=True):
        episode.outcome = outcome

    for model in (rewards.Base(), rewards.Personal(), rewards.Stars()):
        scores = asyncio.run(model.score(played))

        assert set.union(*(outcome.names for outcome in read)) <= VISIBLE
        assert scores
        assert all(0 <= score.value <= 1 for score in scores)
    bound = asyncio.run(rewards.Satisfaction().score(many(3)))
    assert all(0 <= score.value <= 1 for score in bound)


@pytest.mark.parametrize("style", ["full", "card"])
def test_nothing_that_an_agent_sees_tells_its_users_hidden_taste(style: str) -> None:
    """Two worlds that differ in tastes only show the same texts until the user reacts."""
    same = many(30, agreement=1.0, stated=0.0, faults=0.0, style=style)
    other = many(30, agreement=0.0, stated=0.0, faults=0.0, style=style)

    def shown(episode: Episode) -> list[str]:
        texts = [str(event.data["text"]) for event in episode.events if event.kind == "observation"][:-1]
        return [line for text in texts for line in text.splitlines() if not line.startswith("about:")]

    assert [shown(one) for one in same] == [shown(one) for one in other]


def test_a_false_claim_costs_and_an_honest_failure_less() -> None:
    def gives_up(done: bool) -> Any:
        return lambda moment: [Intervention("answer", {"text": "All done!", "done": done})]

    task = world().tasks(1, 7, "test")[0]
    lied, honest = (play(task, ScriptedPolicy(rule=gives_up(done))) for done in (True, False))

    assert (lied.outcome["claimed_falsely"], honest.outcome["claimed_falsely"]) == (1.0, 0.0)
    assert lied.outcome["procedure"] < honest.outcome["procedure"]


SCENARIO = "calls: [a, b], dated: true, noun: x, names: [x], requests: [a, b]"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no scenarios"),
        ("dining: 3", "not a table"),
        (f"dining: {{{SCENARIO}, questions: {{q: {{v: [a, b, c]}}}}}}", "only one value"),
        (f"dining: {{{SCENARIO}, questions: {{q: {{v: [a], w: [b]}}}}}}", "too few words"),
    ],
)
def test_a_file_of_scenarios_that_cannot_be_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "domains.yaml"
    path.write_text(text)

    with pytest.raises(SettingsError, match=problem) as refused:
        world(domains=str(path))

    assert "domains.yaml" in str(refused.value)


def test_a_policy_that_follows_wishes_serves_better_with_them() -> None:
    env = world()
    plain, told = [], []
    for task in env.tasks(150, 7, "test"):
        errand = env.errands.errand(task.user, task.index // 96 + 1)
        name = errand.parts[0].scenario.name
        tastes = errand.person.tastes[name].values()
        about = (name, f"{name} and billiards", f"billiards and {name}")  # a wish may be about several scenarios
        wishes = [f"- s{n}: For {about[n % 3]}, prefer {value} things" for n, value in enumerate(tastes)]
        plain.append(play(task, LinearPolicy(LinearSettings(own=9, recover=9, check=9))).outcome["satisfaction"])
        told.append(play(task, Whispering(wishes)).outcome["satisfaction"])

    gain = bootstrap([after - before for before, after in zip(plain, told, strict=True)])
    assert gain.low > 0.15


class Whispering(LinearPolicy):
    """Reads these lines of a memory in every message."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(LinearSettings(own=9, recover=9, check=9))
        self._lines = lines

    async def generate(self, request: Request) -> Generation:
        last = request.messages[-1]
        told = replace(last, content="\n".join(["You remember:", *self._lines, last.content]))
        return await super().generate(replace(request, messages=[*request.messages[:-1], told]))


# -- the card: the same world for models that read one message, and the teacher of such a model ------------------------


def cards(episode: Episode) -> list[str]:
    return [message.content for message in episode.messages if message.role == "user"]


def test_both_styles_are_one_world() -> None:
    full, card = (many(25, style=style, difficulty="hard") for style in ("full", "card"))

    def played(episode: Episode) -> tuple[object, ...]:
        return episode.outcome, [[(call.name, call.arguments) for call in turn.calls] for turn in episode.turns]

    assert [played(one) for one in full] == [played(one) for one in card]


def test_every_card_has_all_that_the_next_call_needs() -> None:
    played = many(40, CardTeacher(), style="card", difficulty="hard", faults=1.0)

    for episode in played:
        shown = cards(episode)
        assert len(shown) == len(episode.turns)
        assert all("\nday " in card and len(card) < 1200 for card in shown)
        # Whatever isn't done yet is still on the card.
        assert all("to do: " in card or "done: " in card for card in shown)
    texts = "\n".join(card for episode in played for card in cards(episode))
    told = ("failed: no answer", "has just been taken", "a mail to", "inbox: guest@", "told: guest", "in the calendar")
    assert [what for what in told if what not in texts] == []


def test_only_what_the_user_says_is_told_as_theirs() -> None:
    def asks(moment: Moment) -> Iterable[Intervention]:
        return [Intervention("ask", {"question": "Which?"} if not moment.of("reply") else {"question": ""})]

    (episode,) = many(1, ScriptedPolicy(rule=asks), style="card", turns=2)

    theirs = [event.data for event in episode.events if event.kind == "observation" and event.data.get("by") == "user"]
    assert theirs[0]["said"] == "You know me, choose what you think is right."
    assert f"reply: {theirs[0]['said']}" in cards(episode)[1]


def test_the_teacher_plays_scenarios_of_ones_own(tmp_path: Path) -> None:
    questions = {"size": {"small": ["very small", "tiny", "little"], "large": ["large", "big", "huge"]}}
    own = {"calls": ["cup_search", "cup_take"], "dated": False, "noun": "tea cups", "names": ['The "Blue" <Cup>']}
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"tea": {**own, "requests": ["Tea.", "A tea."], "questions": questions}}), "utf-8")

    teacher = CardTeacher(CardTeacherSettings(domains=str(file)))
    played = many(20, teacher, style="card", domains=str(file), stated=1.0, faults=0.5)

    assert {episode.outcome["procedure"] for episode in played} == {5.0}
    assert fmean(episode.outcome["visible_personal"] for episode in played) > 4.5
    with pytest.raises(SettingsError, match="the scenario tea"):
        many(1, CardTeacher(), style="card", domains=str(file))
