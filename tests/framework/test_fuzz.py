"""Ten thousand damaged model outputs: each is calls, or failures in words, or plain text, and nothing raises.

What is read out of them is carried out in an inbox: each call is accepted or refused, and whatever comes of it can be
written down as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

import pytest
from damaging import NAMES, OUTPUTS, PIECES, damaged
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw.agent import Agent, Decision
from agentfw.episode import Episode, Intervention, Task
from agentfw.errors import InterventionRefused
from agentfw.request import Moment
from agentfw.seeds import Seeds
from agentfw.timeline import Timeline
from agentfw.turns.engagement import Engagement
from agentfw.turns.parsing import parse_calls
from agentfw_plugins.worlds.inbox.environment import Inbox


class Nobody(Agent):
    async def act(self, moment: Moment) -> Decision:
        return Decision()


class Desk:
    """An inbox in the middle of its day."""

    def __init__(self, seed: int) -> None:
        self.line = Timeline()
        self.episode = Episode(Task(0, seed))
        self.environment = Inbox()
        Engagement(self.environment, Nobody()).start(self.line, self.episode, Seeds(seed), ended=self.line.stop)
        asyncio.run(self.line.run(30))

    def do(self, call: Intervention) -> str:
        try:
            self.environment.intervene(call)
        except InterventionRefused as error:
            refusal = str(error)
        else:
            return "accepted"
        assert len(refusal) < 5_000
        return "refused"

    def close(self) -> None:
        """What was begun comes to its end, and all of it is a record."""
        asyncio.run(self.line.run())
        record = json.dumps(self.episode.to_record(), allow_nan=False).encode()
        assert Episode.from_record(json.loads(record)) == self.episode


def check(text: str, desk: Desk) -> str:
    """What became of one output."""
    parsed = parse_calls(text, NAMES)
    fates = set()
    for call in parsed.calls:
        assert call.name in NAMES
        json.dumps(dict(call.arguments), allow_nan=False, ensure_ascii=False).encode()
        fates.add(desk.do(call))
    for failure in parsed.failures:
        assert failure.strip()
        assert len(failure) < 500
    if parsed.failures:
        fates.add("failure")
    return "+".join(sorted(fates)) or "plain text"


@pytest.mark.slow
def test_ten_thousand_damaged_outputs() -> None:
    generator = random.Random(7)
    fates: Counter[str] = Counter()
    for batch in range(10):
        desk = Desk(batch)
        for _ in range(1000):
            fates[check(damaged(generator), desk)] += 1
        desk.close()
    assert sum(fates.values()) == 10_000
    # All of it must be there, or the damage is of the wrong kind to find anything.
    for fate in ("accepted", "refused", "failure", "plain text", "accepted+failure"):
        assert fates[fate] > 50, fates


@pytest.fixture(scope="module")
def desk() -> Desk:
    return Desk(0)


@settings(max_examples=25)
@given(st.lists(st.one_of(st.text(), st.sampled_from(PIECES + OUTPUTS)), max_size=12))
def test_any_text_at_all(desk: Desk, parts: list[str]) -> None:
    check("".join(parts), desk)
