"""Annotation by a policy: retries, failures, resuming after a kill, requests at once."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from agentfw import Generation, Policy, Request
from agentfw.errors import EndpointError
from agentfw_papers.timing import annotation_row, turn_row
from agentfw_papers.worlds.proactive.annotating import Annotations, Annotator, Unit
from agentfw_papers.worlds.proactive.asking import Asker
from agentfw_papers.worlds.proactive.dataset import Example, generated
from agentfw_papers.worlds.proactive.domains import load_domain

DOMAIN = load_domain("home_loan")


class Hindsight(Policy):
    """Answers with the references that it was given."""

    def __init__(self, examples: tuple[Example, ...], log: Path | None = None) -> None:
        self.references = {one.id: one.annotation for one in examples}
        self.log, self.asked, self.at_once = log, list[tuple[str, tuple[int, ...]]](), list[int]()
        self.running = 0

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        about = request.moment.observations[0].data
        self.asked.append((about["dialogue"], about["turns"]))
        if self.log:
            with self.log.open("a") as file:
                file.write(f"{os.getpid()} {about['dialogue']} {about['turns']}\n")
        self.running += 1
        self.at_once.append(self.running)
        await self.wait()
        self.running -= 1
        return Generation(self.answer(about["dialogue"], about["turns"], about["attempt"], request), count=7)

    async def wait(self) -> None:
        await asyncio.sleep(0)

    def answer(self, dialogue: str, turns: tuple[int, ...], attempt: int, request: Request) -> str:
        rows = [turn_row(self.references[dialogue].at(turn)) for turn in turns]
        return json.dumps(rows[0] if len(rows) == 1 else {"turns": rows})


def run(policy: Policy, examples: tuple[Example, ...], folder: Path, *, name: str = "test", jobs: int = 4,
        unit: Unit = "turn", observed: bool = False, domain: object = DOMAIN) -> Annotations:  # fmt: skip
    asker = Asker(policy, name=name, jobs=jobs)
    annotator = Annotator(domain, asker, unit=unit, observed=observed)  # type: ignore[arg-type]
    return asyncio.run(annotator.annotate([one.dialogue for one in examples], folder))


@pytest.mark.parametrize("unit", ["turn", "dialogue"])
def test_answers_become_annotations_in_the_order_of_the_dialogues(tmp_path: Path, unit: Unit) -> None:
    examples = generated(DOMAIN, "train", 1, 5)
    policy = Hindsight(examples)

    found = run(policy, examples, tmp_path, unit=unit)

    assert [annotation_row(one) for one in found.complete] == [annotation_row(one.annotation) for one in examples]
    spoken = sum(len(one.dialogue.turns) for one in examples)
    assert len(policy.asked) == found.answers == (spoken if unit == "turn" else 5)
    assert (found.failed, found.tokens) == ({}, 7 * found.answers)


def test_the_annotator_reads_the_whole_dialogue_but_not_what_was_triggered(tmp_path: Path) -> None:
    seen = []

    class Reader(Hindsight):
        def answer(self, dialogue: str, turns: tuple[int, ...], attempt: int, request: Request) -> str:
            seen.append(request.messages[-1].content)
            return "[]"

    domain = load_domain("abcd")
    [example] = generated(domain, "train", 1, 1)
    entry = next(turn.text for turn in example.dialogue.turns if turn.speaker == "action")

    run(Reader((example,)), (example,), tmp_path / "hidden", domain=domain)
    run(Reader((example,)), (example,), tmp_path / "shown", domain=domain, observed=True)

    spoken = [turn.text for turn in example.dialogue.turns if turn.speaker != "action"]
    assert all(text in seen[0] for text in spoken)
    assert entry not in seen[0]
    assert entry in seen[-1]
    assert len(seen) == 2 * len(spoken)


@pytest.mark.slow
def test_answers_that_cannot_be_used_are_asked_for_again_and_failures_are_counted(tmp_path: Path) -> None:
    damaged = Counter[str]()

    class Damaged(Hindsight):
        """Damages three answers of ten, and never mends those about one dialogue's second turn."""

        def answer(self, dialogue: str, turns: tuple[int, ...], attempt: int, request: Request) -> str:
            right = super().answer(dialogue, turns, attempt, request)
            draw = random.Random(f"{dialogue} {turns} {attempt}")
            if dialogue == hopeless and turns == (2,):
                damaged["hopeless"] += 1
                return '{"opportunities": [{"name": "dance", "status": "pending"}]}'
            if attempt == 0 and draw.random() < 0.3:
                damaged["once"] += 1
                return draw.choice(["", "no idea", "{", '[{"name": "dance"}]', '{"answer": 3}'])
            if attempt:
                assert "can't be used" in request.messages[-1].content
            return right

    examples = generated(DOMAIN, "train", 1, 12)
    hopeless = examples[3].id

    found = run(Damaged(examples), examples, tmp_path)

    assert damaged["hopeless"] == 4
    assert list(found.failed) == [hopeless]
    assert 'there is no action "dance"' in found.failed[hopeless]
    assert found.retried == damaged["once"] + 1 > found.answers / 5
    expected = [annotation_row(one.annotation) for one in examples if one.id != hopeless]
    assert [annotation_row(one) for one in found.complete] == expected


def test_an_answer_that_was_cut_off_is_asked_for_again(tmp_path: Path) -> None:
    class Long(Hindsight):
        async def generate(self, request: Request) -> Generation:
            generation = await super().generate(request)
            assert request.moment is not None
            if request.moment.observations[0].data["attempt"] == 0:
                # What is left of it could be read, but may lack actions.
                generation.finish = "length"
            return generation

    examples = generated(DOMAIN, "train", 1, 1)

    found = run(Long(examples), examples, tmp_path)

    assert found.retried == found.answers
    assert [annotation_row(one) for one in found.complete] == [annotation_row(one.annotation) for one in examples]


def test_a_server_that_is_gone_stops_the_work_and_keeps_what_there_is(tmp_path: Path) -> None:
    class Gone(Hindsight):
        def answer(self, dialogue: str, turns: tuple[int, ...], attempt: int, request: Request) -> str:
            if len(self.asked) > 30:
                raise EndpointError("nobody answers")
            return super().answer(dialogue, turns, attempt, request)

    examples = generated(DOMAIN, "train", 1, 3)

    with pytest.raises(EndpointError, match="nobody answers"):
        run(Gone(examples), examples, tmp_path)
    policy = Hindsight(examples)
    found = run(policy, examples, tmp_path)

    assert found.from_before >= 26
    assert len(policy.asked) == found.answers - found.from_before
