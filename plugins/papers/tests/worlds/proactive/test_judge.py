"""The program as judge: what it makes of a dialogue, and the marks that follow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentfw import Message, Request
from agentfw_papers.worlds.proactive.conversations import asked_turns
from agentfw_papers.worlds.proactive.dataset import generated
from agentfw_papers.worlds.proactive.domains import load_domain
from agentfw_papers.worlds.proactive.judge import Listener, TimingJudge, TimingJudgeSettings
from agentfw_papers.worlds.proactive.prompting import dialogue_lines
from agentfw_rewardmodels.rubric import make_question

DOMAIN = """
name: bakery
version: "1"
slots:
  cake: {values: [apple, plum]}
  day: {pattern: "(Sun|Mon)day"}
actions:
  look-up-customer: {}
  order-cake: {parameters: [cake, day], required: [cake, day]}
  cancel-order: {}
workflows:
  birthday: [look-up-customer, order-cake]
  cancelling: [look-up-customer, cancel-order]
phrases:
  openings:
    birthday: [I want a cake for a birthday, a birthday needs a cake now, b b b b, c c c c, d d d d, e e e e]
    cancelling: [please cancel what I ordered, f f f f, g g g g, h h h h, i i i i, j j j j]
  entries: {look-up-customer: "The customer was looked up"}
"""

WISH = "1 customer: Hello, I want a cake for a birthday"
CAKE = "2 professional: Which cake?\n3 customer: With apple please"
DAY = "4 professional: When?\n5 customer: On Sunday"


@pytest.fixture
def bakery(tmp_path: Path) -> Path:
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    return tmp_path


def marks(
    folder: Path, dialogue: str, answers: Sequence[str], workflows: tuple[str, ...] = (), **options: Any
) -> list[float]:
    """The marks of answers to one dialogue, through the question that a rubric asks."""
    prompt = [{"role": "system", "content": "Foresee."}, {"role": "user", "content": f"[3]\n{dialogue}"}]
    question = make_question([[*prompt, {"role": "assistant", "content": answer}] for answer in answers], **options)
    judge = TimingJudge(TimingJudgeSettings(domain=str(folder), workflows=workflows))
    request = Request([Message(one["role"], one["content"]) for one in question.messages])

    generation = asyncio.run(judge.generate(request))

    found = {row["id"]: row["score"] for row in json.loads(generation.text)["scores"]}
    return [found[place] for place in question.places]


def test_ready_with_all_inputs_stands_above_waiting_and_above_what_is_not_needed(bakery: Path) -> None:
    dialogue = "\n".join([WISH, CAKE, DAY])

    ready, waiting, other = marks(
        bakery,
        dialogue,
        [
            "look-up-customer ready_to_trigger\norder-cake ready_to_trigger cake=apple day=Sunday",
            "look-up-customer pending\norder-cake pending",
            "cancel-order ready_to_trigger",
        ],
    )

    assert ready > waiting
    assert (ready, waiting, other) == (1.0, 0.0, 0.0)


def test_ready_with_an_input_missing_is_a_false_alarm(bakery: Path) -> None:
    dialogue = "\n".join([WISH, CAKE])

    patient, hasty = marks(
        bakery,
        dialogue,
        ["look-up-customer ready_to_trigger", "look-up-customer ready_to_trigger\norder-cake ready_to_trigger"],
    )

    assert patient == 1
    # A hit that was possible two turns ago counts a third, against one false alarm.
    assert hasty == pytest.approx(0.5 + 0.5 * (1 / 3 - 1) / (1 / 3 + 1), abs=1e-6)


def test_what_an_entry_reports_is_done(bakery: Path) -> None:
    dialogue = f"{WISH}\n2 action: The customer was looked up"

    nothing, again = marks(bakery, dialogue, ["nothing", "look-up-customer ready_to_trigger"])

    assert (nothing, again) == (0.5, 0.0)


def test_a_judge_of_some_workflows_marks_them_as_before_and_has_no_opinion_on_others(bakery: Path) -> None:
    answers = ["look-up-customer ready_to_trigger", "look-up-customer pending"]

    known = marks(bakery, WISH, answers, workflows=("birthday",))
    other = marks(bakery, WISH, answers, workflows=("cancelling",))

    assert known == marks(bakery, WISH, answers)
    assert known[0] > known[1]
    assert other == [0.5, 0.5]


def test_a_catalog_longer_than_the_judge_reads_does_not_hide_the_end_of_the_dialogue(bakery: Path) -> None:
    long = "\n".join(
        [WISH, *(f"{number} customer: well, {'hm ' * 20}" for number in range(2, 80)), "80 customer: apple"]
    )
    listened = Listener(load_domain(str(bakery)))

    cut = marks(bakery, f"{'catalog ' * 4000}\n{long}", ["nothing", "cancel-order ready_to_trigger"], longest=8000)

    assert listened.listen(long).turn == 80
    assert cut[0] >= cut[1]


@pytest.mark.parametrize("name", ["abcd", "home_loan"])
def test_the_judge_and_the_references_are_of_different_opinions(name: str) -> None:
    """A judge that restated the references would make training by it circular, and one that missed them pointless."""
    domain = load_domain(name)
    listener = Listener(domain)
    alike = total = found = expected = 0
    for example in generated(domain, "test", 7, 15):
        for turn in asked_turns(example.dialogue, "spoken"):
            possible = listener.listen(dialogue_lines(example.dialogue, 1, turn)).possible.keys()
            ready = {one.name for one in example.annotation.at(turn).opportunities if one.ready}
            alike, total = alike + (possible == ready), total + 1
            found, expected = found + len(possible & ready), expected + len(ready)

    assert 0.75 < alike / total < 0.95
    assert found / expected > 0.75
