"""Damaged answers of an annotator and damaged files of dialogues: they are asked for again, or refused in words."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from damaging import hurt

from agentfw import Generation, Policy, Request
from agentfw.errors import AgentfwError
from agentfw_papers.timing import turn_row
from agentfw_papers.worlds.proactive.annotating import Annotator
from agentfw_papers.worlds.proactive.asking import Asker
from agentfw_papers.worlds.proactive.dataset import Example, generated, load_data, write_data
from agentfw_papers.worlds.proactive.domains import load_domain


class Damaging(Policy):
    """Writes the references of dialogues, three of ten damaged the first time that they are asked for."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.references = {one.id: one.annotation for one in examples}
        self.generator, self.damaged = random.Random(7), list[tuple[str, int]]()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        about = request.moment.observations[0].data
        [turn] = about["turns"]
        text = json.dumps(turn_row(self.references[about["dialogue"]].at(turn)))
        if not about["attempt"] and self.generator.random() < 0.3:
            self.damaged.append((about["dialogue"], turn))
            text = hurt(text, self.generator)
        return Generation(text, count=1)


@pytest.mark.slow
def test_of_three_damaged_answers_in_ten_none_stops_an_annotation(tmp_path: Path) -> None:
    domain = load_domain("home_loan")
    examples = generated(domain, "train", 1, 5)
    policy = Damaging(examples)

    found = asyncio.run(
        Annotator(domain, Asker(policy, name="damaging")).annotate([one.dialogue for one in examples], tmp_path)
    )

    # What couldn't be used was asked for again. Some damage leaves an answer that can be read, but says something else.
    assert found.failed == {}
    assert found.answers / 5 < len(policy.damaged)
    assert 10 <= found.retried <= len(policy.damaged)
    right = {
        (one.dialogue, turn): one.at(turn) for one in policy.references.values() for turn in range(1, one.length + 1)
    }
    wrong = {
        (one.dialogue, turn)
        for one in found.complete
        for turn in range(1, one.length + 1)
        if one.at(turn) != right[one.dialogue, turn]
    }
    assert wrong <= set(policy.damaged)


@pytest.mark.slow
def test_damaged_files_of_dialogues_are_read_or_refused_in_words(tmp_path: Path) -> None:
    domain = load_domain("home_loan")
    write_data(tmp_path, generated(domain, "train", 1, 2), domain.catalog, {})
    whole = {path: path.read_bytes() for path in tmp_path.iterdir()}
    generator = random.Random(7)
    refusals: list[AgentfwError] = []

    for path, content in whole.items():
        packed = path.suffix == ".gz"
        text = (gzip.decompress(content) if packed else content).decode()
        for _ in range(50):
            damaged_text = hurt(text, generator).encode("utf-8", "surrogatepass")
            # Of the archives, some are damaged themselves, and not what is in them.
            broken = content[: generator.randrange(len(content))] if packed and generator.random() < 0.2 else None
            path.write_bytes(broken if broken is not None else gzip.compress(damaged_text) if packed else damaged_text)
            try:
                load_data(tmp_path).check_catalog(domain.catalog)
            except AgentfwError as error:
                refusals.append(error)
        path.write_bytes(content)

    assert len(refusals) > 75
    assert all(one.message.strip() and one.fix for one in refusals)
    assert len(load_data(tmp_path).examples) == 2
