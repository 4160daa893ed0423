"""Problems with a budget: the clock says what is in time, any form of answer will do, and splits share no problem."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agentfw.episode import Episode, Intervention, Task
from agentfw.errors import SettingsError
from agentfw.request import Moment
from agentfw_papers.worlds.budget.budget_settings import BudgetSettings
from agentfw_papers.worlds.budget.environment import Budget, Correct
from agentfw_papers.worlds.budget.problems import draw_problem, same, share_of
from agentfw_plugins.policies.scripted import ScriptedPolicy, ScriptedSettings
from agentfw_plugins.rewards.measured import Utility

from ..playing import play as play_in


def solved(moment: Moment, by: int = 0) -> str:
    """The sum that is asked for, and so much more."""
    (problem,) = moment.of("problem")
    words = str(problem.data["question"]).removeprefix("What is ").rstrip("?")
    return str(sum(map(int, words.split(" + "))) + by)


def right(moment: Moment) -> Iterable[str]:
    return [f"Let me see. <answer>{solved(moment)}</answer>"]


def wrong(moment: Moment) -> Iterable[str]:
    return [f"<answer>{solved(moment, by=1)}</answer>"]


def play(rule: Any = None, tokens: int | None = None, paid: float | None = None, **settings: Any) -> Episode:
    """One episode; `paid` is what a token takes where the run says it."""
    policy = ScriptedPolicy(ScriptedSettings(tokens=tokens), rule=rule)
    return play_in(Budget(BudgetSettings.model_validate(settings)), policy, time_per_token=paid)


ONE: dict[str, Any] = {"budgets": (20,), "urgency": ("Be quick.",)}


@pytest.mark.parametrize(
    ("rule", "tokens", "correct", "within"),
    [(right, 20, 1, 1), (right, 21, 1, 0), (wrong, 20, 0, 1), (wrong, 21, 0, 0)],
    ids=["right in time", "right and too late", "wrong in time", "wrong and too late"],
)
def test_only_what_is_right_and_in_time_is_paid(rule: Any, tokens: int, correct: float, within: float) -> None:
    episode = play(rule, tokens, **ONE)
    figures = {"budgeted": correct * within, "correct": correct, "within": within, "tokens": tokens}
    assert episode.outcome == {**figures, **{f"{name}@20": value for name, value in figures.items()}}
    assert (episode.finish, episode.ended) == ("finished", tokens)
    (paid,), (found,) = (asyncio.run(reward.score([episode])) for reward in (Utility(), Correct()))
    assert (paid.value, found.value) == (correct * within, correct)


def test_the_budget_is_time_and_a_slower_machine_has_fewer_tokens() -> None:
    assert play(right, 20, time_per_token=0.1, **ONE).outcome["within"] == 1
    slower = play(right, 20, paid=0.15, time_per_token=0.1, **ONE)
    assert [slower.outcome["within"], slower.outcome["tokens"], slower.ended] == pytest.approx([0, 20, 3])


def test_the_agent_reads_the_budget_and_its_sentence() -> None:
    said = set(zip(BudgetSettings().budgets, BudgetSettings().urgency, strict=True))
    seen = set()
    for seed in range(40):
        episode = play_in(Budget(), ScriptedPolicy(), Task(0, seed))
        (problem,) = (event.data for event in episode.events if event.kind == "observation")
        text = episode.messages[-1].content
        assert f"You have {problem['budget']} tokens. {problem['urgency']}" in text
        assert str(problem["question"]) in text
        seen.add((problem["budget"], problem["urgency"]))
    assert seen == said


@pytest.mark.parametrize(
    "answer",
    [
        lambda result: f"<answer> {result} </answer>",
        lambda result: Intervention("answer", {"text": result}),
        lambda result: Intervention("answer", {"text": int(result)}),
        lambda result: f"<think>perhaps <answer>7</answer></think> It is\n<answer>{result}.00</answer>",
        lambda result: f'{{"name": "answer", "arguments": {{"text": "{result}"}}}}',
    ],
    ids=["written", "called", "called with a number", "the last one counts", "written as a call"],
)
def test_an_answer_may_be_called_or_written_and_without_one_the_problem_is_unsolved(answer: Any) -> None:
    assert play(lambda moment: [answer(solved(moment))]).outcome["correct"] == 1
    for text in ("", "It is 12.", "<answer>", "<answer></answer>"):
        episode = play(lambda moment, text=text: [text])
        assert (episode.finish, episode.outcome["correct"], len(episode.turns)) == ("finished", 0, 1)


def test_each_problem_of_an_episode_has_its_own_budget_from_when_it_is_asked() -> None:
    rules = iter([right, wrong, right])
    episode = play(lambda moment: next(rules)(moment), tokens=20, problems=3, **ONE)
    assert episode.series("correct") == [1, 0, 1]
    assert episode.series("within") == [1, 1, 1]
    assert (episode.ended, episode.rounds, episode.utility) == (60, 3, 2)
    assert [score.value for score in asyncio.run(Correct().score([episode]))] == [1, 0, 1]


def test_no_problem_of_one_split_is_in_another() -> None:
    settings = BudgetSettings.model_validate({"terms": 3, "most": 12})
    drawn = {
        split: {draw_problem(settings, split, Random(seed)).question for seed in range(400)}
        for split in ("train", "validation", "test")
    }
    assert sum(map(len, drawn.values())) == len(set.union(*drawn.values()))
    assert all(share_of(question) == split for split, some in drawn.items() for question in some)


# -- problems from a file ----------------------------------------------------------------------------------------------

EGGS = {"question": "Six boxes\u2028of twelve eggs: how many?", "answer": "Each has 12.\n6*12=<<6*12=72>>72\n#### 72"}


def file_of(path: Path, entries: Sequence[Any]) -> Path:
    lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    path.write_text("\ufeff" + "\n".join(lines) + "\n\n", "utf-8")
    return path


def test_problems_come_from_a_file_in_the_form_of_gsm8k(tmp_path: Path) -> None:
    file_of(tmp_path / "eggs-test.jsonl", [EGGS])
    episode = play(None, file=str(tmp_path / "eggs-{split}.jsonl"))
    assert "Six boxes" in episode.messages[-1].content
    assert episode.turns[0].text == "Each has 12.\n6*12=72\n<answer>72</answer>"
    assert episode.outcome["correct"] == 1
    assert any(f"correct@{budget}" in episode.outcome for budget in (1000, 2000, 4000, 8000))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"question": "?\u2028", "answer": "1"}\nno JSON', "line 2 of .* has no question and answer"),
        ("[1]", "line 1 of .* has no question and answer"),
        ("", "no problems for test"),
        (None, "can't read"),
    ],
)
def test_a_file_that_is_no_use_is_told(text: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(SettingsError, match=words):
        draw_problem(BudgetSettings(file=str(path)), "test", Random(1))


@pytest.mark.parametrize(
    ("given", "answer", "alike"),
    [
        (" $1,200.50 ", "1200.5", True),
        ("7 200", "7200", True),
        ("50%", "50", True),
        ("NaN", "nan", True),
        ("Paris", "paris", True),
        ("1/2", "1 / 2", False),
    ],
)
def test_answers_are_compared_as_numbers_where_they_are_numbers(given: str, answer: str, alike: bool) -> None:
    assert same(given, answer) is alike
